//! `benthic rm`.

use crate::exit::Outcome;
use crate::jobs::Failures;
use crate::store::Session;
use crate::{commands, interrupt};
use benthic_core::{ObjectAddress, Result};
use clap::Args;
use serde_json::Value;

/// Arguments of `benthic rm`.
#[derive(Args)]
#[command(after_help = "A missing object is an error; the others are removed all the same.\n\n\
    Example:\n  benthic rm photos/cat.jpg photos/dog.jpg")]
pub struct RmArgs {
    /// The objects: POOL/OBJECT or POOL:NAMESPACE/OBJECT
    #[arg(required = true, value_name = "OBJECT")]
    objects: Vec<String>,
}

pub async fn run(args: RmArgs, session: &Session) -> Outcome {
    // A typing error in one address removes nothing.
    let addresses: Vec<ObjectAddress> =
        args.objects.iter().map(|text| address(text)).collect::<Result<_>>()?;
    if let [address] = addresses.as_slice() {
        remove(session, address).await?;
        return tell(session, address);
    }
    let mut failures = Failures::default();
    for address in &addresses {
        interrupt::check()?;
        match remove(session, address).await {
            Ok(()) => tell(session, address)?,
            Err(error) => failures.push(address.to_string(), error),
        }
    }
    failures.finish(&session.out, addresses.len() as u64)
}

fn address(text: &str) -> Result<ObjectAddress> {
    let instead = format!("`benthic pool rm {text}` removes a pool with all its objects");
    let address = commands::object_address(text, &instead)?;
    commands::check_writable(address.object.namespace())?;
    Ok(address)
}

async fn remove(session: &Session, address: &ObjectAddress) -> Result<()> {
    session.pool(&address.pool).await?.remove(&address.object).await
}

fn tell(session: &Session, address: &ObjectAddress) -> Outcome {
    if session.out.is_json() {
        session.out.json_line(&Value::Object(commands::address_fields(address)))?;
    }
    Ok(())
}
