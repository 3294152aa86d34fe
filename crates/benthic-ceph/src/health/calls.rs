//! Counters of class method calls, summed over all OSDs, and their rates.
//!
//! The counters of an OSD process start at 0 when the class library is loaded. [`Tally`] counts
//! from its first poll and adds up the growth between polls. So a restart of an OSD never lowers a
//! sum: the sum keeps the growth up to the last poll before the restart and continues from the new
//! counter.

use super::metrics::{Metric, Text, counter, metric};
use benthic_core::{LibraryCalls, MethodCalls};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// A process that was not seen for this long is forgotten. A process that loaded its library longer
/// ago than this is never treated as new.
const FORGET_MS: u64 = 24 * 60 * 60 * 1_000;
/// Processes remembered per library. Further processes are not counted.
const PROCESSES_MAX: usize = 100_000;
/// Methods reported per library. Further methods are ignored.
const METHODS_MAX: usize = 256;
/// Length limit of process identities, class names and method names, which are much shorter. A
/// third-party library may answer with anything.
const NAME_BYTES_MAX: usize = 256;

/// All metrics of calls, in the order of the output. The values are sums over OSDs: there is one
/// sample per method, however many OSDs there are.
pub static METRICS: [Metric; 6] = [
    counter("benthic_class_calls_total", "Calls of a class method in all OSDs since the exporter started"),
    counter("benthic_class_failures_total", "Calls that returned an error, including refusals"),
    counter(
        "benthic_class_faults_total",
        "Calls that failed with class_failed: panics, traps, undeclared accesses",
    ),
    counter("benthic_class_busy_seconds_total", "Time that OSD threads spent in the method"),
    counter("benthic_class_fuel_total", "Fuel that WebAssembly methods used, about one unit per instruction"),
    metric("benthic_class_counting_osds", "OSDs that reported their counters at the last poll"),
];

/// The answers of all OSDs that have a library, from one poll.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// NAME of `libcls_NAME.so`.
    pub library: String,
    pub counted: Vec<LibraryCalls>,
    /// OSDs whose build of the library does not count calls.
    pub osds_not_counting: usize,
    pub osds_not_seen: usize,
}

/// Call counters since the first poll, and the rates between the last two polls.
#[derive(Default)]
pub struct Tally {
    began: Option<Moment>,
    polled_ms: u64,
    libraries: BTreeMap<String, Library>,
}

#[derive(Clone, Copy)]
struct Moment {
    unix_s: u64,
    ms: u64,
}

#[derive(Default)]
struct Library {
    /// Class and method, and their index in `sums` and in the counters of each process.
    places: BTreeMap<(String, String), usize>,
    sums: Vec<Sums>,
    processes: HashMap<String, Process>,
    osds: usize,
    osds_not_counting: usize,
    osds_not_seen: usize,
}

/// The counters of a process at the last poll that saw it.
struct Process {
    polled_ms: u64,
    counts: Vec<Count>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    calls: u64,
    failures: u64,
    faults: u64,
    busy_us: u64,
    fuel: u64,
}

/// The call counters of a library's classes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LibrarySums {
    /// NAME of `libcls_NAME.so`.
    pub library: String,
    /// Time of the first poll, from which the sums count.
    pub since_unix_s: u64,
    /// OSDs that reported their counters.
    pub osds: usize,
    /// OSDs whose build of the library does not count calls.
    pub osds_not_counting: usize,
    /// OSDs that have the library but did not answer.
    pub osds_not_seen: usize,
    /// Classes, by name. Empty if no OSD counts calls.
    pub classes: Vec<ClassSums>,
}

/// The call counters of a class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassSums {
    pub class: String,
    #[serde(flatten)]
    pub sums: Sums,
    pub methods: Vec<MethodSums>,
}

/// The call counters of a method.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodSums {
    pub method: String,
    #[serde(flatten)]
    pub sums: Sums,
}

/// Sums over OSDs. Rates cover the time between the last two polls; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sums {
    pub calls: u64,
    pub failures: u64,
    /// Failures by a panic, a trap or an undeclared access.
    pub faults: u64,
    pub busy_us: u64,
    /// Fuel of WebAssembly methods.
    pub fuel: u64,
    pub calls_per_s: Option<f64>,
    pub failures_per_s: Option<f64>,
    /// Seconds spent in the method per second: 1 is one busy thread of one OSD.
    pub busy_share: Option<f64>,
}

impl Tally {
    /// Adds the answers of one poll. `now_ms` is a monotonic time.
    pub fn add(&mut self, now_unix_s: u64, now_ms: u64, answers: Vec<Answers>) {
        let began_ms = self.began.get_or_insert(Moment { unix_s: now_unix_s, ms: now_ms }).ms;
        let poll =
            Poll { now_ms, watched_ms: now_ms - began_ms, since_ms: now_ms.saturating_sub(self.polled_ms) };
        self.polled_ms = now_ms;
        for library in self.libraries.values_mut() {
            (library.osds, library.osds_not_counting, library.osds_not_seen) = (0, 0, 0);
            library.sums.iter_mut().for_each(Sums::clear_rates);
            library.processes.retain(|_, process| now_ms - process.polled_ms < FORGET_MS);
        }
        for answers in answers {
            self.libraries.entry(answers.library.clone()).or_default().add(&poll, answers);
        }
    }

    /// Whether every OSD answered for itself at the last poll.
    pub fn covers_all_osds(&self) -> bool {
        self.libraries.values().all(|library| library.osds_not_seen == 0)
    }

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
                    text.add("benthic_class_faults_total", &labels, sums.faults);
                    text.add("benthic_class_busy_seconds_total", &labels, sums.busy_us as f64 / 1e6);
                    text.add("benthic_class_fuel_total", &labels, sums.fuel);
                }
            }
        }
        text.finish()
    }
}

struct Poll {
    now_ms: u64,
    /// Time since the first poll.
    watched_ms: u64,
    since_ms: u64,
}

impl Library {
    fn add(&mut self, poll: &Poll, answers: Answers) {
        self.osds_not_counting += answers.osds_not_counting;
        self.osds_not_seen += answers.osds_not_seen;
        for counted in answers.counted {
            if counted.process.len() > NAME_BYTES_MAX {
                self.osds_not_seen += 1;
                continue;
            }
            let counts = self.counts(&counted);
            let is_new = counted.loaded_ms_ago < poll.watched_ms.min(FORGET_MS);
            let (before, over_ms) = match self.processes.get(&counted.process) {
                // This process already answered in place of another OSD, whose placement group it
                // now leads.
                Some(known) if known.polled_ms == poll.now_ms => {
                    self.osds_not_seen += 1;
                    continue;
                }
                Some(known) => (known.counts.clone(), Some(poll.now_ms - known.polled_ms)),
                None if self.processes.len() >= PROCESSES_MAX => {
                    self.osds_not_seen += 1;
                    continue;
                }
                None if is_new => (Vec::new(), Some(counted.loaded_ms_ago.max(poll.since_ms))),
                // Calls before the first poll do not count: their time is unknown.
                None => (counts.clone(), None),
            };
            self.osds += 1;
            for (place, now) in counts.iter().enumerate() {
                let grown = now.since(before.get(place).copied().unwrap_or_default());
                self.sums[place] = self.sums[place].and(&grown.over(over_ms));
            }
            self.processes.insert(counted.process, Process { polled_ms: poll.now_ms, counts });
        }
    }

    /// The counters of a process, each at the index of its method. Those of all versions of a guest
    /// are summed.
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
                    self.sums.push(Sums::default());
                    counts.push(Count::default());
                }
                counts[place] = counts[place].plus(method);
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
            let sums = self.sums[*place];
            if let Some(last) = classes.last_mut() {
                last.sums = last.sums.and(&sums);
                last.methods.push(MethodSums { method: method.clone(), sums });
            }
        }
        classes
    }
}

impl Count {
    fn plus(self, method: &MethodCalls) -> Count {
        Count {
            calls: self.calls.saturating_add(method.calls),
            failures: self.failures.saturating_add(method.failures),
            faults: self.faults.saturating_add(method.faults),
            busy_us: self.busy_us.saturating_add(method.busy_us),
            fuel: self.fuel.saturating_add(method.fuel),
        }
    }

    fn since(self, before: Count) -> Count {
        Count {
            calls: self.calls.saturating_sub(before.calls),
            failures: self.failures.saturating_sub(before.failures),
            faults: self.faults.saturating_sub(before.faults),
            busy_us: self.busy_us.saturating_sub(before.busy_us),
            fuel: self.fuel.saturating_sub(before.fuel),
        }
    }

    /// The count with its rates over a time, if the time is known.
    fn over(self, over_ms: Option<u64>) -> Sums {
        let over_s = over_ms.map(|over_ms| over_ms.max(1) as f64 / 1_000.0);
        Sums {
            calls: self.calls,
            failures: self.failures,
            faults: self.faults,
            busy_us: self.busy_us,
            fuel: self.fuel,
            calls_per_s: over_s.map(|over_s| self.calls as f64 / over_s),
            failures_per_s: over_s.map(|over_s| self.failures as f64 / over_s),
            busy_share: over_s.map(|over_s| self.busy_us as f64 / 1e6 / over_s),
        }
    }
}

impl Sums {
    fn clear_rates(&mut self) {
        (self.calls_per_s, self.failures_per_s, self.busy_share) = (None, None, None);
    }

    fn and(&self, other: &Sums) -> Sums {
        let both = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        Sums {
            calls: self.calls.saturating_add(other.calls),
            failures: self.failures.saturating_add(other.failures),
            faults: self.faults.saturating_add(other.faults),
            busy_us: self.busy_us.saturating_add(other.busy_us),
            fuel: self.fuel.saturating_add(other.fuel),
            calls_per_s: both(self.calls_per_s, other.calls_per_s),
            failures_per_s: both(self.failures_per_s, other.failures_per_s),
            busy_share: both(self.busy_share, other.busy_share),
        }
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
