//! Random operations, compared with an oracle in memory.

use super::{Case, data, etag, finish, kind, put};
use benthic_core::ErrorKind;
use benthic_s3::sal::{Bucket, Condition, Finish, Usage, VersionId, Versioning};
use benthic_testkit::seed;
use futures::executor::block_on;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeMap;

const KEYS: [&str; 5] = ["a", "a/b", "a/b\0", "b", "é"];

#[derive(Clone, Debug)]
enum Step {
    Put { key: usize, size: usize, absent: bool },
    Delete { key: usize },
    DeleteVersion { key: usize, version: usize },
    Copy { from: usize, to: usize },
    Upload { key: usize, parts: usize, complete: bool },
    Versioning(bool),
    Collect,
}

/// A version; a delete marker has no data.
#[derive(Clone, Debug)]
struct OracleVersion {
    id: VersionId,
    data: Option<Vec<u8>>,
}

/// The expected state: versions of keys, newest first.
#[derive(Default)]
struct Oracle {
    keys: BTreeMap<String, Vec<OracleVersion>>,
}

impl Oracle {
    fn current(&self, key: &str) -> Option<&Vec<u8>> {
        self.keys.get(key)?.first()?.data.as_ref()
    }

    fn add(&mut self, key: &str, id: VersionId, data: Option<Vec<u8>>) {
        let versions = self.keys.entry(key.to_owned()).or_default();
        versions.retain(|known| known.id != id);
        versions.insert(0, OracleVersion { id, data });
    }

    fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for versions in self.keys.values() {
            usage.objects += u64::from(versions.first().is_some_and(|known| known.data.is_some()));
            for known in versions {
                match &known.data {
                    Some(data) => {
                        usage.versions += 1;
                        usage.bytes += data.len() as u64;
                    }
                    None => usage.markers += 1,
                }
            }
        }
        usage
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..KEYS.len();
    let size = prop_oneof![Just(0_usize), 1..2_000_usize];
    let step = prop_oneof![
        6 => (key(), size, any::<bool>()).prop_map(|(key, size, absent)| Step::Put { key, size, absent }),
        3 => key().prop_map(|key| Step::Delete { key }),
        4 => (key(), 0..4_usize).prop_map(|(key, version)| Step::DeleteVersion { key, version }),
        3 => (key(), key()).prop_map(|(from, to)| Step::Copy { from, to }),
        2 => (key(), 1..4_usize, any::<bool>())
            .prop_map(|(key, parts, complete)| Step::Upload { key, parts, complete }),
        1 => any::<bool>().prop_map(Step::Versioning),
        1 => Just(Step::Collect),
    ];
    proptest::collection::vec(step, 60)
}

pub fn random_operations_match_the_oracle(case: &Case) {
    let seed = seed::one();
    let case = std::panic::AssertUnwindSafe(case);
    let run = std::panic::catch_unwind(|| random_rounds(&case, seed));
    assert!(run.is_ok(), "to repeat this run set {}={seed}", seed::VARIABLE);
}

fn random_rounds(case: &Case, seed: u64) {
    let bytes = [seed.to_le_bytes(); 4].concat();
    let mut runner =
        TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let steps = steps();
    for round in 0..4 {
        let mut bucket = case.bucket(&format!("b{round}"), Versioning::Off);
        let mut oracle = Oracle::default();
        for (at, step) in steps.new_tree(&mut runner).unwrap().current().into_iter().enumerate() {
            run(case, &mut bucket, &mut oracle, step.clone(), at as u64);
            compare(case, &bucket, &oracle, &step);
        }
        case.finish(&[&bucket]);
        compare(case, &bucket, &oracle, &Step::Collect);
        for (key, versions) in oracle.keys {
            for known in versions {
                case.delete(&bucket, &key, Some(known.id));
            }
        }
        case.finish(&[&bucket]);
        assert_eq!(case.data_objects(&bucket), Vec::<String>::new(), "all data are gone");
    }
}

fn run(case: &Case, bucket: &mut Bucket, oracle: &mut Oracle, step: Step, seed: u64) {
    match step {
        Step::Put { key, size, absent } => {
            let (key, data) = (KEYS[key], data(seed, size));
            let condition = if absent { Condition::Absent } else { Condition::Always };
            let finish = Finish { condition, ..finish(&data) };
            let result = put(case.sal.as_ref(), bucket, key, &data, finish);
            if absent && oracle.current(key).is_some() {
                assert_eq!(kind(result), ErrorKind::Conflict);
            } else {
                oracle.add(key, result.unwrap().version, Some(data));
            }
        }
        Step::Delete { key } => {
            let key = KEYS[key];
            let deleted = case.delete(bucket, key, None);
            if bucket.versioning == Versioning::Off {
                oracle.keys.remove(key);
            } else {
                assert!(deleted.marker);
                oracle.add(key, deleted.version.unwrap(), None);
            }
        }
        Step::DeleteVersion { key, version } => {
            let key = KEYS[key];
            let versions = oracle.keys.get_mut(key).filter(|versions| version < versions.len());
            let known = versions.map(|versions| versions.remove(version));
            let id = known.as_ref().map_or(VersionId::Seq(u64::MAX), |known| known.id);
            let deleted = case.delete(bucket, key, Some(id));
            assert_eq!(deleted.version, known.as_ref().map(|known| known.id));
            assert_eq!(deleted.marker, known.is_some_and(|known| known.data.is_none()));
        }
        Step::Copy { from, to } => {
            let Some(data) = oracle.current(KEYS[from]).cloned() else { return };
            let source = case.object(bucket, KEYS[from]);
            let finish = Finish { etag: source.etag.clone(), ..Finish::default() };
            let copied = block_on(case.sal.copy((bucket, &source), bucket, KEYS[to], finish)).unwrap();
            oracle.add(KEYS[to], copied.version, Some(data));
        }
        Step::Upload { key, parts, complete } => {
            let key = KEYS[key];
            let upload = case.upload(bucket, key);
            let mut whole = Vec::new();
            let mut named = Vec::new();
            for number in 1..=parts as u16 {
                let data = data(seed + u64::from(number), usize::from(number) * 100);
                named.push(case.put_part(bucket, key, upload, number, &data));
                whole.extend(data);
            }
            if complete {
                let done = case.sal.complete_upload(bucket, key, upload, &named, finish(&whole));
                oracle.add(key, block_on(done).unwrap(), Some(whole));
            } else {
                block_on(case.sal.abort_upload(bucket, key, upload)).unwrap();
            }
        }
        Step::Versioning(enabled) => {
            let versioning = if enabled { Versioning::Enabled } else { Versioning::Suspended };
            let new = Bucket { versioning, ..bucket.clone() };
            *bucket = block_on(case.sal.update_bucket(bucket, &new)).unwrap();
        }
        Step::Collect => case.settle(),
    }
    oracle.keys.retain(|_, versions| !versions.is_empty());
}

fn compare(case: &Case, bucket: &Bucket, oracle: &Oracle, step: &Step) {
    assert_eq!(block_on(case.sal.usage(bucket)).unwrap(), oracle.usage(), "{step:?}");
    let wanted: Vec<(String, VersionId, bool)> = oracle
        .keys
        .iter()
        .flat_map(|(key, versions)| {
            versions.iter().map(|known| (key.clone(), known.id, known.data.is_none()))
        })
        .collect();
    let found = case.versions(bucket).into_iter();
    let found: Vec<_> = found.map(|version| (version.key, version.version, version.marker)).collect();
    assert_eq!(found, wanted, "{step:?}");
    for key in KEYS {
        match oracle.current(key) {
            Some(data) => {
                let (object, _, found) = case.get_with_prefetch(bucket, key).unwrap();
                assert_eq!(object.etag, etag(data), "{step:?}");
                assert!(found == *data && case.read(bucket, &object) == *data, "{step:?}");
            }
            None => {
                assert!(case.is_missing(bucket, key, None) || case.object(bucket, key).marker, "{step:?}")
            }
        }
    }
}
