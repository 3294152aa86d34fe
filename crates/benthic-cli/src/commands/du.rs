//! `benthic du`: counts objects and bytes by prefix.

use super::below::{Below, Level, Levels};
use super::cp::plan::Target;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::{interrupt, units};
use clap::Args;
use futures::TryStreamExt;
use serde_json::json;

#[derive(Args)]
#[command(
    after_help = "A level is a part of the names that ends with '/'. The last line is the total. The sizes are \
    those of the data, without attributes, keys and replicas.\n\n\
    Examples:\n  benthic du photos\n  benthic du photos/2026 --depth 2"
)]
pub struct DuArgs {
    /// Print N levels of prefixes; 0 prints only the total
    #[arg(long, value_name = "N", default_value_t = 1)]
    depth: usize,
    /// POOL or POOL:NAMESPACE, or all objects below a prefix as POOL/PREFIX
    #[arg(value_name = "POOL")]
    target: String,
}

pub async fn run(args: DuArgs, session: &Session) -> Outcome {
    session.out.end_with_reader();
    let below = Below::open(&args.target, session).await?;
    let mut levels = Levels::new(args.depth, false);
    let mut objects = below.stats(below.objects());
    while let Some((object, stat)) = objects.try_next().await? {
        interrupt::check()?;
        levels.add(below.relative(&object), stat.size_bytes)?;
    }
    below.check_found()?;
    print(&levels.root, &below.target, session)
}

/// Prints a level after the levels below it.
fn print(level: &Level, at: &Target, session: &Session) -> Outcome {
    for (part, level) in &level.below {
        print(level, &Target { prefix: format!("{}{part}", at.prefix), ..at.clone() }, session)?;
    }
    let objects = units::count(level.objects, "object");
    let name = units::one_line(&at.to_string());
    session.out.result(format_args!("{:>10} {objects:>15} {name}", units::size(level.size_bytes)), || {
        json!({
            "pool": at.pool,
            "namespace": at.namespace,
            "prefix": at.prefix,
            "objects": level.objects,
            "size_bytes": level.size_bytes,
        })
    })
}
