//! `benthic class ls`: lists the classes of the store. In a Ceph cluster, it asks every OSD which
//! libraries it has, and warns about OSDs that do not answer or that run another build.

use benthic_ceph::classes::{self, Settings};
use benthic_ceph::cluster_client::ClusterClient;
use benthic_ceph::health::snapshot::{Library, OsdBuild};
use benthic_ceph::osds::{OsdTarget, library_on, osds};
use benthic_ceph::{CLASS_LIBRARY, LIBRARIES};
use benthic_core::{ClassInfo, Error, ErrorKind, LibraryInfo, Result, build};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::uri::StoreUri;
use clap::Args;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time limit for one OSD to describe one library.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const REQUESTS_AT_ONCE: usize = 64;

#[derive(Args)]
#[command(
    after_help = "In a Ceph cluster, the command asks every OSD for its class libraries: Benthic's own, and those in the OSDs' \
    osd_class_dir if that directory is on this machine; --library names others. It warns about OSDs that do not answer, \
    and about builds that differ from each other or from this program.\n\n\
    Examples:\n  benthic class ls\n  benthic class ls --library mydigest_1\n  benthic class ls --pool logs"
)]
pub struct LsArgs {
    /// In a Ceph cluster: only this library, the NAME of libcls_NAME.so
    #[arg(long, value_name = "NAME", conflicts_with = "pool")]
    library: Vec<String>,
    /// The classes that are deployed to this pool
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
}

pub async fn run(args: LsArgs, session: &Session) -> Outcome {
    if let Some(pool) = &args.pool {
        return super::deploy::list(&*session.pool(pool).await?, session).await;
    }
    if let Some(rados) = session.rados().await? {
        return list_osds(args, &*rados, session).await;
    }
    if !args.library.is_empty() {
        return Err(no_cluster(session).into());
    }
    for class in &session.classes().await? {
        let line = format!("{:<12} {} (version {})", class.name, class.summary, class.version);
        session.out.result(line, || summary(class))?;
    }
    Ok(())
}

/// The error of a request that needs OSDs.
pub fn no_cluster(session: &Session) -> Error {
    let message = "only OSDs load class libraries, and this store is no Ceph cluster";
    Error::unsupported(message).with("store", session.uri())
}

fn summary(class: &ClassInfo) -> Value {
    json!({ "class": class.name, "version": class.version, "build": class.build, "summary": class.summary })
}

/// Every OSD's description of one library, with the number of the OSD.
pub type Answers = Vec<(i64, Result<Option<LibraryInfo>>)>;

async fn list_osds(args: LsArgs, client: &dyn ClusterClient, session: &Session) -> Outcome {
    let named = !args.library.is_empty();
    let installed = async { if named { args.library } else { installed_here(session.uri()).await } };
    let (libraries, osds) = futures::join!(installed, osds(client));
    let mut osds = osds?;
    let osd_count = osds.len();
    for library in libraries {
        let answers = ask_osds(client, &osds, &library).await;
        // An OSD that does not answer gets one warning and no further request, which would take 5
        // s.
        let silent = |osd: &OsdTarget| answers.iter().any(|(id, answer)| *id == osd.id && is_silent(answer));
        osds.retain(|osd| !silent(osd));
        let is_missing = answers.iter().all(|(_, answer)| matches!(answer, Ok(None)) || is_silent(answer));
        if is_missing && !named && library != CLASS_LIBRARY {
            // An optional library, or a library in the directory that has no Benthic classes.
            continue;
        }
        list(&library, &answers, osd_count, session)?;
        for warning in warnings_about(&library, &answers) {
            session.out.warning(warning);
        }
    }
    Ok(())
}

fn is_silent(answer: &Result<Option<LibraryInfo>>) -> bool {
    matches!(answer, Err(error) if error.kind() == ErrorKind::Unavailable)
}

/// Benthic's own libraries, and the other libraries in the directory from which OSDs on this
/// machine load theirs.
pub async fn installed_here(uri: &str) -> Vec<String> {
    let mut libraries: Vec<String> = LIBRARIES.map(str::to_owned).into();
    let Ok(StoreUri::Ceph { conf, id, .. }) = uri.parse() else { return libraries };
    // If no monitor answers, or the OSDs run on another machine, there is nothing to find.
    let class_dir =
        blocking(move || Settings::read(conf.as_deref(), id.as_deref()).map(|settings| settings.class_dir));
    let Ok(class_dir) = class_dir.await else { return libraries };
    let mut others = classes::installed_in(&class_dir);
    others.retain(|name| !libraries.contains(name));
    others.sort();
    libraries.append(&mut others);
    libraries
}

/// Asks each of these OSDs to describe a library. OSDs that do not answer cost 5 s per 64 of them.
pub async fn ask_osds(client: &dyn ClusterClient, osds: &[OsdTarget], library: &str) -> Answers {
    ask_each(osds, async |osd| library_on(client, osd, library).await).await
}

/// Asks each of these OSDs a question. OSDs that do not answer cost 5 s per 64 of them.
pub async fn ask_each<T>(
    osds: &[OsdTarget],
    question: impl AsyncFn(&OsdTarget) -> Result<T>,
) -> Vec<(i64, Result<T>)> {
    let requests = osds.iter().map(async |osd| {
        let answer = tokio::time::timeout(ANSWER_LIMIT, question(osd)).await;
        let late = |_| Err(Error::unavailable("it did not answer in time"));
        (osd.id, answer.unwrap_or_else(late))
    });
    stream::iter(requests).buffered(REQUESTS_AT_ONCE).collect().await
}

/// Groups the OSDs by their answer: the build of the library, no library, or no answer.
pub fn group_by_build(name: &str, answers: &Answers) -> Library {
    let mut library = Library { name: name.to_owned(), ..Library::default() };
    let mut builds: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for (osd, answer) in answers {
        match answer {
            Ok(Some(info)) => builds.entry(&info.build).or_default().push(*osd),
            Ok(None) => library.without.push(*osd),
            Err(_) => library.silent.push(*osd),
        }
    }
    let build = |(build, osds): (&str, Vec<i64>)| OsdBuild { build: build.to_owned(), osds };
    library.builds = builds.into_iter().map(build).collect();
    library
}

/// Prints a line for each class in each version and build that OSDs run.
fn list(library: &str, answers: &Answers, osds: usize, session: &Session) -> Outcome {
    let mut found: BTreeMap<(&str, u32, &str), (&ClassInfo, Vec<i64>)> = BTreeMap::new();
    for (osd, answer) in answers {
        let Ok(Some(info)) = answer else { continue };
        for class in &info.classes {
            let key = (class.name.as_str(), class.version, class.build.as_str());
            found.entry(key).or_insert((class, Vec::new())).1.push(*osd);
        }
    }
    for (class, on) in found.into_values() {
        let place = if on.len() == osds { format!("all OSDs ({osds})") } else { names(&on) };
        let line = format!(
            "{:<12} {} (version {}, {library} build {} in {place})",
            class.name, class.summary, class.version, class.build
        );
        session.out.result(line, || {
            let mut value = summary(class);
            value["library"] = json!(library);
            value["osds"] = json!(on);
            value
        })?;
    }
    Ok(())
}

fn warnings_about(library: &str, answers: &Answers) -> Vec<String> {
    let Library { builds, without, .. } = group_by_build(library, answers);
    let mut warnings = Vec::new();
    if !without.is_empty() {
        let how = "`benthic class install` installs it, with --hosts over ssh";
        warnings.push(format!("{} does not have the library {library}; {how}", names(&without)));
    }
    let mut failures: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for (osd, answer) in answers {
        if let Err(error) = answer {
            failures.entry(error.message()).or_default().push(*osd);
        }
    }
    warnings.extend(failures.iter().map(|(message, osds)| format!("{}: {message}", names(osds))));
    if builds.len() > 1 {
        let in_osds = |found: &OsdBuild| format!("{} in {}", found.build, names(&found.osds));
        let each: Vec<_> = builds.iter().map(in_osds).collect();
        warnings.push(format!("the OSDs run different builds of {library}: {}", each.join(", ")));
    }
    if library == CLASS_LIBRARY && builds.iter().any(|found| found.build != build()) {
        let builds: Vec<_> = builds.iter().map(|found| found.build.as_str()).collect();
        warnings.push(format!(
            "this program is build {}, and the OSDs run {library} build {}; install this build's library and \
             restart the OSDs",
            build(),
            builds.join(", ")
        ));
    }
    warnings
}

fn names(osds: &[i64]) -> String {
    osds.iter().map(|osd| format!("osd.{osd}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "ls_tests.rs"]
mod tests;
