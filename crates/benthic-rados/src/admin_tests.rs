use super::{check_manager_output, of_manager, output};
use benthic_core::ErrorKind;
use benthic_core::error::errno;

#[test]
fn errors_distinguish_a_hanging_manager_from_hanging_monitors() {
    let late = output((Err(errno::ETIMEDOUT), String::new())).unwrap_err();
    assert!(late.message().contains("no monitor"), "{late}");
    let late = of_manager(late);
    assert_eq!(late.kind(), ErrorKind::Unavailable);
    assert!(late.message().contains("ceph mgr fail"), "{late}");
    let nothing = check_manager_output(output((Ok(Vec::new()), String::new())).unwrap()).unwrap_err();
    assert!(of_manager(nothing).message().contains("ceph mgr fail"));
    assert!(check_manager_output(output((Ok(vec![b'1']), String::new())).unwrap()).is_ok());
    let refused = of_manager(output((Err(errno::EACCES), "access denied".to_owned())).unwrap_err());
    assert!(
        refused.kind() == ErrorKind::PermissionDenied && refused.message().contains("mgr caps"),
        "{refused}"
    );
}
