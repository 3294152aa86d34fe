use super::Credentials;
use benthic_core::ErrorKind;
use std::io::Write;

const FILE: &str = "# a comment
[default]
aws_access_key_id = one
aws_secret_access_key = a=b+/
[profile other]
aws_access_key_id = wrong
[far]
aws_access_key_id=two
aws_secret_access_key=secret
aws_session_token=token
";

#[test]
fn a_profile_is_read_from_a_file() {
    let found = Credentials::parse(FILE, "default").unwrap();
    assert_eq!((found.access_key.as_str(), found.secret_key.as_str()), ("one", "a=b+/"));
    assert_eq!(found.session_token, None);
    let found = Credentials::parse(FILE, "far").unwrap();
    assert_eq!(found.session_token.as_deref(), Some("token"));
    for profile in ["other", "missing", ""] {
        assert!(Credentials::parse(FILE, profile).is_none(), "{profile}");
    }
    assert!(!format!("{found:?}").contains("secret"), "a secret is never shown");
}

#[test]
fn a_file_precedes_the_environment() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(FILE.as_bytes()).unwrap();
    let environment = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some("three".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("secret".to_owned()),
        _ => None,
    };
    assert_eq!(Credentials::find(None, environment).unwrap().access_key, "three");
    assert_eq!(Credentials::find(Some(file.path()), environment).unwrap().access_key, "one");
    let path = file.path().to_str().unwrap().to_owned();
    let shared = |name: &str| match name {
        "AWS_SHARED_CREDENTIALS_FILE" => Some(path.clone()),
        "AWS_PROFILE" => Some("far".to_owned()),
        _ => None,
    };
    assert_eq!(Credentials::find(None, shared).unwrap().access_key, "two");
    let error = Credentials::find(None, |_| None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("AWS_ACCESS_KEY_ID"), "{error}");
}
