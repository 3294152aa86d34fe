use benthic_core::{Environment, ErrorKind};
use benthic_s3::seal::Sealer;
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_secret_opens_only_with_its_key_and_name() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str| Sealer::open(&dir.path().join(name), true, Environment::default()).unwrap();
    let sealer = open("a/key");
    let sealed = sealer.seal("AKIA", "a secret").unwrap();
    assert!(!sealed.contains("secret") && sealed != sealer.seal("AKIA", "a secret").unwrap());
    assert_eq!(open("a/key").open_secret("AKIA", &sealed).unwrap(), "a secret");
    let mut damaged = sealed.clone();
    damaged.replace_range(60..61, if &sealed[60..61] == "0" { "1" } else { "0" });
    for (sealer, name, sealed) in [
        (&sealer, "AKIB", sealed.as_str()),
        (&open("b"), "AKIA", &sealed),
        (&sealer, "AKIA", &damaged),
        (&sealer, "AKIA", &sealed[..40]),
        (&sealer, "AKIA", "ü"),
        (&sealer, "AKIA", ""),
    ] {
        assert_eq!(sealer.open_secret(name, sealed).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}

#[test]
fn only_the_owner_can_read_the_sealing_key_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    let open = |create| Sealer::open(&path, create, Environment::default()).map(|_| ());
    assert_eq!(open(false).unwrap_err().kind(), ErrorKind::NotFound);
    open(true).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let key = fs::read(&path).unwrap();
    open(true).unwrap();
    assert_eq!(fs::read(&path).unwrap(), key);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(open(true).unwrap_err().kind(), ErrorKind::PermissionDenied);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "no key").unwrap();
    assert_eq!(open(true).unwrap_err().kind(), ErrorKind::InvalidArgument);
}
