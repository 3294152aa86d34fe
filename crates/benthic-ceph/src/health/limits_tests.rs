use super::Limits;

#[test]
fn a_process_has_limits_and_threads() {
    let limits = Limits::read();
    assert!(limits.open_files_max.is_none_or(|max| max > 0));
    assert!(limits.threads >= 1);
}
