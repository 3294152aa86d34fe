//! `benthic get`: fetches one version of an object into a file or to stdout.

use crate::commands;
use benthic_core::{ErrorKind, ObjectAddress, Pool};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::local::NewFile;
use benthic_program::output::object_fields;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::transfer::Download;
use benthic_striped::explain;
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;

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
        return print(&*pool, &address, session).await;
    }
    // Check the object before creating the file, because a missing object is the more likely
    // mistake.
    if let Err(error) = pool.stat(&address.object).await {
        return Err(explain(error, pool, &address.object, "cp").await.into());
    }
    let path = args.file.clone();
    let mut file = blocking(move || NewFile::create(&path)).await?;
    let mut attempt = 1;
    let size_bytes = loop {
        match fetch(&*pool, &address, &mut file).await {
            Err(Failure::Error(error)) if error.kind() == ErrorKind::Conflict && attempt < ATTEMPTS => {
                file.restart()?;
                attempt += 1;
            }
            fetched => break fetched?,
        }
    };
    blocking(move || file.finish(None)).await?;
    if session.out.is_json() {
        let mut fields = object_fields(&address.pool, &address.object);
        fields.insert("size_bytes".to_owned(), json!(size_bytes));
        session.out.json_line(&Value::Object(fields))?;
    }
    Ok(())
}

async fn fetch(pool: &dyn Pool, address: &ObjectAddress, file: &mut NewFile) -> Outcome<u64> {
    let mut download = Download::start(pool, &address.object).await?;
    let mut size_bytes = 0;
    while let Some(data) = download.next().await? {
        interrupt::check()?;
        file.write(&data)?;
        size_bytes += data.len() as u64;
    }
    Ok(size_bytes)
}

async fn print(pool: &dyn Pool, address: &ObjectAddress, session: &Session) -> Outcome {
    let mut download = Download::start(pool, &address.object).await?;
    while let Some(data) = download.next().await? {
        interrupt::check()?;
        session.out.write_bytes(&data)?;
    }
    Ok(())
}
