//! `benthic stat`: shows the size, time and version of an object.

use crate::commands;
use benthic_core::ObjectAddress;
use benthic_program::exit::Outcome;
use benthic_program::output::object_json;
use benthic_program::session::Session;
use benthic_program::units;
use benthic_striped::{Striped, explain};
use clap::Args;
use serde_json::json;

#[derive(Args)]
#[command(after_help = "Examples:\n  benthic stat photos/cat.jpg\n  benthic stat --stripe data/run42.root")]
pub struct StatArgs {
    /// The object is striped (from `benthic cp --stripe` or `rados --striper`)
    #[arg(long)]
    stripe: bool,
    /// The object: POOL/OBJECT or POOL:NAMESPACE/OBJECT
    object: String,
}

pub async fn run(args: StatArgs, session: &Session) -> Outcome {
    let (pool, address) = commands::locate(session, &args.object).await?;
    if args.stripe {
        let at = commands::striped_object(session, pool, address.object.clone()).await?;
        return stat_striped(&at, &address, session).await;
    }
    let (stat, version) = match pool.stat(&address.object).await {
        Err(error) => return Err(explain(error, pool, &address.object, "stat").await.into()),
        found => found?,
    };
    let text = format!(
        "{} {} size_bytes={} modified={} version={version}",
        units::one_line(&address.to_string()),
        units::size(stat.size_bytes),
        stat.size_bytes,
        units::utc(stat.modified_unix_ns)
    );
    session.out.result(text, || {
        let more = json!({
            "size_bytes": stat.size_bytes,
            "modified_unix_ns": stat.modified_unix_ns,
            "version": version,
        });
        object_json(&address.pool, &address.object, more)
    })
}

async fn stat_striped(at: &Striped, address: &ObjectAddress, session: &Session) -> Outcome {
    let (layout, size_bytes, note, stat) = at.read_complete().await?;
    let modified_unix_ns = note.as_ref().and_then(|note| u64::try_from(note.modified_unix_ns).ok());
    let modified_unix_ns = modified_unix_ns.unwrap_or(stat.modified_unix_ns);
    let pieces = layout.pieces(size_bytes);
    let text = format!(
        "{} {} size_bytes={size_bytes} modified={} pieces={pieces} object_size={} stripe_unit={} stripe_count={} xxh3={}",
        units::one_line(&address.to_string()),
        units::size(size_bytes),
        units::utc(modified_unix_ns),
        layout.object_size,
        layout.stripe_unit,
        layout.stripe_count,
        note.as_ref().map_or("none", |note| &note.xxh3),
    );
    session.out.result(text, || {
        let more = json!({
            "size_bytes": size_bytes,
            "modified_unix_ns": modified_unix_ns,
            "pieces": pieces,
            "layout": layout,
            "xxh3": note.map(|note| note.xxh3),
        });
        object_json(&address.pool, &address.object, more)
    })
}
