//! `benthic put`: stores a file or standard input as an object.

use crate::commands;
use benthic_program::exit::Outcome;
use benthic_program::local;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::transfer::{self, Replaced};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

#[derive(Args)]
#[command(
    after_help = "The file replaces the object's data; attributes and keys stay. The command refuses a file of \
    more than 128 MiB before it stores anything. It writes up to 64 MiB in one atomic operation. A larger file \
    takes several operations, so a reader may see the object grow; if one of them fails, the command removes \
    the object.\n\n\
    Examples:\n  benthic put photos/cat.jpg cat.jpg\n  date | benthic put logs:today/start -"
)]
pub struct PutArgs {
    /// The object: POOL/OBJECT or POOL:NAMESPACE/OBJECT
    object: String,
    /// The file, or - for stdin
    file: PathBuf,
}

pub async fn run(args: PutArgs, session: &Session) -> Outcome {
    let (pool, file) = (&args.object, args.file.display());
    let address =
        commands::object_address(pool, &format!("`benthic put {pool}/NAME {file}` stores the file"))?;
    commands::check_writable(address.object.namespace())?;
    let data = if args.file.as_os_str() == "-" {
        local::read_stdin().await?
    } else {
        blocking(move || local::read_file(&args.file)).await?.data
    };
    let pool = session.pool(&address.pool).await?;
    let size_bytes = data.len();
    transfer::upload(&*pool, &address.object, Replaced::Any, data, None).await?;
    commands::print_json(session, &address, json!({ "size_bytes": size_bytes }))
}
