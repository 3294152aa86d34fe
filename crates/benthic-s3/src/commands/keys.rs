//! `benthic s3 bucket keys`: lists the keys of a bucket.

use super::time;
use benthic_core::Environment;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::{interrupt, units};
use benthic_s3::PoolSal;
use benthic_s3::sal::limits::LIST_ENTRIES_MAX;
use benthic_s3::sal::{Buckets, Entry, List, ListKind, ListPosition, Objects, Sal};
use benthic_s3::view::ViewSal;
use clap::Args;
use serde_json::json;
use std::sync::Arc;

/// Arguments of `benthic s3 bucket keys`.
#[derive(Args)]
#[command(
    after_help = "Lists the current versions, in the order of the keys, as the owner of the store sees them: policies do \
not apply.\n\nExamples:\n  benthic s3 bucket keys photos\n  benthic s3 bucket keys photos --prefix 2026/ --limit 100 --after 2026/01/cat.jpg"
)]
pub struct KeysArgs {
    /// Name of the bucket
    bucket: String,
    /// Only keys that begin with PREFIX
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,
    /// Only keys after this one
    #[arg(long, value_name = "KEY")]
    after: Option<String>,
    /// Stop after COUNT keys
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

pub async fn run(args: KeysArgs, sal: PoolSal, session: &Session) -> Outcome {
    session.out.end_with_reader();
    let bucket = sal.bucket(&args.bucket).await?;
    // A view shows the objects of a pool.
    let sal = ViewSal::new(Arc::new(sal) as Arc<dyn Sal>, session.store().await?, Environment::default());
    let mut room = args.limit.unwrap_or(u32::MAX);
    let mut after = args.after.map(|key| ListPosition { key, within: None });
    while room > 0 {
        interrupt::check()?;
        let list = List {
            kind: ListKind::Objects,
            prefix: args.prefix.clone(),
            delimiter: String::new(),
            after,
            entries_max: room.min(LIST_ENTRIES_MAX),
        };
        let page = sal.list(&bucket, &list).await?;
        for entry in page.entries {
            let Entry::Version(object) = entry else { continue };
            let key = units::one_line(&object.key);
            let text = format!("{:>12} {} {key}", object.size_bytes, time(object.modified_ms));
            session.out.result(text, || {
                json!({
                    "bucket": bucket.name, "key": object.key, "size_bytes": object.size_bytes,
                    "modified_ms": object.modified_ms, "etag": object.etag,
                })
            })?;
            room -= 1;
        }
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    Ok(())
}
