//! `benthic get`: fetches one version of an object into a file or to stdout.

use crate::commands;
use crate::commands::cp::download;
use benthic_core::{ErrorKind, ObjectAddress, Pool};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::local::NewFile;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::transfer::Download;
use benthic_striped::explain;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

/// Attempts to read an object that another client writes during the read.
const ATTEMPTS: usize = 5;

#[derive(Args)]
#[command(
    after_help = "The file gets one version of the object. The command replaces an existing file only when the \
    new one is complete. If it fails or is interrupted, it leaves nothing behind.\n\n\
    Examples:\n  benthic get photos/cat.jpg cat.jpg\n  benthic get logs:today/start - | head"
)]
pub struct GetArgs {
    /// The object: POOL/OBJECT or POOL:NAMESPACE/OBJECT
    object: String,
    /// The file, or - for stdout
    file: PathBuf,
}

pub async fn run(args: GetArgs, session: &Session) -> Outcome {
    let (pool, address) = commands::locate(session, &args.object).await?;
    if args.file.as_os_str() == "-" {
        session.out.end_with_reader();
        fetch(&*pool, &address, |data| session.out.write_bytes(data)).await?;
        return Ok(());
    }
    // Check the object before creating the file, because a missing object is the more likely
    // mistake.
    if let Err(error) = pool.stat(&address.object).await {
        return Err(explain(error, pool, &address.object, "cp").await.into());
    }
    download::check_target(&args.file, false, session.directory().map(Arc::from)).await?;
    let path = args.file.clone();
    let mut file = blocking(move || NewFile::create(&path)).await?;
    let mut attempt = 1;
    let size_bytes = loop {
        let fetched = fetch(&*pool, &address, |data| Ok(file.write(data)?)).await;
        match fetched {
            Err(Failure::Error(error)) if error.kind() == ErrorKind::Conflict && attempt < ATTEMPTS => {
                file.truncate(0)?;
                attempt += 1;
            }
            fetched => break fetched?,
        }
    };
    blocking(move || file.finish(None)).await?;
    commands::print_json(session, &address, json!({ "size_bytes": size_bytes }))
}

/// Passes the data of an object to `write`, range by range, and returns its size.
pub async fn fetch(
    pool: &dyn Pool,
    address: &ObjectAddress,
    mut write: impl FnMut(&[u8]) -> Outcome,
) -> Outcome<u64> {
    let mut download = Download::start(pool, &address.object).await?;
    let mut size_bytes = 0;
    while let Some(data) = download.next().await? {
        interrupt::check()?;
        write(&data)?;
        size_bytes += data.len() as u64;
    }
    Ok(size_bytes)
}
