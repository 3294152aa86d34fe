//! `benthic bench write|seq|rand|exec`: measures the throughput and latency of writes, reads and
//! method calls.

pub mod measure;
mod together;

use crate::commands::class;
use crate::jobs;
use benthic_core::{
    ClassCall, Error, ErrorKind, Namespaces, ObjectId, Pool, Random, Result, SystemRandom, WriteOp, limits,
};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::noise::Noise;
use benthic_program::session::Session;
use benthic_program::{interrupt, units};
use bytes::Bytes;
use clap::{Args, Subcommand};
use futures::future::ready;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use measure::{Load, measure, print_result};
use std::sync::Arc;

pub const EXAMPLES: &str = "Examples:\n  benthic bench write scratch --size 64KiB --seconds 5 --keep\n  \
    benthic bench rand scratch --in-flight 32\n  benthic bench write scratch --from um,msu,wsu --store ceph:\n  benthic bench exec scratch --class digest --method md5";

const NAMESPACE: &str = "benthic-bench";
const KEPT: &str = "kept";
/// Limits on the objects that a read benchmark prepares.
const PREPARED_BYTES_MAX: u64 = 256 * 1024 * 1024;
const PREPARED_MAX: u64 = 10_000;
/// Number of offsets into the payload at which objects begin, so that their contents differ.
const PAYLOAD_SHIFTS: u64 = 4096;

#[derive(Subcommand)]
pub enum BenchCommand {
    /// Write new objects, then remove them unless --keep is given
    #[command(after_help = "Example:\n  benthic bench write scratch --size 64KiB --in-flight 32 --keep")]
    Write(WriteArgs),
    /// Read the objects that `bench write --keep` left, or prepared ones, each once
    #[command(after_help = "Example:\n  benthic bench seq scratch")]
    Seq(ReadArgs),
    /// Read the objects that `bench write --keep` left, or prepared ones, in random order
    #[command(after_help = "Example:\n  benthic bench rand scratch --count 10000")]
    Rand(ReadArgs),
    /// Run a method beside temporary objects, one for each operation in flight
    #[command(after_help = "Example:\n  benthic bench exec scratch --class digest --method md5 --size 1MiB")]
    Exec(ExecArgs),
}

#[derive(Args)]
pub struct WriteArgs {
    #[command(flatten)]
    load: Load,
    /// Size of an object, at most 64MiB
    #[arg(long, default_value = "4MiB", value_parser = units::parse_size)]
    size: u64,
    /// Write buffered: the store acknowledges before the data are durable; the time of the final
    /// flush counts
    #[arg(long)]
    buffered: bool,
    /// Keep the objects, for `bench seq` and `bench rand`
    #[arg(long)]
    keep: bool,
    /// Create the pool, and the store, if they do not exist
    #[arg(long)]
    create_pool: bool,
}

#[derive(Args)]
pub struct ReadArgs {
    #[command(flatten)]
    load: Load,
    /// Size of a prepared object, at most 64MiB
    #[arg(long, default_value = "4MiB", value_parser = units::parse_size)]
    size: u64,
    /// Keep the prepared objects
    #[arg(long)]
    keep: bool,
}

#[derive(Args)]
pub struct ExecArgs {
    #[command(flatten)]
    load: Load,
    /// The class
    #[arg(long, default_value = "digest")]
    class: String,
    /// The method
    #[arg(long, default_value = "md5")]
    method: String,
    /// The input of the method
    #[arg(long, default_value = "", hide_default_value = true)]
    input: String,
    /// Size of an object, at most 64MiB
    #[arg(long, default_value = "4MiB", value_parser = units::parse_size)]
    size: u64,
    /// Create the pool, and the store, if they do not exist
    #[arg(long)]
    create_pool: bool,
}

pub async fn run(command: BenchCommand, session: &Session) -> Outcome {
    if !command.load().places.from.is_empty() {
        return together::run(&command, session).await;
    }
    match command {
        BenchCommand::Write(args) => write(args, session).await,
        BenchCommand::Seq(args) => read("seq", &args, session).await,
        BenchCommand::Rand(args) => read("rand", &args, session).await,
        BenchCommand::Exec(args) => exec(args, session).await,
    }
}

impl BenchCommand {
    fn load(&self) -> &Load {
        match self {
            BenchCommand::Write(args) => &args.load,
            BenchCommand::Seq(args) | BenchCommand::Rand(args) => &args.load,
            BenchCommand::Exec(args) => &args.load,
        }
    }
}

async fn write(args: WriteArgs, session: &Session) -> Outcome {
    let pool = session.pool_or_create(&args.load.pool, args.create_pool).await?;
    session.check_writable().await?;
    let payload = payload(args.size)?;
    let purpose = if args.keep { KEPT } else { "temp" };
    let op = async |index: u64| {
        let write = WriteOp::new().write_full(piece(&payload, index, args.size));
        let write = if args.buffered { write.buffered() } else { write };
        pool.write(&object(args.size, purpose, &args.load.label, index)?, write).await?;
        Ok(Some(args.size))
    };
    let store = session.store().await?;
    let measured =
        measure(
            "write",
            &args.load.amount,
            op,
            async || if args.buffered { store.flush().await } else { Ok(()) },
        )
        .await?;
    let label = &args.load.label;
    let removed =
        if args.keep { Ok(()) } else { remove_temporary(&*pool, args.size, label, measured.started).await };
    let printed = print_result(
        "write",
        ("pool", &args.load.pool),
        &args.load.amount,
        &measured,
        session,
        args.size,
        args.buffered,
    );
    removed?;
    printed
}

async fn read(name: &'static str, args: &ReadArgs, session: &Session) -> Outcome {
    let ReadArgs { load, size, keep } = args;
    let pool = session.pool(&load.pool).await?;
    let kept = objects(&pool, |object| is_kept(object) && is_labelled(object, &load.label));
    let kept: Vec<ObjectId> = kept.try_collect().await?;
    if !kept.is_empty() {
        return read_objects(name, load, &*pool, &kept, session).await;
    }
    if !load.label.is_empty() {
        let message = format!(
            "nothing to read; `benthic bench write {} --keep --label {}` creates objects",
            load.pool, load.label
        );
        return Err(Error::not_found(message).into());
    }
    session.check_writable().await?;
    let payload = payload(*size)?;
    let count = (PREPARED_BYTES_MAX / (*size).max(1))
        .clamp(1, PREPARED_MAX)
        .min(load.amount.count.unwrap_or(u64::MAX));
    // Another benchmark may prepare objects at the same time.
    let purpose = if *keep { KEPT.to_owned() } else { format!("read{:016x}", SystemRandom.random_u64()?) };
    let prepared: Vec<ObjectId> =
        (0..count).map(|index| object(*size, &purpose, "", index)).collect::<Result<_>>()?;
    session.out.note(format_args!(
        "the pool has no kept objects; preparing {} of {}, which is not measured",
        units::count(count, "object"),
        units::size(*size)
    ))?;
    let ended = match prepare(session, &*pool, &prepared, &payload, *size, load.amount.in_flight()).await {
        Ok(()) => read_objects(name, load, &*pool, &prepared, session).await,
        Err(error) => Err(error.into()),
    };
    let removed = if *keep { Ok(()) } else { remove_all(&*pool, prepared.into_iter().map(Ok)).await };
    ended.and(removed.map_err(Failure::from))
}

/// Writes the objects that a read benchmark needs. Stops early after a signal.
async fn prepare(
    session: &Session,
    pool: &dyn Pool,
    objects: &[ObjectId],
    payload: &Bytes,
    size_bytes: u64,
    in_flight: usize,
) -> Result<()> {
    let writes = stream::iter((0..).zip(objects)).take_while(|_| ready(!interrupt::is_set()));
    let writes = writes.map(|(index, object)| {
        pool.write(object, WriteOp::new().write_full(piece(payload, index, size_bytes)).buffered())
    });
    writes.buffer_unordered(in_flight).try_for_each(|_| ready(Ok(()))).await?;
    session.store().await?.flush().await
}

async fn read_objects(
    name: &'static str,
    load: &Load,
    pool: &dyn Pool,
    objects: &[ObjectId],
    session: &Session,
) -> Outcome {
    let op = async |index: u64| {
        let at = if name == "rand" { Noise::new(index).below(objects.len() as u64) } else { index };
        let Some(object) = usize::try_from(at).ok().and_then(|at| objects.get(at)) else {
            return Ok(None);
        };
        let size_bytes = size_of(object)?;
        let data = pool.read_range(object, 0, size_bytes).await?;
        if data.len() as u64 != size_bytes {
            return Err(Error::corrupt("the object has another length than `bench write` gave it")
                .with("object", object)
                .with("len_bytes", data.len()));
        }
        Ok(Some(size_bytes))
    };
    let measured = measure(name, &load.amount, op, async || Ok(())).await?;
    let size_bytes = measured.bytes.checked_div(measured.latencies.count()).unwrap_or(0);
    print_result(name, ("pool", &load.pool), &load.amount, &measured, session, size_bytes, false)
}

async fn exec(args: ExecArgs, session: &Session) -> Outcome {
    let pool = session.pool_or_create(&args.load.pool, args.create_pool).await?;
    session.check_writable().await?;
    let payload = payload(args.size)?;
    let objects: Vec<ObjectId> = (0..args.load.amount.in_flight() as u64)
        .map(|index| object(args.size, "exec", &args.load.label, index))
        .collect::<Result<_>>()?;
    for (index, object) in (0..).zip(&objects) {
        pool.write_full(object, piece(&payload, index, args.size)).await?;
    }
    let classes = session.classes().await?;
    let call = ClassCall { class: args.class, method: args.method, input: Bytes::from(args.input) };
    let op = async |index: u64| {
        let at = usize::try_from(index % objects.len() as u64).unwrap_or(0);
        pool.exec(&objects[at], call.clone()).await.map(|_| Some(args.size))
    };
    // Run the method once first: a method that cannot run at all is an error, not a measurement.
    let measured = match pool.exec(&objects[0], call.clone()).await {
        Ok(_) => measure("exec", &args.load.amount, op, async || Ok(())).await,
        Err(error) => Err(class::explain(error, &classes, &call).into()),
    };
    for object in &objects {
        ignore_missing(pool.remove(object).await)?;
    }
    let measured = measured?;
    print_result("exec", ("pool", &args.load.pool), &args.load.amount, &measured, session, args.size, false)
}

/// Removes the objects of a write benchmark that need not be kept, also after a signal.
async fn remove_temporary(pool: &dyn Pool, size_bytes: u64, label: &str, count: u64) -> Result<()> {
    remove_all(pool, (0..count).map(|index| object(size_bytes, "temp", label, index))).await
}

async fn remove_all(pool: &dyn Pool, objects: impl Iterator<Item = Result<ObjectId>>) -> Result<()> {
    let removals = stream::iter(objects).map(async |object| ignore_missing(pool.remove(&object?).await));
    removals.buffer_unordered(64).try_collect().await
}

fn ignore_missing(removed: Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Builds an object name. It contains the size, so that a read can check the length; the purpose
/// (kept, temp, exec or read…), so that no benchmark removes objects that another one kept; and the
/// label, if the user gave one.
fn object(size_bytes: u64, purpose: &str, label: &str, index: u64) -> Result<ObjectId> {
    let label = if label.is_empty() { String::new() } else { format!("{label}-") };
    ObjectId::in_namespace(NAMESPACE, format!("{size_bytes}-{purpose}-{label}{index:010}"))
}

/// The objects of benchmarks in a pool.
fn objects(
    pool: &Arc<dyn Pool>,
    is_wanted: impl Fn(&ObjectId) -> bool,
) -> impl Stream<Item = Result<ObjectId>> {
    let listed = jobs::objects(Arc::clone(pool), Namespaces::One(NAMESPACE.to_owned()), String::new());
    listed.try_filter(move |object| ready(is_wanted(object)))
}

/// Returns true if `bench write --keep` wrote the object.
fn is_kept(object: &ObjectId) -> bool {
    object.name().split('-').nth(1) == Some(KEPT)
}

/// Returns true if an object's label begins with `label`.
fn is_labelled(object: &ObjectId, label: &str) -> bool {
    label.is_empty()
        || object
            .name()
            .splitn(3, '-')
            .nth(2)
            .is_some_and(|rest| rest.contains('-') && rest.starts_with(label))
}

/// Removes all objects whose labels begin with `label`.
pub async fn remove(pool: &Arc<dyn Pool>, label: &str) -> Result<()> {
    objects(pool, |object| is_labelled(object, label))
        .try_for_each_concurrent(64, |object| async move { ignore_missing(pool.remove(&object).await) })
        .await
}

fn size_of(object: &ObjectId) -> Result<u64> {
    object.name().split('-').next().and_then(|size| size.parse().ok()).ok_or_else(|| {
        let message = "`bench write` did not create this object; remove it or use another pool";
        Error::invalid_argument(message).with("object", object)
    })
}

fn payload(size_bytes: u64) -> Result<Bytes> {
    if size_bytes > limits::OPERATION_BYTES_MAX {
        let message = "the benchmark writes an object in one operation, which takes at most 64 MiB";
        return Err(Error::limit_exceeded(message).with("size_bytes", size_bytes));
    }
    let len_bytes = usize::try_from(size_bytes + PAYLOAD_SHIFTS).unwrap_or(usize::MAX);
    Ok(Noise::new(size_bytes).bytes(len_bytes).into())
}

fn piece(payload: &Bytes, index: u64, size_bytes: u64) -> Bytes {
    let start = index % PAYLOAD_SHIFTS;
    // Neither cast truncates: the payload is at least that long and in memory.
    payload.slice(start as usize..(start + size_bytes) as usize)
}
