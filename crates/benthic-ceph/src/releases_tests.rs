use super::{check, is_unknown, parse};
use benthic_core::ErrorKind;

#[test]
fn releases_between_tested_ones_are_known() {
    let known: Vec<u32> = (0..30).filter(|release| !is_unknown(*release)).collect();
    assert_eq!(known, [16, 17, 18, 19, 20]);
}

#[test]
fn a_version_names_its_release() {
    let of = |version: &str| parse(version);
    assert_eq!(of("ceph version 16.2.15 (618f44) pacific (stable)\n"), Some(16));
    assert_eq!(of("ceph version 20.2.4 (7f7937) tentacle (stable)"), Some(20));
    assert_eq!(of("18.2.7"), Some(18));
    for unknown in ["", "ceph version Development (no_version) dev", "version 16.2.15"] {
        assert_eq!(of(unknown), None, "{unknown}");
    }
}

#[test]
fn libraries_are_not_for_unknown_releases() {
    assert!(check("ceph version 18.2.7 (6b0e98) reef (stable)").is_ok());
    for version in
        ["ceph version 21.1.0 (1234) umbrella (rc)", "ceph version 15.2.17 (1) octopus (stable)", "main"]
    {
        let error = check(version).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("--force") && error.to_string().contains(version), "{error}");
    }
}
