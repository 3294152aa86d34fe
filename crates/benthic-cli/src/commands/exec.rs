//! `benthic exec`: runs a class method beside one object or, with `--all`, beside every object of a
//! pool. If the method stores its result in an attribute, the command reads that attribute and
//! prints it.

use crate::commands::call::CallArgs;
use crate::commands::{self, class};
use crate::jobs::{self, Failures, Limits};
use benthic_core::{
    Action, ClassHost, Error, ErrorKind, Namespaces, ObjectAddress, ObjectId, Pool, PoolAddress, Result,
};
use benthic_program::exec::PreparedCall;
use benthic_program::exit::{Failure, Outcome};
use benthic_program::output::{insert_bytes, object_fields};
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::units;
use bytes::Bytes;
use clap::Args;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

#[derive(Args)]
#[command(
    after_help = "A method that writes returns nothing. If it stores its result in an attribute, the command \
    reads the attribute and prints it. Text always ends with a line end; other bytes are printed unchanged.\n\n\
    A method of a WebAssembly class may need other objects: `benthic class show CLASS --pool POOL` prints their names, \
    and --object gives them. The command reads them once, before the first call.\n\n\
    With --all, the command prints one line for each object: name, tab, result. It lists failures at the end \
    and then exits with status 1. It stops early on a full store, and when the store has not answered for the \
    time of --outage-wait.\n\n\
    Examples:\n  benthic exec photos/cat.jpg digest sha256\n  \
    benthic exec photos/cat.jpg digest compute blake3\n  \
    benthic exec --all --prefix cats/ photos digest md5\n  benthic exec logs/today --code wordcount.wasm count\n  benthic exec logs/today hello record @name.txt\n  \
    benthic exec logs/today spam score --object words=lists/spam.txt"
)]
pub struct ExecArgs {
    /// Run beside every object of the pool
    #[arg(long)]
    all: bool,
    /// With --all: only objects whose names begin with PREFIX
    #[arg(long, value_name = "PREFIX", requires = "all", default_value = "", hide_default_value = true)]
    prefix: String,
    /// With --all: concurrent calls [default: two per core, 8 to 16]
    #[arg(long, value_name = "N", requires = "all")]
    jobs: Option<usize>,
    /// With --all: stop when the store has not answered for this number of seconds
    #[arg(long, value_name = "SECONDS", requires = "all", value_parser = jobs::parse_seconds, default_value = "60")]
    outage_wait: Duration,
    /// The object: POOL/OBJECT or POOL:NAMESPACE/OBJECT; with --all: POOL or POOL:NAMESPACE
    #[arg(value_name = "OBJECT")]
    target: String,
    #[command(flatten)]
    call: CallArgs,
}

/// The object, or all objects of a pool, that a method runs beside.
enum Target {
    One(ObjectAddress),
    All(PoolAddress),
}

impl Target {
    fn parse(text: &str, all: bool) -> Result<Target> {
        let message = match (all, text.contains('/')) {
            (false, true) => return text.parse().map(Target::One),
            (true, false) => return text.parse().map(Target::All),
            (false, false) => {
                "an object is POOL/OBJECT or POOL:NS/OBJECT; --all runs beside every object of a pool"
            }
            (true, true) => "with --all the target is POOL or POOL:NS; --prefix selects some of its objects",
        };
        Err(Error::invalid_argument(message).with("got", text))
    }

    fn namespace(&self) -> &str {
        match self {
            Target::One(address) => address.object.namespace(),
            Target::All(address) => &address.namespace,
        }
    }

    /// The pool, and the object if there is only one.
    fn place(&self) -> (&str, Option<&ObjectId>) {
        match self {
            Target::One(address) => (&address.pool, Some(&address.object)),
            Target::All(address) => (&address.pool, None),
        }
    }
}

pub async fn run(args: ExecArgs, session: &Session) -> Outcome {
    let target = Target::parse(&args.target, args.all)?;
    let (pool, object) = target.place();
    let pool = session.pool(pool).await?;
    let (call, classes) = args.call.prepare("OBJECT", &*pool, object, session).await?;
    // The class may exist even if it is not listed: Ceph has classes of its own.
    let method = class::find_method(&classes, call.call()).ok();
    if method.is_some_and(|method| method.writes) || call.module_writes() {
        commands::check_writable(target.namespace())?;
        session.check_writable().await?;
    }
    let ended = match target {
        Target::One(address) => run_one(&call, &*pool, &address, session).await,
        Target::All(address) => {
            let jobs = args.jobs.unwrap_or_else(jobs::default_jobs);
            let limits = Limits { outage_wait: args.outage_wait, session: Some(session), ..jobs.into() };
            run_all(call.clone(), pool, address, args.prefix, limits, session).await
        }
    };
    ended.map_err(|failure| match failure {
        Failure::Error(error) if !call.is_module() => class::explain(error, &classes, call.call()).into(),
        other => other,
    })
}

async fn run_one(
    call: &PreparedCall,
    pool: &dyn Pool,
    address: &ObjectAddress,
    session: &Session,
) -> Outcome {
    let result = call.run(pool, &address.object).await?;
    let mut fields = commands::address_fields(address);
    fields.insert("class".to_owned(), json!(call.call().class));
    fields.insert("method".to_owned(), json!(call.call().method));
    session.out.method_result(&result, "output", fields)
}

async fn run_all(
    call: PreparedCall,
    pool: Arc<dyn Pool>,
    address: PoolAddress,
    prefix: String,
    limits: Limits<'_>,
    session: &Session,
) -> Outcome {
    let store = session.store().await?;
    let name = call.call();
    let is_built_in = store.classes().await?.iter().any(|class| class.name == name.class);
    let is_native = store.class_host() == ClassHost::Cluster && !is_built_in && !call.is_module();
    let progress = Progress::objects(&format!("{}.{}", name.class, name.method));
    let listed = jobs::objects(Arc::clone(&pool), Namespaces::One(address.namespace), prefix);
    let mut failures = Failures::default();
    let mut objects = 0;
    let job = |object: ObjectId| {
        let (call, pool) = (call.clone(), Arc::clone(&pool));
        async move {
            let result = jobs::until_stopped(Action::Exec, call.run(&*pool, &object)).await;
            (object, result)
        }
    };
    let mut done = |(object, result): (ObjectId, Result<Bytes>)| {
        objects += 1;
        match result {
            Ok(result) => {
                progress.advance(1);
                progress.suspend(|| print_result(session, &address.pool, &object, &result))
            }
            // Stop: no other object has the class or method either.
            Err(error) if error.kind() == ErrorKind::Unsupported => Err(Failure::Error(error)),
            // Stop: a native method that does not return takes an OSD down, each time.
            Err(error) if is_native && error.kind() == ErrorKind::OutcomeUnknown => {
                Err(Failure::Error(error))
            }
            Err(error) => {
                failures.push(ObjectAddress { pool: address.pool.clone(), object }.to_string(), error);
                Ok(())
            }
        }
    };
    // If a native method never returns, only one OSD hangs.
    let limits = Limits { first_alone: is_native, ..limits };
    let ended = jobs::run(listed, limits, job, &mut done).await;
    drop(progress);
    if objects == 0 && ended.is_ok() {
        session.out.warning("no objects here");
    }
    let reported = session.out.flush().and(failures.finish(&session.out, objects));
    ended.and(reported)
}

fn print_result(session: &Session, pool: &str, object: &ObjectId, result: &Bytes) -> Outcome {
    let line = format!("{}\t{}", units::one_line(object.name()), units::one_line_bytes(result));
    session.out.result(line, || {
        let mut fields = object_fields(pool, object);
        insert_bytes(&mut fields, "output", result);
        Value::Object(fields)
    })
}
