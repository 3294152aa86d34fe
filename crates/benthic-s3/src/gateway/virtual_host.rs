//! Virtual hosts: host names with the bucket in front of a domain, as in `photos.s3.example.org`.

use benthic_core::{Error, Result};
use s3s::S3Result;
use s3s::host::{MultiDomain, S3Host, VirtualHost};

/// The domains of a gateway. In requests to other hosts, the bucket is in the path.
#[derive(Clone)]
pub(super) struct VirtualHosts {
    domains: Vec<String>,
}

impl VirtualHosts {
    /// Checks the domains.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid domain, and for one that is below another.
    pub fn new(domains: &[String]) -> Result<VirtualHosts> {
        if !domains.is_empty() {
            MultiDomain::new(domains)
                .map_err(|error| Error::invalid_argument("the domain is not valid").with_source(error))?;
        }
        Ok(VirtualHosts { domains: domains.iter().map(|domain| name(domain)).collect() })
    }

    /// The bucket in front of one of the domains in a `Host` header.
    pub fn bucket(&self, host: &str) -> Option<String> {
        let host = name(host);
        let before = |domain: &String| host.strip_suffix(domain.as_str())?.strip_suffix('.');
        self.domains.iter().find_map(before).map(str::to_owned)
    }
}

/// The host without its port, in lower case: host names are not case-sensitive.
fn name(host: &str) -> String {
    let parts = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    parts.map_or(host, |(name, _)| name).to_ascii_lowercase()
}

impl S3Host for VirtualHosts {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let plain = VirtualHost::new(host);
        Ok(match self.bucket(host) {
            Some(bucket) => plain.with_bucket(bucket),
            None => plain,
        })
    }
}

#[cfg(test)]
#[path = "virtual_host_tests.rs"]
mod tests;
