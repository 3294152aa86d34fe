//! `benthic rm`: removes objects or, with `--stripe`, striped objects with all their pieces.

use crate::jobs::{Failures, Limits};
use crate::{commands, jobs};
use benthic_core::{Action, ObjectAddress, ObjectId, Pool, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_striped::lock::WAIT_DEFAULT_S;
use benthic_striped::{Striped, explain, remove};
use clap::Args;
use futures::stream::{self, StreamExt};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

#[derive(Args)]
#[command(
    after_help = "A missing object is an error, but the command still removes the others. It stops early when the store has \
    not answered for the time of --outage-wait. It also removes \
    incomplete striped objects, which an interrupted copy or removal left.\n\n\
    Examples:\n  benthic rm photos/cat.jpg photos/dog.jpg\n  benthic rm --stripe data/run42.root"
)]
pub struct RmArgs {
    /// The objects are striped (from `benthic cp --stripe` or `rados --striper`): remove all their
    /// pieces
    #[arg(long)]
    stripe: bool,
    /// With --stripe: seconds to wait for other clients that have locked the striped object
    /// [default: 30]
    #[arg(long, value_name = "SECONDS", requires = "stripe")]
    lock_wait: Option<u64>,
    /// Of several objects: stop when the store has not answered for this number of seconds
    #[arg(long, value_name = "SECONDS", value_parser = jobs::parse_seconds, default_value = "60")]
    outage_wait: Duration,
    /// The objects: POOL/OBJECT or POOL:NAMESPACE/OBJECT
    #[arg(required = true, value_name = "OBJECT")]
    objects: Vec<String>,
}

pub async fn run(args: RmArgs, session: &Session) -> Outcome {
    // Parse all addresses first, so that an invalid one removes nothing.
    let addresses: Vec<ObjectAddress> =
        args.objects.iter().map(|text| address(text)).collect::<Result<_>>()?;
    let lock_wait = Duration::from_secs(args.lock_wait.unwrap_or(WAIT_DEFAULT_S));
    if let [address] = addresses.as_slice() {
        Removal::prepare(session, address, args.stripe).await?.run(lock_wait).await?;
        return commands::print_json(session, address, json!({}));
    }
    session.check_writable().await?;
    let of = addresses.len() as u64;
    let mut failures = Failures::default();
    let removals = stream::iter(addresses).then(async |address| {
        let removal = Removal::prepare(session, &address, args.stripe).await;
        Ok((address, removal))
    });
    let job = |(address, removal): (ObjectAddress, Result<Removal>)| async move {
        let removed = match removal {
            Ok(removal) => jobs::until_stopped(Action::Write, removal.run(lock_wait)).await,
            Err(error) => Err(error),
        };
        (address, removed)
    };
    let limits = Limits { outage_wait: args.outage_wait, session: Some(session), ..1.into() };
    let ended = jobs::run(removals, limits, job, |(address, removed)| match removed {
        Ok(()) => commands::print_json(session, &address, json!({})),
        Err(error) => {
            failures.push(address.to_string(), error);
            Ok(())
        }
    })
    .await;
    ended.and(failures.finish(&session.out, of))
}

fn address(text: &str) -> Result<ObjectAddress> {
    let instead = format!("`benthic pool rm {text}` removes a pool with all its objects");
    let address = commands::object_address(text, &instead)?;
    commands::check_writable(address.object.namespace())?;
    Ok(address)
}

/// An object that is about to be removed.
enum Removal {
    Object(Arc<dyn Pool>, ObjectId),
    Striped(Striped),
}

impl Removal {
    async fn prepare(session: &Session, address: &ObjectAddress, is_striped: bool) -> Result<Removal> {
        let (pool, object) = (session.pool_for_removal(&address.pool).await?, address.object.clone());
        if is_striped {
            return commands::striped_object(session, pool, object).await.map(Removal::Striped);
        }
        Ok(Removal::Object(pool, object))
    }

    async fn run(self, lock_wait: Duration) -> Result<()> {
        match self {
            Removal::Striped(at) => remove::remove(&at, jobs::default_jobs(), lock_wait).await.map(drop),
            Removal::Object(pool, object) => match pool.remove(&object).await {
                Err(error) => Err(explain(error, pool, &object, "rm").await),
                Ok(()) => Ok(()),
            },
        }
    }
}
