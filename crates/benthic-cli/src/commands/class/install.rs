//! `benthic class install`: puts a class library into the directory from which OSDs load libraries,
//! or prints the instructions for doing so.

use super::hosts::{self, HostOptions};
use crate::commands::cluster::default_dir;
use benthic_ceph::classes::{self, Settings};
use benthic_ceph::hosts::directory::Library;
use benthic_ceph::local::Cluster;
use benthic_ceph::releases;
use benthic_core::{Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::local;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::units::shell_word;
use benthic_program::uri::StoreUri;
use benthic_wasm::rules::{self, Rules};
use clap::Args;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Directory in which `make` builds the library of a class project.
const BUILD_DIR: &str = "target/release";

#[derive(Args)]
#[command(
    after_help = "A running OSD loads a new library at the first call of one of its classes, and keeps it until the OSD restarts. \
    Rules say which WebAssembly modules run, and take effect within a second; docs/guide/classes.md describes them.\n\n\
    --hosts copies the library to the hosts of a real cluster over ssh. It inspects all hosts, shows a plan, asks for the \
    library's name, and then goes from host to host; it goes on when the OSDs of a host run the library. A repeated command \
    continues. docs/guide/class-install.md describes it, and clusters in containers.\n\n\
    Examples:\n  benthic class install --cluster\n  \
    benthic class install target/release/libcls_mydigest_1.so --cluster /tmp/c\n  \
    benthic class install --print\n  \
    benthic class install libcls_mydigest_1.so --store ceph: --hosts --ssh-config ceph.ssh\n  \
    benthic class install libcls_mydigest_1.so --store ceph: --hosts --undo --yes mydigest_1\n  \
    benthic class install --rules rules.json --cluster\n  \
    benthic class install libcls_mydigest_1.so --class-dir /usr/lib/x86_64-linux-gnu/rados-classes"
)]
pub struct InstallArgs {
    /// The library [default: that of the project in this directory]
    file: Option<PathBuf>,
    /// Install the rules for WebAssembly modules in FILE instead of a library
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "print"])]
    rules: Option<PathBuf>,
    /// Install it in the local cluster in DIR; by default, in the one that `cluster env` named
    #[arg(
        long,
        value_name = "DIR",
        num_args = 0..=1,
        required_unless_present_any = ["class_dir", "print", "hosts"]
    )]
    cluster: Option<Option<PathBuf>>,
    /// Install it in DIR, the osd_class_dir of OSDs on this machine
    #[arg(long, value_name = "DIR", conflicts_with = "cluster")]
    class_dir: Option<PathBuf>,
    /// Install it although the release of the OSDs is unknown to this program
    #[arg(long)]
    force: bool,
    /// Install nothing; print the steps for the hosts and the settings of a cluster
    #[arg(long, conflicts_with = "class_dir")]
    print: bool,
    #[command(flatten)]
    hosts: HostOptions,
}

pub async fn run(args: InstallArgs, session: &Session) -> Outcome {
    let cluster = args.cluster.map(|dir| dir.unwrap_or_else(default_dir));
    if let Some(file) = args.rules {
        return install_rules(file, args.class_dir, cluster, session).await;
    }
    let library = if let Some(file) = args.file { file } else { find_built_library()? };
    let name = classes::library_name(&library)?.to_owned();
    if args.hosts.is_given() {
        let undo = args.hosts.undo;
        let library = blocking(move || {
            let name = classes::library_name(&library)?;
            // To undo, the name is enough.
            let content = if undo { Vec::new() } else { classes::read_library(&library)? };
            Ok(Library::new(name, content))
        });
        return hosts::run(args.hosts, library.await?, args.print, args.force, session).await;
    }
    if args.print {
        return print(&library, &name, cluster, session).await;
    }
    let (installed, older) = blocking(move || {
        let class_dir = class_dir(args.class_dir, cluster)?;
        if !args.force {
            releases::check_osds_of_this_machine()?;
        }
        let installed = classes::install(&library, &class_dir)?;
        let older = classes::running_older(&installed)?;
        Ok((installed, older))
    })
    .await?;
    session.out.result(
        format_args!("installed {}", installed.display()),
        || json!({ "library": name, "installed": installed, "running_older": older }),
    )?;
    if !older.is_empty() {
        let pids: Vec<String> = older.iter().map(ToString::to_string).collect();
        session.out.warning(format_args!(
            "running OSDs still use an older file of this name (pid {}); restart them, or build the library as the \
             next version, {}",
            pids.join(", "),
            next_version(&name)
        ));
    }
    Ok(())
}

async fn install_rules(
    file: PathBuf,
    given: Option<PathBuf>,
    cluster: Option<PathBuf>,
    session: &Session,
) -> Outcome {
    let installed = blocking(move || {
        let json = local::read_file(&file)?.data;
        Rules::parse(&json).map_err(|error| error.with("file", file.display()))?;
        classes::install_file(&json, rules::FILE_NAME, &class_dir(given, cluster)?)
    })
    .await?;
    session.out.result(
        format_args!(
            "installed {}\nOSDs that run modules apply the rules within a second",
            installed.display()
        ),
        || json!({ "rules": installed }),
    )
}

fn class_dir(given: Option<PathBuf>, cluster: Option<PathBuf>) -> Result<PathBuf> {
    match (given, cluster) {
        (Some(class_dir), _) => Ok(class_dir),
        (None, Some(cluster)) => Ok(Cluster::open(&cluster)?.class_dir()),
        (None, None) => {
            Err(Error::invalid_argument("no directory to install into; use --cluster or --class-dir"))
        }
    }
}

/// The library of the project in the current directory, if it is built.
fn find_built_library() -> Result<PathBuf> {
    let missing = |message: &str| Err(Error::not_found(message).with("dir", "."));
    let manifest = fs::read_to_string("Cargo.toml").unwrap_or_default();
    let Some(name) = library_in_manifest(&manifest) else {
        return missing("no class project here; `benthic class new` creates one, or name a libcls_NAME.so");
    };
    let library = Path::new(BUILD_DIR).join(format!("lib{name}.so"));
    if library.exists() { Ok(library) } else { missing("the library is not built yet; run `make`") }
}

/// The library name in a manifest, `cls_NAME`.
fn library_in_manifest(manifest: &str) -> Option<&str> {
    let section = manifest.split("\n[").find(|section| section.starts_with("lib]"))?;
    let value = section.lines().find_map(|line| line.strip_prefix("name = \""))?;
    value.split('"').next().filter(|name| name.starts_with("cls_"))
}

/// Increments the wire version of a library name: `mydigest_1` becomes `mydigest_2`.
pub fn next_version(name: &str) -> String {
    match name.rsplit_once('_').map(|(stem, version)| (stem, version.parse::<u32>())) {
        Some((stem, Ok(version))) => format!("{stem}_{}", version.saturating_add(1)),
        _ => format!("{name}_2"),
    }
}

async fn print(library: &Path, name: &str, cluster: Option<PathBuf>, session: &Session) -> Outcome {
    let file = library.to_owned();
    blocking(move || classes::read_library(&file).map(drop)).await?;
    let (settings, versions) = match cluster_settings(cluster, session).await {
        Ok(found) => found,
        Err(error) => {
            session.out.warning(format_args!(
                "cannot read the settings of the cluster, so the defaults of Debian and Ceph are shown: {error}"
            ));
            (Settings::debian_default(), Vec::new())
        }
    };
    for error in versions.iter().filter_map(|version| releases::check(version).err()) {
        session.out.warning(error);
    }
    let next = next_version(name);
    let commands: Vec<String> =
        [("osd_class_load_list", &settings.load_list), ("osd_class_default_list", &settings.default_list)]
            .into_iter()
            .filter_map(|(setting, list)| {
                with_names(list, &[name, &next])
                    .map(|list| format!("ceph config set osd {setting} {}", shell_word(&list)))
            })
            .collect();
    session.out.result(instructions(library, name, &settings.class_dir, &commands), || {
        json!({
            "library": name,
            "class_dir": settings.class_dir,
            "osd_class_load_list": settings.load_list,
            "osd_class_default_list": settings.default_list,
            "commands": commands,
        })
    })
}

fn instructions(library: &Path, name: &str, class_dir: &Path, commands: &[String]) -> String {
    let file_name = format!("libcls_{name}.so");
    let installed = shell_word(&class_dir.join(&file_name).display().to_string());
    let temporary = shell_word(&class_dir.join(format!(".{file_name}.new")).display().to_string());
    let library = shell_word(&library.display().to_string());
    // Both the local and the remote shell parse this command, so quote it twice.
    let rename = shell_word(&format!("mv {temporary} {installed}"));
    let copy = format!(
        "On every host with OSDs, copy the library into their osd_class_dir under another name, then rename it:\n\n  \
         scp {library} HOST:{temporary}\n  \
         ssh HOST {rename}\n"
    );
    let see = format!(
        "Check every OSD. An OSD without the library loads it now:\n\n  benthic class ls --library {name}"
    );
    if commands.is_empty() {
        return format!(
            "1. {copy}\n   The present settings allow OSDs to load it and clients to call it.\n\n2. {see}"
        );
    }
    format!(
        "1. {copy}\n\
         2. Allow the OSDs to load it, and clients to call it. The lists include the next version, so that it will need \
         no restart:\n\n  {}\n\n\
         3. Restart the OSDs, one host after the other; they read these settings only at the start. If ceph.conf on a \
         host has these settings, change them there, because that file takes precedence.\n\n\
         4. {see}",
        commands.join("\n  ")
    )
}

/// The settings of the cluster that `--cluster` or the store's URI names, and the versions of its
/// OSDs.
async fn cluster_settings(cluster: Option<PathBuf>, session: &Session) -> Result<(Settings, Vec<String>)> {
    let (conf, id) = match cluster {
        Some(dir) => (Some(blocking(move || Ok(Cluster::open(&dir)?.conf())).await?), None),
        None => match session.uri().parse() {
            Ok(StoreUri::Ceph { conf, id, .. }) => (conf, id),
            _ => {
                return Err(Error::invalid_argument("no cluster; name one with --store ceph: or --cluster"));
            }
        },
    };
    blocking(move || {
        let (conf, id) = (conf.as_deref(), id.as_deref());
        let settings = Settings::read(conf, id)?;
        // The versions are only for a warning.
        Ok((settings, classes::osd_versions(conf, id).unwrap_or_default()))
    })
    .await
}

/// Appends library names to a list; `None` if the list already allows the first.
pub fn with_names(list: &str, names: &[&str]) -> Option<String> {
    let has = |name: &str| list.split_whitespace().any(|word| word == "*" || word == name);
    if names.first().is_none_or(|name| has(name)) {
        return None;
    }
    let present = list.split_whitespace();
    Some(present.chain(names.iter().copied().filter(|name| !has(name))).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;
