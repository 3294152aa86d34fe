//! `benthic cat`: prints the data of objects.

use crate::commands::{self, get};
use crate::jobs::Failures;
use benthic_core::{ObjectAddress, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::session::Session;
use benthic_striped::explain;
use clap::Args;

#[derive(Args)]
#[command(
    after_help = "The command prints the bytes unchanged and nothing between two objects, also with --json. A \
    missing object is an error, but the command still prints the others.\n\n\
    Examples:\n  benthic cat logs/2026-01 logs/2026-02 | grep error\n  benthic cat photos/cat.jpg > cat.jpg"
)]
pub struct CatArgs {
    /// The objects: POOL/OBJECT or POOL:NAMESPACE/OBJECT
    #[arg(required = true, value_name = "OBJECT")]
    objects: Vec<String>,
}

pub async fn run(args: CatArgs, session: &Session) -> Outcome {
    session.out.end_with_reader();
    let address =
        |text: &String| commands::object_address(text, &format!("`benthic ls {text}` lists a pool"));
    let addresses: Vec<ObjectAddress> = args.objects.iter().map(address).collect::<Result<_>>()?;
    if let [address] = addresses.as_slice() {
        return print(session, address).await;
    }
    let mut failures = Failures::default();
    for address in &addresses {
        match print(session, address).await {
            Err(Failure::Error(error)) => failures.push(address.to_string(), error),
            printed => printed?,
        }
    }
    session.out.flush()?;
    failures.finish(&session.out, addresses.len() as u64)
}

async fn print(session: &Session, address: &ObjectAddress) -> Outcome {
    let pool = session.pool(&address.pool).await?;
    match get::fetch(&*pool, address, |data| session.out.write_bytes(data)).await {
        Err(Failure::Error(error)) => Err(explain(error, pool, &address.object, "cp").await.into()),
        fetched => fetched.map(|_| ()),
    }
}
