//! `benthic ls`: lists the objects of a pool or, with `--stripe`, its striped objects.

use crate::{commands, jobs};
use benthic_core::names::is_reserved_namespace;
use benthic_core::{Error, ErrorKind, Namespaces, ObjectAddress, ObjectId, Pool, PoolAddress, Result, Stat};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::output::object_fields;
use benthic_program::session::Session;
use benthic_program::{interrupt, units};
use benthic_striped::{StripedState, striped_object_of};
use clap::Args;
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use std::sync::Arc;

/// Concurrent requests for sizes and times.
const STATS_AT_ONCE: usize = 32;

/// Arguments of `benthic ls`.
#[derive(Args)]
#[command(
    after_help = "The order is the store's. Control characters in names are shown escaped; --json has names \
    exactly.\n\n\
    Examples:\n  benthic ls photos\n  benthic ls photos:2026 --prefix cats/ --long\n  benthic ls --stripe data"
)]
pub struct LsArgs {
    /// The pool, or POOL:NAMESPACE
    pool: String,
    /// Only names that begin with this
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,
    /// All namespaces but Benthic's own; objects are then shown with their pool and namespace
    #[arg(long)]
    all_namespaces: bool,
    /// With --all-namespaces: those of tables and the like, too
    #[arg(long, requires = "all_namespaces")]
    hidden: bool,
    /// Striped objects only, by their names; with --long, instead of a size it says which are incomplete or damaged
    #[arg(long)]
    stripe: bool,
    /// Size and time, too
    #[arg(short, long)]
    long: bool,
}

pub async fn run(args: LsArgs, session: &Session) -> Outcome {
    let PoolAddress { pool: name, namespace } = address(&args.pool)?;
    if args.all_namespaces && !namespace.is_empty() {
        return Err(Failure::Usage(format!(
            "--all-namespaces and a namespace contradict each other; leave one out got={:?}",
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
    let look = |object| look(session, Arc::clone(&pool), object, args.long, args.stripe);
    let mut rows = shown.map(look).buffered(if args.long { STATS_AT_ONCE } else { 1 });
    while let Some(row) = rows.next().await {
        interrupt::check()?;
        // The object was removed after it was listed.
        let Some((object, found)) = row? else { continue };
        let shown = if args.all_namespaces {
            units::one_line(&ObjectAddress { pool: name.clone(), object: object.clone() }.to_string())
        } else {
            units::one_line(object.name())
        };
        let line = match found {
            Found::Stat(stat) => {
                format!("{:>12} {} {shown}", stat.size_bytes, units::utc(stat.modified_unix_ns))
            }
            Found::Without(state) => format!("{:>12} {:20} {shown}", state.replace('_', " "), ""),
            Found::Name => shown,
        };
        session.out.result(line, || {
            let mut fields = object_fields(&name, &object);
            match found {
                Found::Stat(stat) => {
                    fields.insert("size_bytes".to_owned(), json!(stat.size_bytes));
                    fields.insert("modified_unix_ns".to_owned(), json!(stat.modified_unix_ns));
                }
                Found::Without(state) => _ = fields.insert("state".to_owned(), json!(state)),
                Found::Name => {}
            }
            Value::Object(fields)
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
    Err(Error::new(ErrorKind::InvalidArgument, format!("a listing takes a POOL or POOL:NS; {instead}"))
        .with("got", text))
}

/// The information about an object that is shown beside its name.
#[derive(Clone, Copy)]
enum Found {
    /// Nothing besides the name.
    Name,
    Stat(Stat),
    /// The reason why a striped object has neither size nor time.
    Without(&'static str),
}

/// Looks up an object's size and time if `long`; for a striped object, those of its file. Returns
/// `None` if the object no longer exists.
async fn look(
    session: &Session,
    pool: Arc<dyn Pool>,
    object: Result<ObjectId>,
    long: bool,
    is_striped: bool,
) -> Result<Option<(ObjectId, Found)>> {
    let object = object?;
    if !long {
        return Ok(Some((object, Found::Name)));
    }
    if is_striped {
        let at = commands::striped(session, pool, object.clone()).await?;
        let found = match at.read_head().await {
            Err(error) if error.kind() == ErrorKind::Corrupt => Found::Without("damaged"),
            head => match head? {
                None => return Ok(None),
                Some(head) => match (head.stat_of_file(), head.state) {
                    (Some(stat), _) => Found::Stat(stat),
                    (None, StripedState::Unfinished(_)) => Found::Without("incomplete"),
                    // Another program is still writing or removing this striped object, or it is
                    // none.
                    (None, _) => Found::Without("no_size"),
                },
            },
        };
        return Ok(Some((object, found)));
    }
    match pool.stat(&object).await {
        Ok((stat, _)) => Ok(Some((object, Found::Stat(stat)))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
