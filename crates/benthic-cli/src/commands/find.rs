//! `benthic find`: lists objects by name, size and age.

use super::below::Below;
use benthic_core::{Clock, ObjectAddress, ObjectId, Stat, SystemClock};
use benthic_program::exit::Outcome;
use benthic_program::output::object_json;
use benthic_program::session::Session;
use benthic_program::{interrupt, units};
use clap::Args;
use futures::stream::{StreamExt, TryStreamExt};
use glob::Pattern;
use serde_json::json;
use std::future::ready;
use std::time::Duration;

#[derive(Args)]
#[command(
    after_help = "An object is printed as POOL/OBJECT if it meets every condition. The store determines the \
    order. Control characters in names are escaped; --json prints exact names.\n\n\
    Examples:\n  benthic find photos --name '*.jpg' --larger 4MiB\n  \
    benthic find logs:today/web --older 30d"
)]
pub struct FindArgs {
    /// Only names whose last part, after the last '/', matches GLOB: *, ?, [a-z], [!a-z]
    #[arg(long, value_name = "GLOB", value_parser = Pattern::new)]
    name: Option<Pattern>,
    /// Only objects with more than SIZE bytes
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    larger: Option<u64>,
    /// Only objects with fewer than SIZE bytes
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    smaller: Option<u64>,
    /// Only objects that changed less than AGE ago, such as 30m, 12h, 7d or 2w
    #[arg(long, value_name = "AGE", value_parser = units::parse_age)]
    newer: Option<Duration>,
    /// Only objects that last changed more than AGE ago
    #[arg(long, value_name = "AGE", value_parser = units::parse_age)]
    older: Option<Duration>,
    /// POOL or POOL:NAMESPACE, or all objects below a prefix as POOL/PREFIX
    #[arg(value_name = "POOL")]
    target: String,
}

impl FindArgs {
    fn needs_stat(&self) -> bool {
        self.larger.or(self.smaller).is_some() || self.newer.or(self.older).is_some()
    }

    fn has_stat(&self, stat: Stat, now_unix_ns: u64) -> bool {
        let age = Duration::from_nanos(now_unix_ns.saturating_sub(stat.modified_unix_ns));
        self.larger.is_none_or(|size| stat.size_bytes > size)
            && self.smaller.is_none_or(|size| stat.size_bytes < size)
            && self.newer.is_none_or(|newer| age < newer)
            && self.older.is_none_or(|older| age > older)
    }
}

pub async fn run(args: FindArgs, session: &Session) -> Outcome {
    session.out.end_with_reader();
    let below = Below::open(&args.target, session).await?;
    let now_unix_ns = SystemClock.unix_ns();
    let pattern = args.name.clone();
    let named = below.objects().try_filter(move |object| ready(has_name(object, pattern.as_ref()))).boxed();
    let mut found = if args.needs_stat() {
        let stats = below.stats(named).map_ok(|(object, stat)| (object, Some(stat)));
        stats.try_filter(|(_, stat)| ready(stat.is_some_and(|stat| args.has_stat(stat, now_unix_ns)))).boxed()
    } else {
        named.map_ok(|object| (object, None)).boxed()
    };
    while let Some((object, stat)) = found.try_next().await? {
        interrupt::check()?;
        let pool = &below.target.pool;
        let address = ObjectAddress { pool: pool.clone(), object: object.clone() };
        session.out.result(units::one_line(&address.to_string()), || {
            let more = stat.map_or(
                json!({}),
                |stat| json!({ "size_bytes": stat.size_bytes, "modified_unix_ns": stat.modified_unix_ns }),
            );
            object_json(pool, &object, more)
        })?;
    }
    Ok(below.check_found()?)
}

/// Returns whether the last part of the object's name matches the pattern.
fn has_name(object: &ObjectId, pattern: Option<&Pattern>) -> bool {
    let name = object.name().rsplit('/').next().unwrap_or_default();
    pattern.is_none_or(|pattern| pattern.matches(name))
}
