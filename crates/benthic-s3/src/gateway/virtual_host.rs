//! Virtual hosts: a bucket in front of a domain, as in `photos.s3.example.org`.

use benthic_core::{Error, ErrorKind, Result};
use s3s::S3Result;
use s3s::host::{MultiDomain, S3Host, VirtualHost};

/// The domains of a gateway. A request to any other host has its bucket in the path.
#[derive(Clone)]
pub(super) struct VirtualHosts {
    domains: Vec<String>,
}

impl VirtualHosts {
    /// # Errors
    /// `InvalidArgument` for what is no domain, and for one below another.
    pub fn new(domains: &[String]) -> Result<VirtualHosts> {
        if !domains.is_empty() {
            MultiDomain::new(domains).map_err(|error| {
                Error::new(ErrorKind::InvalidArgument, "this is no domain").with_source(error)
            })?;
        }
        Ok(VirtualHosts { domains: domains.iter().map(|domain| name(domain)).collect() })
    }

    /// What is before one of the domains in the header `Host`.
    pub fn bucket(&self, host: &str) -> Option<String> {
        let host = name(host);
        let before = |domain: &String| host.strip_suffix(domain.as_str())?.strip_suffix('.');
        self.domains.iter().find_map(before).map(str::to_owned)
    }
}

/// A host without its port. Names of hosts do not differ by case.
fn name(host: &str) -> String {
    host.rsplit_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase()
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
