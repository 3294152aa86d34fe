//! Checks the Host header of requests as a defence against DNS rebinding. A malicious page can make
//! its own host name resolve to our address, and would then be allowed to read our responses. The
//! Host header that the browser sends reveals that name.

use benthic_core::{Error, ErrorKind, Result};
use hyper::Request;
use hyper::header::HOST;
use std::net::{IpAddr, SocketAddr};

/// The accepted host names; `None` accepts any.
pub struct Hosts(Option<Vec<String>>);

impl Hosts {
    /// Accepts the given names. On loopback it also accepts localhost and the addresses. On other
    /// addresses it accepts any name if none is given.
    pub fn new(address: SocketAddr, named: &[String]) -> Result<Hosts> {
        let is_name = |name: &String| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._[]:".contains(&b))
        };
        if let Some(name) = named.iter().find(|name| !is_name(name)) {
            let message = "this is not a host name; give it without scheme, port and path";
            return Err(Error::new(ErrorKind::InvalidArgument, message).with("host", name));
        }
        if named.is_empty() && !address.ip().is_loopback() {
            return Ok(Hosts(None));
        }
        let own = match address.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let own = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).into_iter().chain([own]);
        Ok(Hosts(Some(own.chain(named.iter().map(|name| name.to_ascii_lowercase())).collect())))
    }

    /// Returns true if the request has a Host header, and every host that the request names is
    /// accepted.
    pub fn allow<T>(&self, request: &Request<T>) -> bool {
        let Some(names) = &self.0 else { return true };
        let is_one = |host: &str| {
            let name = without_port(host).to_ascii_lowercase();
            names.contains(&name)
        };
        let mut sent = request.headers().get_all(HOST).iter().peekable();
        let is_named = sent.peek().is_some() && sent.all(|host| host.to_str().is_ok_and(is_one));
        is_named && request.uri().authority().is_none_or(|authority| is_one(authority.as_str()))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // An IPv6 address contains colons, in brackets.
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
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
}
