//! The commands, one file per noun or verb.

mod below;
pub mod bench;
mod call;
pub mod cat;
pub mod class;
pub mod cluster;
pub mod completions;
pub mod console;
pub mod cp;
pub mod demo;
pub mod du;
pub mod exec;
pub mod exporter;
pub mod find;
pub mod fsck;
pub mod get;
pub mod health;
mod hosts;
pub mod image;
pub mod ls;
pub mod man;
pub mod map;
pub mod mirror;
pub mod mv;
pub mod omap;
pub mod other;
pub mod pgs;
pub mod placement;
pub mod pool;
pub mod put;
pub mod rm;
pub mod scrub;
mod serving;
pub mod stat;
pub mod status;
pub mod tree;
pub mod xattr;

use crate::args::Command;
use benthic_core::names::is_reserved_namespace;
use benthic_core::{Error, ObjectAddress, ObjectId, Pool, PoolAddress, Result, SystemClock};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::{interrupt, local, output};
use benthic_striped::Striped;
use benthic_striped::lock::Locks;
use bytes::Bytes;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;

pub async fn run(command: Command, session: &Session) -> Outcome {
    match command {
        Command::Pool(command) => pool::run(command, session).await,
        Command::Image(command) => image::run(command, session).await,
        Command::Put(args) => put::run(args, session).await,
        Command::Get(args) => get::run(args, session).await,
        Command::Cat(args) => cat::run(args, session).await,
        Command::Ls(args) => ls::run(args, session).await,
        Command::Find(args) => find::run(args, session).await,
        Command::Tree(args) => tree::run(args, session).await,
        Command::Du(args) => du::run(args, session).await,
        Command::Stat(args) => stat::run(args, session).await,
        Command::Rm(args) => rm::run(args, session).await,
        Command::Cp(args) => cp::run(args, session).await,
        Command::Mv(args) => mv::run(args, session).await,
        Command::Mirror(args) => mirror::run(args, session).await,
        Command::Xattr(command) => xattr::run(command, session).await,
        Command::Omap(command) => omap::run(command, session).await,
        Command::Exec(args) => exec::run(args, session).await,
        Command::Map(args) => map::run(args, session).await,
        Command::Class(command) => class::run(command, session).await,
        Command::Cluster(command) => cluster::run(command, session).await,
        Command::Pgs(command) => pgs::run(command, session).await,
        Command::Placement(command) => placement::run(command, session).await,
        Command::Health(args) => health::run(args, session).await,
        Command::Exporter(args) => exporter::run(args, session).await,
        Command::Status(command) => status::run(command, session).await,
        Command::Console(command) => console::run(command, session).await,
        Command::Bench(command) => bench::run(command, session).await,
        Command::Scrub(args) => scrub::run(args, session).await,
        Command::Fsck(args) => fsck::run(&args, session).await,
        Command::Sql(args) => other::run(&other::SQL, "sql", args, session),
        Command::Table(args) => other::run(&other::SQL, "table", args, session),
        Command::Array(args) => other::run(&other::ARRAY, "array", args, session),
        Command::Catalog(args) => other::run(&other::CATALOG, "catalog", args, session),
        Command::S3(args) => other::run(&other::S3, "s3", args, session),
        Command::Csi(args) => other::run(&other::CSI, "csi", args, session),
        Command::Demo(args) => demo::run(args, session).await,
        Command::Completions(args) => completions::run(&args, session),
        Command::Man(args) => man::run(&args),
    }
}

/// Parses the address of an object and opens its pool.
async fn locate(session: &Session, text: &str) -> Outcome<(Arc<dyn Pool>, ObjectAddress)> {
    let address = object_address(text, &format!("`benthic ls {text}` lists a pool"))?;
    let pool = session.pool(&address.pool).await?;
    Ok((pool, address))
}

async fn striped_object(session: &Session, pool: Arc<dyn Pool>, object: ObjectId) -> Result<Striped> {
    let locks = Locks::of(&*session.store().await?);
    Ok(Striped { pool, object, locks, clock: Arc::new(SystemClock), is_interrupted: interrupt::is_set })
}

/// Parses the address of an object. If the text names only a pool, the error ends with the hint
/// `instead`.
fn object_address(text: &str, instead: &str) -> Result<ObjectAddress> {
    if text.contains('/') || text.parse::<PoolAddress>().is_err() {
        return text.parse();
    }
    let message = format!("this is a pool; an object is POOL/OBJECT or POOL:NS/OBJECT; {instead}");
    Err(Error::invalid_argument(message).with("got", text))
}

/// Refuses writes to objects that are parts of something larger, such as a table. Changing or
/// removing one would damage the table.
fn check_writable(namespace: &str) -> Result<()> {
    if !is_reserved_namespace(namespace) {
        return Ok(());
    }
    let message = "objects of this namespace are parts of larger structures, such as tables; \
        `benthic table drop` removes a table, `benthic table append` adds rows";
    Err(Error::permission_denied(message).with("namespace", namespace))
}

/// The JSON fields that identify an object.
fn address_fields(address: &ObjectAddress) -> Map<String, Value> {
    output::object_fields(&address.pool, &address.object)
}

/// Prints the JSON of an object that a command has processed. Text output omits it.
fn print_json(session: &Session, address: &ObjectAddress, more: Value) -> Outcome {
    if !session.out.is_json() {
        return Ok(());
    }
    session.out.json_line(&output::object_json(&address.pool, &address.object, more))
}

/// Reads a value or method input from its command-line form: text, `-` for stdin, or `@FILE`. A
/// text that begins with `@`, or is `-`, has to come from stdin or a file.
async fn read_value(text: &str) -> Outcome<Bytes> {
    match text.strip_prefix('@') {
        Some(path) => {
            let path = PathBuf::from(path);
            Ok(blocking(move || local::read_file(&path)).await?.data)
        }
        None if text == "-" => local::read_stdin().await,
        None => Ok(Bytes::copy_from_slice(text.as_bytes())),
    }
}
