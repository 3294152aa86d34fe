//! `benthic stat`.

use crate::exit::Outcome;
use crate::store::Session;
use crate::{commands, units};
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `benthic stat`.
#[derive(Args)]
#[command(after_help = "Example:\n  benthic stat photos/cat.jpg")]
pub struct StatArgs {
    /// The object: POOL/OBJECT or POOL:NAMESPACE/OBJECT
    object: String,
}

pub async fn run(args: StatArgs, session: &Session) -> Outcome {
    let (pool, address) = commands::locate(session, &args.object).await?;
    let (stat, version) = pool.stat(&address.object).await?;
    let text = format!(
        "{} {} size_bytes={} modified={} version={version}",
        units::one_line(&address.to_string()),
        units::size(stat.size_bytes),
        stat.size_bytes,
        units::utc(stat.modified_unix_ns)
    );
    session.out.result(text, || {
        let mut fields = commands::address_fields(&address);
        fields.insert("size_bytes".to_owned(), json!(stat.size_bytes));
        fields.insert("modified_unix_ns".to_owned(), json!(stat.modified_unix_ns));
        fields.insert("version".to_owned(), json!(version));
        Value::Object(fields)
    })
}
