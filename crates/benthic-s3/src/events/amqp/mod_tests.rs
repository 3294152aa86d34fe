use super::vhost;

#[test]
fn paths_name_virtual_hosts() {
    for (path, name) in [
        ("", "/"),
        ("/", "/"),
        ("/lab", "lab"),
        ("/%2Flab", "/lab"),
        ("/a+b%20c%2F%25", "a+b c/%"),
        ("/%C3%A4", "ä"),
    ] {
        assert_eq!(vhost(path).as_deref(), Ok(name), "{path}");
    }
    for path in ["/a/b", "//", "/%ff", "/%00", "/a%0ab", &format!("/{}", "x".repeat(256))] {
        assert!(vhost(path).is_err(), "{path}");
    }
}
