use super::{Position, RunState};
use benthic_core::ListToken;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

#[test]
fn a_state_is_loaded_as_it_was_saved_and_never_damaged() {
    let run = BTreeMap::from([("pool".to_owned(), "p".to_owned())]);
    let state = RunState {
        run: run.clone(),
        position: Position::After(ListToken(Bytes::from_static(b"token"))),
        merged: BTreeSet::from(["a".to_owned(), "é".to_owned()]),
        failed: BTreeSet::from(["b".to_owned()]),
        objects: 7,
        result: Some(Bytes::from_static(b"\xff")),
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    assert_eq!(RunState::load(&path, run.clone()).unwrap(), RunState::new(run.clone()));
    state.save(&path).unwrap();
    assert_eq!(RunState::load(&path, run.clone()).unwrap(), state);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        fs::write(&path, &whole[..at]).unwrap();
        assert!(RunState::load(&path, run.clone()).is_err(), "cut at {at}");
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        fs::write(&path, damaged).unwrap();
        assert!(RunState::load(&path, run.clone()).is_err(), "damaged at {at}");
    }
}
