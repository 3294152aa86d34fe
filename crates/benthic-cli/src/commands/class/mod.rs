//! `benthic class`: shows classes, and the calls, failures and log messages of their methods;
//! creates, builds and tests a project for a class, deploys WebAssembly modules, and installs class
//! libraries.

mod build;
mod calls;
mod cases;
mod deploy;
mod hosts;
mod install;
mod language;
mod log;
mod ls;
mod new;
mod profile;
mod test;
mod wrappers;

pub use deploy::value as deployed_json;
pub use ls::{ask_osds, group_by_build};

use benthic_ceph::osds::osds;
use benthic_core::{ClassCall, ClassInfo, Error, ErrorKind, MethodInfo, ObjectId, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::store::nearest;
use benthic_wasm::Manifest;
use clap::Subcommand;
use serde_json::json;

pub const EXAMPLES: &str = "Examples:\n  benthic class ls\n  benthic class show digest\n  benthic class log\n  \
    benthic class new wordcount --lang rust && benthic class build wordcount\n  \
    benthic class deploy wordcount/wordcount.wasm --pool logs\n  benthic class install --cluster";

#[derive(Subcommand)]
pub enum ClassCommand {
    /// List the classes; in a Ceph cluster, those that each OSD runs
    Ls(ls::LsArgs),
    /// Show the methods of a class: flags, input and output, examples
    #[command(
        after_help = "Examples:\n  benthic class show digest\n  benthic class show wordcount --pool logs"
    )]
    Show {
        /// The class
        class: String,
        /// A class that is deployed to this pool: also its versions
        #[arg(long, value_name = "POOL")]
        pool: Option<String>,
    },
    /// List the recent failures and log messages of methods in the OSDs of a Ceph cluster
    Log(log::LogArgs),
    /// Show the call counters of methods in the OSDs of a Ceph cluster
    Calls(calls::CallsArgs),
    /// Create a project for a new class
    New(new::NewArgs),
    /// Compile a class to a WebAssembly module
    Build(build::BuildArgs),
    /// Run a WebAssembly class with cases, without a store
    Test(test::TestArgs),
    /// Store a WebAssembly module in a pool and use it for calls
    Deploy(deploy::DeployArgs),
    /// Return to an earlier version of a deployed class
    Rollback(deploy::RollbackArgs),
    /// Remove a deployed class
    Undeploy(deploy::UndeployArgs),
    /// List who deployed and removed classes of a pool, the latest last
    #[command(
        after_help = "The latest 1,000 changes, as the clients reported them.\n\nExamples:\n  benthic class audit --pool logs"
    )]
    Audit {
        #[command(flatten)]
        pool: deploy::PoolArg,
    },
    /// Install a class library where OSDs find it
    Install(install::InstallArgs),
}

pub async fn run(command: ClassCommand, session: &Session) -> Outcome {
    match command {
        ClassCommand::Ls(args) => ls::run(args, session).await,
        ClassCommand::Show { class, pool: None } => show(&class, session).await,
        ClassCommand::Show { class, pool: Some(pool) } => show_deployed(&class, &pool, session).await,
        ClassCommand::Log(args) => log::run(args, session).await,
        ClassCommand::Calls(args) => calls::run(args, session).await,
        ClassCommand::New(args) => new::run(args, session).await,
        ClassCommand::Build(args) => build::run(args, session).await,
        ClassCommand::Test(args) => test::run(args, session).await,
        ClassCommand::Deploy(args) => deploy::deploy(args, session).await,
        ClassCommand::Rollback(args) => deploy::rollback(args, session).await,
        ClassCommand::Undeploy(args) => deploy::undeploy(args, session).await,
        ClassCommand::Audit { pool } => deploy::audit(&pool, session).await,
        ClassCommand::Install(args) => install::run(args, session).await,
    }
}

async fn show(name: &str, session: &Session) -> Outcome {
    let mut classes = session.classes().await?;
    if !classes.iter().any(|class| class.name == name)
        && let Some(rados) = session.rados().await?
        && let Some((pool, object)) = osds(&*rados).await?.into_iter().find_map(|osd| osd.object)
    {
        classes.extend(rados.class(&pool, &ObjectId::new(object)?, name).await?);
    }
    let class = find_class(&classes, name)?;
    session.out.result(page(class, None), || json!(class))
}

async fn show_deployed(name: &str, pool: &str, session: &Session) -> Outcome {
    let pool = session.pool(pool).await?;
    let class = benthic_wasm::deployed::get(&*pool, name).await?;
    let manifest = class.version().map(|version| &version.manifest);
    let page = class.info().map(|info| page(&info, manifest)).unwrap_or_default();
    session.out.result(format_args!("{page}\n\nversions{}", deploy::versions(&class)), || {
        deploy::value(&class, pool.name())
    })
}

fn find_class<'a>(classes: &'a [ClassInfo], name: &str) -> Result<&'a ClassInfo> {
    classes.iter().find(|class| class.name == name).ok_or_else(|| {
        let hint = match nearest(name, classes.iter().map(|class| class.name.as_str())) {
            Some(class) => format!("did you mean {class:?}?"),
            None => "`benthic class ls` lists the classes;".to_owned(),
        };
        let custom = "`benthic class ls --pool POOL` lists those that are deployed to a pool; native libraries run only \
                      in the OSDs of a Ceph cluster, after `benthic class install`";
        Error::unsupported(format!("no such class; {hint} {custom}")).with("class", name)
    })
}

/// Finds the method that a call names. If there is none, the error suggests a similar name.
pub fn find_method<'a>(classes: &'a [ClassInfo], call: &ClassCall) -> Result<&'a MethodInfo> {
    let class = find_class(classes, &call.class)?;
    class.methods.iter().find(|method| method.name == call.method).ok_or_else(|| {
        let hint = match nearest(&call.method, class.methods.iter().map(|method| method.name.as_str())) {
            Some(method) => format!("did you mean {method:?}?"),
            None => format!("`benthic class show {}` lists the methods", class.name),
        };
        Error::unsupported(format!("no such method; {hint}"))
            .with("class", &call.class)
            .with("method", &call.method)
    })
}

/// Explains the error of a call. If the store refused it because the class or method is unknown,
/// the new error suggests a similar name.
pub fn explain(error: Error, classes: &[ClassInfo], call: &ClassCall) -> Error {
    match find_method(classes, call) {
        Err(unknown) if error.kind() == ErrorKind::Unsupported => unknown,
        _ => error,
    }
}

/// The description of a class; a WebAssembly class also has a manifest.
fn page(class: &ClassInfo, manifest: Option<&Manifest>) -> String {
    let mut page =
        format!("{}: {}\nversion {}, build {}", class.name, class.summary, class.version, class.build);
    for method in &class.methods {
        let flags = match (method.reads, method.writes) {
            (true, true) => "reads and writes",
            (true, false) => "reads",
            (false, true) => "writes",
            (false, false) => "neither reads nor writes",
        };
        page.push_str(&format!("\n\n{} ({flags}): {}", method.name, method.summary));
        page.push_str(&format!("\n  input:   {}\n  output:  {}", method.input, method.output));
        let objects = manifest.and_then(|manifest| manifest.method(&method.name).ok());
        let objects = objects.map_or(&[][..], |method| &method.objects);
        if !objects.is_empty() {
            page.push_str(&format!("\n  objects: {} (--object NAME=POOL/OBJECT)", objects.join(", ")));
        }
        if let Some(xattr) = &method.result_xattr {
            page.push_str(&format!("\n  kept in: attribute {xattr}, which `benthic exec` reads back"));
        }
        for input in &method.examples {
            let input = if input.is_empty() { String::new() } else { format!(" '{input}'") };
            page.push_str(&format!(
                "\n  example: benthic exec POOL/OBJECT {} {}{input}",
                class.name, method.name
            ));
            objects.iter().for_each(|name| page.push_str(&format!(" --object {name}=POOL/OBJECT")));
        }
    }
    page
}
