use super::wait_for_owner;
use std::fs;

#[test]
fn only_another_process_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(wait_for_owner(dir.path()), None);
    let lock = |pid: u32| fs::write(dir.path().join("lock"), format!("{pid} 00c0ffee00c0ffee\n")).unwrap();
    lock(std::process::id());
    assert_eq!(wait_for_owner(dir.path()), None);
    let parent = std::os::unix::process::parent_id();
    lock(parent);
    let wait = wait_for_owner(dir.path()).unwrap();
    assert_eq!(wait.to_string(), format!("process {parent}, which owns the store"));
    // No process has a pid above the kernel's limit.
    lock(1 << 30);
    let wait = wait_for_owner(dir.path()).unwrap();
    assert_eq!(wait.to_string(), "the process that owns the store");
}
