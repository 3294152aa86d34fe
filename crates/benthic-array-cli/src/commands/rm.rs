//! `benthic array rm`: removes an array or group.

use super::watch_progress;
use benthic_array::{ArrayAddress, Node, Place};
use benthic_core::Error;
use benthic_program::confirm::{Deletion, named};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::units;
use clap::Args;
use futures::TryStreamExt;
use futures::future::ready;
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};

/// Arguments of `benthic array rm`.
#[derive(Args)]
#[command(after_help = "\
Removes the metadata first, so that no reader finds the array any more, and then every object below its name. The command \
lists what it deletes and asks for the address; --yes POOL/PATH answers without a terminal. Repeat an interrupted \
removal to finish it.

Examples:
  benthic array rm climate/era5
  benthic array rm climate/era5/t2m --yes climate/era5/t2m")]
pub struct RmArgs {
    /// The array or group: POOL[:NS]/PATH
    place: ArrayAddress,
    /// Confirm the deletion: the address again
    #[arg(long, value_name = "POOL/PATH")]
    yes: Option<String>,
}

pub async fn run(args: RmArgs, session: &Session) -> Outcome {
    if args.place.path.is_empty() {
        let message = "name an array or group: POOL[:NS]/PATH; `benthic pool rm` removes a pool";
        return Err(Failure::Usage(message.to_owned()));
    }
    session.check_writable().await?;
    let pool = session.pool_for_removal(&args.place.pool.pool).await?;
    let (namespace, path) = (args.place.pool.namespace.clone(), args.place.path.clone());
    let place = Place { pool, namespace, path };
    let name = args.place.to_string();
    let mut names = std::pin::pin!(place.names().try_filter(|page| ready(!page.is_empty())));
    if names.try_next().await?.is_none() {
        let message = "no array or group; `benthic array ls` lists them";
        return Err(Error::not_found(message).with("array", name).into());
    }
    let deletion = Deletion { noun: "array", name: &name, yes: args.yes.as_deref(), missing: None };
    deletion.confirm(&session.out, async || contents(&place).await).await?;
    let removed = AtomicU64::new(0);
    let progress = Progress::objects("removing");
    let removal = benthic_array::remove(&place, &removed);
    watch_progress(&progress, || removed.load(Ordering::Relaxed), removal).await?;
    let removed = removed.into_inner();
    let text = format!("{}: {} removed", units::one_line(&name), units::count(removed, "object"));
    session.out.result(text, || json!({ "array": name, "objects_removed": removed }))
}

/// Describes the array or group at a place. Lists all its objects.
async fn contents(place: &Place) -> Outcome<Vec<String>> {
    let arrays: Vec<String> = benthic_array::list(place)
        .await?
        .into_iter()
        .filter(|listed| !matches!(listed.node, Ok(Node::Group(_))))
        .map(|listed| listed.path)
        .collect();
    let objects = place.names().try_fold(0, async |sum, page| Ok(sum + page.len() as u64)).await?;
    let arrays = named("array", &arrays, false).unwrap_or_else(|| "no array".to_owned());
    Ok(vec![arrays, units::count(objects, "object")])
}
