//! `benthic rm`: removes objects or, with `--stripe`, striped objects with all their pieces.

use crate::jobs::Failures;
use crate::{commands, jobs};
use benthic_core::{ObjectAddress, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::session::Session;
use benthic_striped::lock::WAIT_DEFAULT_S;
use benthic_striped::{explain, remove};
use clap::Args;
use serde_json::json;
use std::time::Duration;

#[derive(Args)]
#[command(
    after_help = "A missing object is an error, but the command still removes the others. It also removes \
    incomplete striped objects, which an interrupted copy or removal left.\n\n\
    Examples:\n  benthic rm photos/cat.jpg photos/dog.jpg\n  benthic rm --stripe data/run42.root"
)]
pub struct RmArgs {
    /// The objects are striped (from `benthic cp --stripe` or `rados --striper`): remove all their pieces
    #[arg(long)]
    stripe: bool,
    /// With --stripe: seconds to wait for other clients that have locked the striped object [default: 30]
    #[arg(long, value_name = "SECONDS", requires = "stripe")]
    lock_wait: Option<u64>,
    /// The objects: POOL/OBJECT or POOL:NAMESPACE/OBJECT
    #[arg(required = true, value_name = "OBJECT")]
    objects: Vec<String>,
}

pub async fn run(args: RmArgs, session: &Session) -> Outcome {
    // Parse all addresses first, so that an invalid one removes nothing.
    let addresses: Vec<ObjectAddress> =
        args.objects.iter().map(|text| address(text)).collect::<Result<_>>()?;
    if let [address] = addresses.as_slice() {
        remove(session, address, &args).await?;
        return commands::print_json(session, address, json!({}));
    }
    session.check_writable().await?;
    let mut failures = Failures::default();
    for address in &addresses {
        interrupt::check()?;
        match remove(session, address, &args).await {
            Ok(()) => commands::print_json(session, address, json!({}))?,
            Err(failure) if interrupt::is_set() => return Err(failure),
            Err(Failure::Error(error)) => failures.push(address.to_string(), error),
            Err(failure) => return Err(failure),
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

async fn remove(session: &Session, address: &ObjectAddress, args: &RmArgs) -> Outcome {
    let (pool, object) = (session.pool_for_removal(&address.pool).await?, address.object.clone());
    if args.stripe {
        let at = commands::striped(session, pool, object).await?;
        let lock_wait = Duration::from_secs(args.lock_wait.unwrap_or(WAIT_DEFAULT_S));
        remove::remove(&at, jobs::default_jobs(), lock_wait).await?;
        return Ok(());
    }
    match pool.remove(&object).await {
        Err(error) => Err(explain(error, pool, &object, "rm").await.into()),
        Ok(()) => Ok(()),
    }
}
