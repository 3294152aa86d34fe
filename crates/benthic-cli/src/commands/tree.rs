//! `benthic tree`: draws the names of objects as a tree.

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
    after_help = "A level is a part of the names between two '/'. The last line counts the prefixes that the tree \
    shows, and all objects. If --depth hides the objects below a prefix, their number follows the prefix.\n\n\
    Examples:\n  benthic tree photos\n  benthic tree photos/2026 --depth 1"
)]
pub struct TreeArgs {
    /// Draw at most N levels
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// POOL or POOL:NAMESPACE, or all objects below a prefix as POOL/PREFIX
    #[arg(value_name = "POOL")]
    target: String,
}

pub async fn run(args: TreeArgs, session: &Session) -> Outcome {
    session.out.end_with_reader();
    let below = Below::open(&args.target, session).await?;
    let mut levels = Levels::new(args.depth.unwrap_or(usize::MAX), true);
    let mut objects = below.objects();
    while let Some(object) = objects.try_next().await? {
        interrupt::check()?;
        levels.add(below.relative(&object), 0)?;
    }
    below.check_found()?;
    session.out.note(units::one_line(&below.target.to_string()))?;
    let prefixes = print(&levels.root, &below.target, "", session)?;
    let prefixes = if prefixes == 1 { "1 prefix".to_owned() } else { format!("{prefixes} prefixes") };
    session.out.note(format_args!("\n{prefixes}, {}", units::count(levels.root.objects, "object")))
}

/// Prints the prefixes and objects below a level, and returns the number of prefixes.
fn print(level: &Level, at: &Target, indent: &str, session: &Session) -> Outcome<u64> {
    let mut prefixes = 0;
    let mut parts = level.below.iter().peekable();
    while let Some((part, level)) = parts.next() {
        let (branch, below) =
            if parts.peek().is_some() { ("├── ", "│   ") } else { ("└── ", "    ") };
        let here = Target { prefix: format!("{}{part}", at.prefix), ..at.clone() };
        let is_prefix = part.ends_with('/');
        prefixes += u64::from(is_prefix);
        let hidden = if is_prefix && level.below.is_empty() {
            format!(" ({})", units::count(level.objects, "object"))
        } else {
            String::new()
        };
        session.out.result(format_args!("{indent}{branch}{}{hidden}", units::one_line(part)), || {
            let mut line = json!({ "pool": here.pool, "namespace": here.namespace });
            if is_prefix {
                line["prefix"] = json!(here.prefix);
                line["objects"] = json!(level.objects);
            } else {
                line["object"] = json!(here.prefix);
            }
            line
        })?;
        prefixes += print(level, &here, &format!("{indent}{below}"), session)?;
    }
    Ok(prefixes)
}
