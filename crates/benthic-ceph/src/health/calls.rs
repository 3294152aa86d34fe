//! Calls of classes in all OSDs: what their libraries counted, summed, and how fast it grows.
//!
//! An OSD counts since it started. What is told here is counted since the first look, so that an OSD that starts again takes
//! nothing back: what it counted until the look before is in the sums, and it goes on from 0.

use super::metrics::{Metric, Text, counter, metric};
use benthic_core::{LibraryCalls, MethodCalls};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// A process that was not seen for so long is forgotten. One that is older than that is never taken for a new one.
const FORGET_MS: u64 = 24 * 60 * 60 * 1_000;
/// Processes that are remembered of a library; others are not counted.
const PROCESSES_MAX: usize = 100_000;
/// Methods of a library that are told of.
const METHODS_MAX: usize = 256;
/// What tells a process, and names of classes and methods, are much shorter. A library of somebody else's may answer anything.
const NAME_BYTES_MAX: usize = 256;

/// Every metric of calls, in the order in which they are written. There is a sample for each method, however many OSDs there
/// are: they are sums over OSDs.
pub static METRICS: [Metric; 4] = [
    counter(
        "benthic_class_calls_total",
        "Calls of a method of a class, in all OSDs that count, since the exporter began",
    ),
    counter("benthic_class_failures_total", "Of them, those whose answer was an error, refusals among them"),
    counter("benthic_class_busy_seconds_total", "How long threads of OSDs were in the method"),
    metric("benthic_class_counting_osds", "OSDs that told what they counted when they were asked last"),
];

/// What the OSDs that have a library answered at one look.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// NAME of `libcls_NAME.so`.
    pub library: String,
    /// What they counted.
    pub counted: Vec<LibraryCalls>,
    /// Those that run a build which does not count.
    pub osds_not_counting: usize,
    /// Those that did not answer.
    pub osds_not_seen: usize,
}

/// The calls of classes since OSDs were asked first, and how fast they came between the last two times.
#[derive(Default)]
pub struct Tally {
    began: Option<Moment>,
    looked_ms: u64,
    libraries: BTreeMap<String, Library>,
}

#[derive(Clone, Copy)]
struct Moment {
    unix_s: u64,
    ms: u64,
}

#[derive(Default)]
struct Library {
    /// Classes and methods, and their places in `sums` and in the counts of processes.
    places: BTreeMap<(String, String), usize>,
    sums: Vec<Sum>,
    processes: HashMap<String, Process>,
    osds: usize,
    osds_not_counting: usize,
    osds_not_seen: usize,
}

/// What a process had counted when it was seen last.
struct Process {
    seen_ms: u64,
    counts: Vec<Count>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    calls: u64,
    failures: u64,
    busy_us: u64,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    total: Count,
    /// `None` if nothing is known of the time between the last two times.
    lately: Option<Rate>,
}

#[derive(Clone, Copy, Default)]
struct Rate {
    calls_per_s: f64,
    failures_per_s: f64,
    busy_share: f64,
}

/// The calls of the classes of a library.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LibrarySums {
    /// NAME of `libcls_NAME.so`.
    pub library: String,
    /// Since when they are counted here.
    pub since_unix_s: u64,
    /// OSDs that told what they counted.
    pub osds: usize,
    /// OSDs that run a build which does not count.
    pub osds_not_counting: usize,
    /// OSDs that have the library and did not answer.
    pub osds_not_seen: usize,
    /// Its classes, by name; none if no OSD has counted.
    pub classes: Vec<ClassSums>,
}

/// The calls of a class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassSums {
    /// Name.
    pub class: String,
    /// Of all its methods.
    #[serde(flatten)]
    pub sums: Sums,
    /// Its methods, by name.
    pub methods: Vec<MethodSums>,
}

/// The calls of a method.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodSums {
    /// Name.
    pub method: String,
    /// Its own.
    #[serde(flatten)]
    pub sums: Sums,
}

/// Sums over OSDs. Rates are those between the last two times that OSDs were asked, `None` if nothing is known of that time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sums {
    /// Calls.
    pub calls: u64,
    /// Of them, those whose answer was an error.
    pub failures: u64,
    /// How long they ran.
    pub busy_us: u64,
    /// Calls a second.
    pub calls_per_s: Option<f64>,
    /// Failures a second.
    pub failures_per_s: Option<f64>,
    /// Seconds that they ran in a second: 1 is one thread of one OSD.
    pub busy_share: Option<f64>,
}

impl Tally {
    /// Takes in what was answered at a look. `now_ms` is of a clock that never goes back.
    pub fn add(&mut self, now_unix_s: u64, now_ms: u64, answers: Vec<Answers>) {
        let began_ms = self.began.get_or_insert(Moment { unix_s: now_unix_s, ms: now_ms }).ms;
        let look =
            Look { now_ms, watched_ms: now_ms - began_ms, since_ms: now_ms.saturating_sub(self.looked_ms) };
        self.looked_ms = now_ms;
        for library in self.libraries.values_mut() {
            (library.osds, library.osds_not_counting, library.osds_not_seen) = (0, 0, 0);
            library.sums.iter_mut().for_each(|sum| sum.lately = None);
            library.processes.retain(|_, process| now_ms - process.seen_ms < FORGET_MS);
        }
        for answers in answers {
            self.libraries.entry(answers.library.clone()).or_default().add(&look, answers);
        }
    }

    /// Whether every OSD that was asked answered for itself at the last look.
    pub fn is_whole(&self) -> bool {
        self.libraries.values().all(|library| library.osds_not_seen == 0)
    }

    /// The sums, by library.
    pub fn sums(&self) -> Vec<LibrarySums> {
        let since_unix_s = self.began.map_or(0, |began| began.unix_s);
        let sums_of = |(name, library): (&String, &Library)| LibrarySums {
            library: name.clone(),
            since_unix_s,
            osds: library.osds,
            osds_not_counting: library.osds_not_counting,
            osds_not_seen: library.osds_not_seen,
            classes: library.classes(),
        };
        self.libraries.iter().map(sums_of).collect()
    }

    /// The sums for Prometheus, in its text format.
    pub fn text(&self) -> String {
        let mut text = Text::new(&METRICS);
        for library in &self.sums() {
            let name = ("library", library.library.as_str());
            text.add("benthic_class_counting_osds", &[name], library.osds);
            for class in &library.classes {
                for MethodSums { method, sums } in &class.methods {
                    let labels = [name, ("class", &class.class), ("method", method)];
                    text.add("benthic_class_calls_total", &labels, sums.calls);
                    text.add("benthic_class_failures_total", &labels, sums.failures);
                    text.add("benthic_class_busy_seconds_total", &labels, sums.busy_us as f64 / 1e6);
                }
            }
        }
        text.finish()
    }
}

struct Look {
    now_ms: u64,
    /// For how long calls are counted here.
    watched_ms: u64,
    /// How long ago the look before was.
    since_ms: u64,
}

impl Library {
    fn add(&mut self, look: &Look, answers: Answers) {
        self.osds_not_counting += answers.osds_not_counting;
        self.osds_not_seen += answers.osds_not_seen;
        for counted in answers.counted {
            if counted.process.len() > NAME_BYTES_MAX {
                self.osds_not_seen += 1;
                continue;
            }
            let counts = self.counts(&counted);
            let is_new = counted.loaded_ms_ago < look.watched_ms.min(FORGET_MS);
            let (before, over_ms) = match self.processes.get(&counted.process) {
                // It answered already at the place of another OSD, whose placement group it leads by now.
                Some(known) if known.seen_ms == look.now_ms => {
                    self.osds_not_seen += 1;
                    continue;
                }
                Some(known) => (known.counts.clone(), Some(look.now_ms - known.seen_ms)),
                None if self.processes.len() >= PROCESSES_MAX => {
                    self.osds_not_seen += 1;
                    continue;
                }
                None if is_new => (Vec::new(), Some(counted.loaded_ms_ago.max(look.since_ms))),
                // What it counted before anybody looked is not known to be of this time.
                None => (counts.clone(), None),
            };
            self.osds += 1;
            for (place, now) in counts.iter().enumerate() {
                let grown = now.since(before.get(place).copied().unwrap_or_default());
                self.sums[place].add(grown, over_ms);
            }
            self.processes.insert(counted.process, Process { seen_ms: look.now_ms, counts });
        }
    }

    /// What a process counted, each method at its place.
    fn counts(&mut self, counted: &LibraryCalls) -> Vec<Count> {
        let mut counts = vec![Count::default(); self.sums.len()];
        for class in &counted.classes {
            for method in &class.methods {
                let key = (class.name.clone(), method.name.clone());
                let next = self.sums.len();
                let is_too_long = key.0.len().max(key.1.len()) > NAME_BYTES_MAX;
                if is_too_long || next >= METHODS_MAX && !self.places.contains_key(&key) {
                    continue;
                }
                let place = *self.places.entry(key).or_insert(next);
                if place == next {
                    self.sums.push(Sum::default());
                    counts.push(Count::default());
                }
                counts[place] = Count::of(method);
            }
        }
        counts
    }

    fn classes(&self) -> Vec<ClassSums> {
        let mut classes: Vec<ClassSums> = Vec::new();
        for ((class, method), place) in &self.places {
            if classes.last().is_none_or(|last| last.class != *class) {
                classes.push(ClassSums { class: class.clone(), sums: Sums::default(), methods: Vec::new() });
            }
            let sums = self.sums[*place].sums();
            if let Some(last) = classes.last_mut() {
                last.sums = last.sums.and(&sums);
                last.methods.push(MethodSums { method: method.clone(), sums });
            }
        }
        classes
    }
}

impl Count {
    fn of(method: &MethodCalls) -> Count {
        Count { calls: method.calls, failures: method.failures, busy_us: method.busy_us }
    }

    fn since(self, before: Count) -> Count {
        Count {
            calls: self.calls.saturating_sub(before.calls),
            failures: self.failures.saturating_sub(before.failures),
            busy_us: self.busy_us.saturating_sub(before.busy_us),
        }
    }
}

impl Sum {
    fn add(&mut self, grown: Count, over_ms: Option<u64>) {
        self.total.calls = self.total.calls.saturating_add(grown.calls);
        self.total.failures = self.total.failures.saturating_add(grown.failures);
        self.total.busy_us = self.total.busy_us.saturating_add(grown.busy_us);
        if let Some(over_ms) = over_ms {
            let over_s = over_ms.max(1) as f64 / 1_000.0;
            let rate = self.lately.get_or_insert_default();
            rate.calls_per_s += grown.calls as f64 / over_s;
            rate.failures_per_s += grown.failures as f64 / over_s;
            rate.busy_share += grown.busy_us as f64 / 1e6 / over_s;
        }
    }

    fn sums(&self) -> Sums {
        Sums {
            calls: self.total.calls,
            failures: self.total.failures,
            busy_us: self.total.busy_us,
            calls_per_s: self.lately.map(|rate| rate.calls_per_s),
            failures_per_s: self.lately.map(|rate| rate.failures_per_s),
            busy_share: self.lately.map(|rate| rate.busy_share),
        }
    }
}

impl Sums {
    fn and(&self, other: &Sums) -> Sums {
        let both = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        Sums {
            calls: self.calls.saturating_add(other.calls),
            failures: self.failures.saturating_add(other.failures),
            busy_us: self.busy_us.saturating_add(other.busy_us),
            calls_per_s: both(self.calls_per_s, other.calls_per_s),
            failures_per_s: both(self.failures_per_s, other.failures_per_s),
            busy_share: both(self.busy_share, other.busy_share),
        }
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
