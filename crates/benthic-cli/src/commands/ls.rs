//! `benthic ls`: lists the objects of a pool or, with `--stripe`, its striped objects.

use crate::commands::below::STATS_AT_ONCE;
use crate::{commands, jobs};
use benthic_core::names::is_reserved_namespace;
use benthic_core::{
    Error, ErrorKind, Namespaces, ObjectAddress, ObjectId, OptionalExtension, Pool, PoolAddress, Result, Stat,
};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::output::object_json;
use benthic_program::session::Session;
use benthic_program::{interrupt, units};
use benthic_striped::{StripedState, striped_object_of};
use clap::Args;
use futures::{StreamExt, TryStreamExt};
use serde_json::json;
use std::sync::Arc;

#[derive(Args)]
#[command(
    after_help = "The store determines the order. Control characters in names are escaped; --json prints exact \
    names.\n\n\
    Examples:\n  benthic ls photos\n  benthic ls photos:2026 --prefix cats/ --long\n  benthic ls --stripe data"
)]
pub struct LsArgs {
    /// The pool, or POOL:NAMESPACE
    pool: String,
    /// Only names that begin with PREFIX
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,
    /// List all namespaces except Benthic's own, and show pool and namespace of each object
    #[arg(long)]
    all_namespaces: bool,
    /// With --all-namespaces: also list Benthic's own namespaces, such as those of tables
    #[arg(long, requires = "all_namespaces")]
    hidden: bool,
    /// List only striped objects, by their names; --long marks those that are incomplete or damaged
    #[arg(long)]
    stripe: bool,
    /// Also show size and time
    #[arg(short, long)]
    long: bool,
}

pub async fn run(args: LsArgs, session: &Session) -> Outcome {
    session.out.end_with_reader();
    let PoolAddress { pool: name, namespace } = address(&args.pool)?;
    if args.all_namespaces && !namespace.is_empty() {
        return Err(Failure::Usage(format!(
            "--all-namespaces and a namespace exclude each other; leave one out got={:?}",
            args.pool
        )));
    }
    let pool = session.pool(&name).await?;
    let namespaces = if args.all_namespaces { Namespaces::All } else { Namespaces::One(namespace) };
    let is_hidden =
        |object: &ObjectId| args.all_namespaces && !args.hidden && is_reserved_namespace(object.namespace());
    let listed = jobs::objects(Arc::clone(&pool), namespaces, args.prefix);
    let shown = listed.try_filter(|object| std::future::ready(!is_hidden(object))).try_filter_map(|object| {
        std::future::ready(if args.stripe { striped_object_of(object) } else { Ok(Some(object)) })
    });
    let look_up = |object| look_up(session, Arc::clone(&pool), object, args.long, args.stripe);
    let mut rows = shown.map(look_up).buffered(if args.long { STATS_AT_ONCE } else { 1 });
    while let Some(row) = rows.next().await {
        interrupt::check()?;
        // The object was removed after it was listed.
        let Some((object, detail)) = row? else { continue };
        let shown = if args.all_namespaces {
            units::one_line(&ObjectAddress { pool: name.clone(), object: object.clone() }.to_string())
        } else {
            units::one_line(object.name())
        };
        let line = match detail {
            Detail::Stat(stat) => {
                format!("{:>12} {} {shown}", stat.size_bytes, units::utc(stat.modified_unix_ns))
            }
            Detail::State(state) => format!("{:>12} {:20} {shown}", state.replace('_', " "), ""),
            Detail::None => shown,
        };
        session.out.result(line, || {
            let more = match detail {
                Detail::Stat(stat) => {
                    json!({ "size_bytes": stat.size_bytes, "modified_unix_ns": stat.modified_unix_ns })
                }
                Detail::State(state) => json!({ "state": state }),
                Detail::None => json!({}),
            };
            object_json(&name, &object, more)
        })?;
    }
    Ok(())
}

fn address(text: &str) -> Result<PoolAddress> {
    let instead = match text.split_once('/') {
        None => return text.parse(),
        Some((pool, "")) => format!("`benthic ls {pool}` lists a pool"),
        Some((pool, prefix)) => format!("`benthic ls {pool} --prefix {prefix}` lists a part of a pool"),
    };
    Err(Error::invalid_argument(format!("a listing takes a POOL or POOL:NS; {instead}")).with("got", text))
}

/// The information that `--long` shows beside an object's name.
#[derive(Clone, Copy)]
enum Detail {
    None,
    Stat(Stat),
    /// The state of a striped object that has neither size nor time.
    State(&'static str),
}

/// Looks up an object's size and time if `long`; for a striped object, those of its file. Returns
/// `None` if the object no longer exists.
async fn look_up(
    session: &Session,
    pool: Arc<dyn Pool>,
    object: Result<ObjectId>,
    long: bool,
    is_striped: bool,
) -> Result<Option<(ObjectId, Detail)>> {
    let object = object?;
    if !long {
        return Ok(Some((object, Detail::None)));
    }
    if is_striped {
        let at = commands::striped_object(session, pool, object.clone()).await?;
        let detail = match at.read_head().await {
            Err(error) if error.kind() == ErrorKind::Corrupt => Detail::State("damaged"),
            head => match head? {
                None => return Ok(None),
                Some(head) => match (head.stat_of_file(), head.state) {
                    (Some(stat), _) => Detail::Stat(stat),
                    (None, StripedState::Unfinished(_)) => Detail::State("incomplete"),
                    // Another program is still writing or removing this striped object, or it is
                    // none.
                    (None, _) => Detail::State("no_size"),
                },
            },
        };
        return Ok(Some((object, detail)));
    }
    Ok(pool.stat(&object).await.optional()?.map(|(stat, _)| (object, Detail::Stat(stat))))
}
