//! Checks the Host header of requests as a defence against DNS rebinding. A malicious page can make
//! its own host name resolve to our address, and would then be allowed to read our responses. The
//! Host header that the browser sends reveals that name.

use benthic_core::{Error, Result};
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
            return Err(Error::invalid_argument(message).with("host", name));
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
#[path = "hosts_tests.rs"]
mod tests;
