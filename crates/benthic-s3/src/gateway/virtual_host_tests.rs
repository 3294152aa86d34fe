use super::VirtualHosts;

#[test]
fn only_digits_after_the_host_are_a_port() {
    let hosts = VirtualHosts::new(&["web.example.org".to_owned()]).unwrap();
    for host in ["b.web.example.org", "B.Web.example.org", "b.web.example.org:8080"] {
        assert_eq!(hosts.bucket(host).as_deref(), Some("b"), "{host}");
    }
    for host in
        ["b.web.example.org:@evil.example", "b.web.example.org:80:80", "web.example.org", "b.example.org"]
    {
        assert_eq!(hosts.bucket(host), None, "{host}");
    }
}
