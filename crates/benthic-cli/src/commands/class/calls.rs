//! `benthic class calls`: how often the OSDs ran each method, how often it failed, and its costs.

use super::log::LibraryArg;
use super::ls::no_cluster;
use benthic_ceph::osds::calls_on;
use benthic_core::{LibraryCalls, MethodCalls};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use clap::Args;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Args)]
#[command(
    after_help = "Each line has the method, the version of a WebAssembly class, and the sums over all OSDs since each loaded \
    the library (for WebAssembly, of the 1,024 most recently called methods): calls, failures, those failures that are faults (a panic, a trap, or an access that the class does not \
    declare), the time that threads of the OSDs spent in the method, and for WebAssembly methods the fuel (about one unit \
    per instruction) and the largest memory of a call. Methods without calls are not listed. A call of a WebAssembly class counts \
    under its name only. `benthic exporter` exports the sums over all versions.\n\n\
    Examples:\n  benthic class calls\n  benthic class calls wordcount"
)]
pub struct CallsArgs {
    /// Only this class
    class: Option<String>,
    #[command(flatten)]
    libraries: LibraryArg,
}

/// A method in a library, by which lines are sorted.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Counted {
    class: String,
    method: String,
    version: Option<String>,
    library: String,
}

pub async fn run(args: CallsArgs, session: &Session) -> Outcome {
    let Some(rados) = session.rados().await? else { return Err(no_cluster(session).into()) };
    let answers =
        args.libraries.ask(&*rados, session, async |osd, library| calls_on(&*rados, osd, library).await);
    let answers = answers.await?.into_iter().map(|(_, answer)| answer);
    let mut sums = sum(answers.collect());
    sums.retain(|counted, _| args.class.as_ref().is_none_or(|class| counted.class == *class));
    sums.iter().try_for_each(|(counted, sums)| {
        let version = counted.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        let cost = match &counted.version {
            Some(_) => format!(", fuel {}, memory up to {}", sums.fuel, units::size(sums.memory_bytes_max)),
            None => String::new(),
        };
        let line = format!(
            "{}.{}{version}: {}, {} failed, {}, busy {:.3} s{cost}",
            counted.class,
            counted.method,
            units::count(sums.calls, "call"),
            sums.failures,
            units::count(sums.faults, "fault"),
            sums.busy_us as f64 / 1e6,
        );
        session.out.result(line, || {
            json!({
                "class": counted.class, "version": counted.version, "method": counted.method,
                "library": counted.library, "calls": sums.calls, "failures": sums.failures,
                "faults": sums.faults, "busy_us": sums.busy_us, "fuel": sums.fuel,
                "memory_bytes_max": sums.memory_bytes_max,
            })
        })
    })
}

/// Adds up the counters of all OSDs. An OSD that answered in place of another counts once.
fn sum(answers: Vec<LibraryCalls>) -> BTreeMap<Counted, MethodCalls> {
    let mut sums: BTreeMap<Counted, MethodCalls> = BTreeMap::new();
    let mut processes = BTreeSet::new();
    for answer in answers {
        if !processes.insert((answer.library.clone(), answer.process)) {
            continue;
        }
        for class in answer.classes {
            for method in class.methods.into_iter().filter(|method| method.calls > 0) {
                let counted = Counted {
                    class: class.name.clone(),
                    method: method.name,
                    version: class.version.clone(),
                    library: answer.library.clone(),
                };
                let sum = sums.entry(counted).or_default();
                sum.calls = sum.calls.saturating_add(method.calls);
                sum.failures = sum.failures.saturating_add(method.failures);
                sum.faults = sum.faults.saturating_add(method.faults);
                sum.busy_us = sum.busy_us.saturating_add(method.busy_us);
                sum.fuel = sum.fuel.saturating_add(method.fuel);
                sum.memory_bytes_max = sum.memory_bytes_max.max(method.memory_bytes_max);
            }
        }
    }
    sums
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
