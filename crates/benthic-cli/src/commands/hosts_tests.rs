use super::Hosts;
use hyper::Request;

fn allowed(hosts: &Hosts, sent: &[&str]) -> bool {
    let mut request = Request::builder().uri("/");
    for host in sent {
        request = request.header("host", *host);
    }
    hosts.allow(&request.body(()).unwrap())
}

#[test]
fn on_loopback_other_names_are_refused() {
    let hosts = Hosts::new("127.0.0.1:8128".parse().unwrap(), &[]).unwrap();
    for host in ["localhost", "LOCALHOST:8128", "127.0.0.1:8128", "127.0.0.1", "[::1]:8128", "[::1]"] {
        assert!(allowed(&hosts, &[host]), "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:8128",
        "127.0.0.1.evil.example",
        "",
        ":",
        "::1",
        "localhost:x",
        "a@localhost",
    ] {
        assert!(!allowed(&hosts, &[host]), "{host}");
    }
    assert!(!allowed(&hosts, &[]) && !allowed(&hosts, &["localhost", "evil.example"]));
    let request =
        Request::builder().uri("http://evil.example/").header("host", "localhost").body(()).unwrap();
    assert!(!hosts.allow(&request));
}

#[test]
fn configured_names_are_accepted() {
    let named = ["Status.Example".to_owned()];
    let hosts = Hosts::new("127.0.0.1:8128".parse().unwrap(), &named).unwrap();
    assert!(allowed(&hosts, &["status.example"]) && allowed(&hosts, &["status.EXAMPLE:443"]));
    assert!(!allowed(&hosts, &["evil.example"]));
    let hosts = Hosts::new("[::1]:1".parse().unwrap(), &named).unwrap();
    assert!(allowed(&hosts, &["[::1]:1"]));
    let open = Hosts::new("192.0.2.1:8128".parse().unwrap(), &[]).unwrap();
    assert!(allowed(&open, &["anything"]) && allowed(&open, &[]));
    let some = Hosts::new("192.0.2.1:8128".parse().unwrap(), &named).unwrap();
    assert!(allowed(&some, &["192.0.2.1:8128"]) && !allowed(&some, &["anything"]));
    for bad in ["http://x/", "", "a b"] {
        assert!(Hosts::new("127.0.0.1:1".parse().unwrap(), &[bad.to_owned()]).is_err(), "{bad}");
    }
}
