use super::{Pending, Record, WriteBackState};
use crate::upstream::cache::Cache;
use benthic_core::{Environment, Stopwatch};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

fn cache(dir: &tempfile::TempDir) -> Arc<Cache> {
    Cache::open(dir.path(), 16 << 20, Environment::default()).unwrap()
}

fn pending(cache: &Arc<Cache>, seq: u64, key: &str) -> Arc<Pending> {
    let record = Record { bucket: "photos".to_owned(), key: key.to_owned(), ..Record::default() };
    Pending::new(seq, record, cache.reserve())
}

/// The same as [`WriteBackState`], without an order of its own.
#[derive(Default)]
struct Oracle {
    /// By key: the numbers of its changes, whether an upload runs, its failures, and when it is
    /// due.
    keys: BTreeMap<String, (Vec<u64>, bool, u32, u64)>,
}

impl Oracle {
    /// The changes that may be sent, with the time since when.
    fn due(&self, now_ms: u64) -> BTreeSet<(u64, u64)> {
        let free =
            self.keys.values().filter(|(changes, is_running, _, _)| !changes.is_empty() && !is_running);
        free.map(|(changes, _, _, due_ms)| (*due_ms, changes[0])).filter(|due| due.0 <= now_ms).collect()
    }
}

#[test]
fn the_next_change_is_the_one_that_is_due_first() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(&dir);
    for seed in seed::many(10) {
        let mut random = Rng(seed);
        let (mut state, mut oracle) = (WriteBackState::default(), Oracle::default());
        let mut running: Vec<Arc<Pending>> = Vec::new();
        let (mut now_ms, mut seq) = (1, 0);
        for _ in 0..2_000 {
            now_ms += random.below(3) as u64;
            match random.below(6) {
                0 | 1 => {
                    seq += 1;
                    let key = format!("k{}", random.below(5));
                    state.insert(pending(&cache, seq, &key), now_ms);
                    let of_key = oracle.keys.entry(key).or_default();
                    if of_key.0.is_empty() {
                        of_key.3 = now_ms;
                    }
                    of_key.0.push(seq);
                }
                2 | 3 => {
                    let expected = oracle.due(now_ms).first().copied();
                    let next = state.start_next(now_ms);
                    let found = next.as_ref().map(|pending| pending.seq);
                    assert_eq!(found, expected.map(|due| due.1), "{}={seed}", seed::VARIABLE);
                    if let Some(next) = next {
                        oracle.keys.get_mut(&next.record.key).unwrap().1 = true;
                        running.push(next);
                    }
                }
                _ if running.is_empty() => {}
                kind => {
                    let pending = running.swap_remove(random.below(running.len()));
                    let of_key = oracle.keys.get_mut(&pending.record.key).unwrap();
                    if kind == 4 {
                        state.remove(&pending, now_ms);
                        of_key.0.remove(0);
                        (of_key.2, of_key.3) = (0, now_ms);
                    } else {
                        state.retry_later(&pending.key(), now_ms, 2);
                        of_key.3 = now_ms + 2 * 2_u64.pow(of_key.2.min(6));
                        of_key.2 += 1;
                    }
                    state.end(&pending.key());
                    of_key.1 = false;
                }
            }
            let failing = oracle.keys.values().filter(|of_key| of_key.2 > 0).count();
            assert_eq!(state.failing, failing, "{}={seed}", seed::VARIABLE);
            let has = oracle.keys.values().any(|of_key| !of_key.0.is_empty());
            assert_eq!(state.has_changes(Some("photos"), None), has, "{}={seed}", seed::VARIABLE);
            // Keys that no change needs take no memory.
            let used = oracle.keys.values().filter(|of_key| !of_key.0.is_empty() || of_key.1).count();
            assert_eq!(state.by_key.len(), used, "{}={seed}", seed::VARIABLE);
        }
    }
}

/// Changes that wait behind another of their key, or for their time, are not looked at.
#[test]
fn the_choice_does_not_depend_on_the_number_of_changes() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(&dir);
    let mut state = WriteBackState::default();
    for seq in 0..50_000 {
        state.insert(pending(&cache, seq, "slow"), 0);
    }
    state.insert(pending(&cache, 50_000, "quick"), 0);
    let slow = state.start_next(0).unwrap();
    assert_eq!(slow.seq, 0);
    let watch = Environment::default().clock;
    let watch = Stopwatch::start(watch.as_ref());
    for _ in 0..10_000 {
        let quick = state.start_next(0).unwrap();
        assert_eq!(quick.seq, 50_000);
        state.end(&quick.key());
    }
    assert!(watch.elapsed() < Duration::from_secs(5), "{:?}", watch.elapsed());
}
