use super::{check_url, is_public};

#[test]
fn only_addresses_of_the_internet_are_public() {
    for address in ["8.8.8.8", "100.63.255.255", "172.32.0.1", "2606:4700::1111", "2a00:1450::1"] {
        assert!(is_public(address.parse().unwrap()), "{address}");
    }
    for address in [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.2.1",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:10.1.2.3",
        "64:ff9b::a01:203",
        "2001:db8::1",
        "2001::1",
        "2002:a01:203::1",
        "fc00::1",
        "fe80::1",
        "ff02::1",
    ] {
        assert!(!is_public(address.parse().unwrap()), "{address}");
    }
}

#[test]
fn urls_are_https_or_on_this_machine() {
    for (url, with_loopback, without) in [
        ("https://idp.example/realms/lab", true, true),
        ("https://127.0.0.1:8443/", true, true),
        ("http://127.0.0.1:8080/", true, false),
        ("http://localhost:8080/", true, false),
        ("http://[::1]:8080/", true, false),
        ("http://localhost.idp.example/", false, false),
        ("http://10.0.0.1/", false, false),
        ("file:///etc/passwd", false, false),
        ("https://user@idp.example/", false, false),
        ("https://idp.example/#x", false, false),
        ("idp.example", false, false),
    ] {
        assert_eq!(check_url(url, true).is_ok(), with_loopback, "{url}");
        assert_eq!(check_url(url, false).is_ok(), without, "{url}");
    }
}
