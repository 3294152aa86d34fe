use super::{Answer, OsdState, judge};
use crate::hosts::directory::{Directory, Loaded};
use benthic_core::{Error, ErrorKind};

/// A directory whose library is open in these OSDs, with whether their file is older.
fn directory(open: &[(i32, bool)]) -> Directory {
    let loaded = |(osd, is_older): &(i32, bool)| Loaded { pid: 1, osd: Some(*osd), is_older: *is_older };
    Directory { loaded: open.iter().map(loaded).collect(), ..Directory::default() }
}

fn built() -> Answer {
    Ok(Some("2".to_owned()))
}

fn failed(kind: ErrorKind) -> Answer {
    Err(Error::new(kind, "it is down"))
}

#[test]
fn an_osd_runs_what_its_answer_and_its_process_say() {
    let build = || Some("2".to_owned());
    let states = directory(&[(0, false), (1, true)]);
    assert_eq!(judge(0, Some(&built()), &states).unwrap(), OsdState::Runs { build: build() });
    assert_eq!(judge(1, Some(&built()), &states).unwrap(), OsdState::RunsOlder { build: build() });
    // A library that is not Benthic's describes nothing, but the process has it open.
    assert_eq!(judge(0, Some(&Ok(None)), &states).unwrap(), OsdState::Runs { build: None });
    assert_eq!(judge(2, None, &states).unwrap(), OsdState::Unreachable);
    let refused = failed(ErrorKind::PermissionDenied);
    assert_eq!(judge(2, Some(&refused), &states).unwrap(), OsdState::Refuses);
}

#[test]
fn an_osd_without_the_file_has_failed() {
    let states = directory(&[(0, false)]);
    for answer in [Ok(None), built(), failed(ErrorKind::Unavailable)] {
        let error = judge(1, Some(&answer), &states).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    let unloadable = judge(1, Some(&failed(ErrorKind::Corrupt)), &states).unwrap_err();
    assert!(unloadable.message().contains("its log has the reason"), "{unloadable}");
    assert!(judge(0, Some(&failed(ErrorKind::Corrupt)), &states).is_err());
    // Loading a library can kill an OSD.
    assert!(judge(0, Some(&failed(ErrorKind::Unavailable)), &states).is_err());
}
