use super::{Failure, of_command, of_connect, of_method, of_operation};
use crate::key_types::FoundKey;
use benthic_core::error::errno;
use benthic_core::{Action, ClassCall, Error, ErrorKind, FailureReport, Reason};

fn failed(number: i32, output: &[u8]) -> Failure {
    of_method(number, &ClassCall::new("hello", "say", ""), output)
}

#[test]
fn a_method_explains_its_own_failure() {
    let reason = Error::new(ErrorKind::Busy, "another client holds the lock").with("holder", "a");
    let report = FailureReport::new(&reason, Some(1));
    let report = serde_json::to_vec(&report).unwrap();
    let Failure { error, is_explained } = failed(errno::EBUSY, &report);
    assert!(is_explained && error.kind() == ErrorKind::Busy);
    let text = "another client holds the lock holder=a class=hello method=say osd=1 errno=16";
    assert_eq!(error.to_string(), text);
    // The errno decides. A report of another kind, or the output of an older library or of
    // another program, explains nothing.
    let other = String::from_utf8(report.clone()).unwrap().replace(":1,", ":2,");
    for (number, output) in
        [(errno::EIO, &report[..]), (errno::EBUSY, other.as_bytes()), (errno::EBUSY, b"held")]
    {
        let Failure { error, is_explained } = failed(number, output);
        assert_eq!(error.kind(), ErrorKind::from_errno(number, Action::Exec));
        assert!(!is_explained && !error.to_string().contains("holder"), "{error}");
    }
    assert!(failed(errno::EIO, b"").error.message().contains("the OSD's log"));
}

#[test]
fn a_full_cluster_or_pool_has_the_reason_store_full() {
    for number in [errno::ENOSPC, errno::EDQUOT] {
        let error = of_operation(number, Action::Write);
        assert_eq!((error.kind(), error.reason()), (ErrorKind::LimitExceeded, Some(Reason::StoreFull)));
    }
    assert_eq!(of_operation(errno::EFBIG, Action::Write).reason(), None);
}

#[test]
fn a_connection_fails_with_the_type_of_the_key_that_is_the_cause() {
    let key = |owner: &str, key_type| FoundKey { owner: owner.to_owned(), key_type };
    let keys = [key("client.x", "aes"), key("client.admin", "aes256k")];
    let error = of_connect(errno::EIO, "client.x", &keys);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(text.ends_with("id=client.x key_of=client.admin key_type=aes256k errno=5"), "{text}");
    assert_eq!(of_connect(errno::EIO, "client.x", &keys[..1]).kind(), ErrorKind::Unavailable);
    let refused = |id| of_connect(errno::EACCES, id, &keys);
    assert_eq!(refused("client.x").kind(), ErrorKind::PermissionDenied);
    assert!(refused("client.x").message().contains("auth_allowed_ciphers"));
    assert!(!refused("client.admin").message().contains("auth_allowed_ciphers"), "its type is the new one");
}

#[test]
fn an_old_crush_map_is_a_conflict_and_missing_caps_are_not() {
    let old = of_command(errno::EPERM, "prior_version 7 != crush version 8");
    assert_eq!(old.kind(), ErrorKind::Conflict);
    assert_eq!(of_command(errno::EPERM, "access denied").kind(), ErrorKind::PermissionDenied);
}
