//! The configuration of a website: its check, and the redirects that it demands. No I/O.

use s3s::dto::{Protocol, Redirect, RoutingRule, WebsiteConfiguration};
use s3s::{S3Result, s3_error};

const RULES_MAX: usize = 50;
/// Maximum length of a key, a prefix or a host name, in bytes.
const TEXT_BYTES_MAX: usize = 1_024;

/// An answer that sends a browser elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The HTTP status: 301 to 399.
    pub status: u16,
    pub location: String,
}

/// The address that a browser has asked for.
#[derive(Clone, Copy, Debug)]
pub struct Address<'a> {
    /// The scheme of the connection: `http` or `https`.
    pub scheme: &'a str,
    /// The header `Host`.
    pub host: &'a str,
    /// The decoded key: the path without the slash in front.
    pub key: &'a str,
    /// The path and query as they were sent.
    pub path_and_query: &'a str,
}

/// Refuses a configuration that AWS refuses.
///
/// # Errors
/// `InvalidArgument`, `InvalidRequest`.
pub fn check(website: &WebsiteConfiguration) -> S3Result<()> {
    if let Some(all) = &website.redirect_all_requests_to {
        if website.index_document.is_some()
            || website.error_document.is_some()
            || website.routing_rules.is_some()
        {
            return Err(s3_error!(
                InvalidRequest,
                "RedirectAllRequestsTo cannot be provided in conjunction with other elements"
            ));
        }
        check_host(&all.host_name)?;
        return check_protocol(all.protocol.as_ref());
    }
    let Some(index) = &website.index_document else {
        return Err(s3_error!(InvalidRequest, "a website needs an IndexDocument or RedirectAllRequestsTo"));
    };
    if index.suffix.contains('/') || !is_text(&index.suffix) {
        return Err(s3_error!(InvalidArgument, "The IndexDocument Suffix is not well formed"));
    }
    if website.error_document.as_ref().is_some_and(|error| !is_text(&error.key)) {
        return Err(s3_error!(InvalidArgument, "the key of the ErrorDocument is not a key"));
    }
    let rules = website.routing_rules.as_deref().unwrap_or_default();
    if rules.len() > RULES_MAX {
        return Err(s3_error!(InvalidRequest, "a website can have at most {RULES_MAX} routing rules"));
    }
    rules.iter().try_for_each(check_rule)
}

fn check_rule(rule: &RoutingRule) -> S3Result<()> {
    if let Some(condition) = &rule.condition {
        let code = condition.http_error_code_returned_equals.as_deref();
        if code.is_none() && condition.key_prefix_equals.is_none() {
            return Err(s3_error!(InvalidRequest, "a condition needs a KeyPrefixEquals or an error code"));
        }
        let is_error =
            |code: &str| code.len() == 3 && code.parse().is_ok_and(|code: u16| (400..600).contains(&code));
        if code.is_some_and(|code| !is_error(code)) {
            return Err(s3_error!(
                InvalidArgument,
                "The provided HTTP error code is not valid. Valid codes are 4XX or 5XX."
            ));
        }
        if condition.key_prefix_equals.as_ref().is_some_and(|prefix| prefix.len() > TEXT_BYTES_MAX) {
            return Err(s3_error!(InvalidArgument, "KeyPrefixEquals is too long"));
        }
    }
    let redirect = &rule.redirect;
    if *redirect == Redirect::default() {
        return Err(s3_error!(InvalidRequest, "a redirect needs at least one element"));
    }
    if redirect.replace_key_with.is_some() && redirect.replace_key_prefix_with.is_some() {
        return Err(s3_error!(
            InvalidRequest,
            "You can only define ReplaceKeyPrefix or ReplaceKey but not both."
        ));
    }
    let code = redirect.http_redirect_code.as_deref();
    if code.is_some_and(|code| status(code).is_none()) {
        return Err(s3_error!(
            InvalidArgument,
            "The provided HTTP redirect code is not valid. Valid codes are 3XX except 300."
        ));
    }
    for text in [&redirect.replace_key_with, &redirect.replace_key_prefix_with].into_iter().flatten() {
        if text.len() > TEXT_BYTES_MAX {
            return Err(s3_error!(InvalidArgument, "the new key of a redirect is too long"));
        }
    }
    redirect.host_name.as_deref().map_or(Ok(()), check_host)?;
    check_protocol(redirect.protocol.as_ref())
}

fn is_text(text: &str) -> bool {
    !text.is_empty() && text.len() <= TEXT_BYTES_MAX
}

/// A host is part of a header, so it must have no other characters than a host can have.
fn check_host(host: &str) -> S3Result<()> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if is_text(host) && host.bytes().all(is_valid) {
        return Ok(());
    }
    Err(s3_error!(InvalidArgument, "a HostName is a name of a host, without protocol and path"))
}

fn check_protocol(protocol: Option<&Protocol>) -> S3Result<()> {
    match protocol.map(Protocol::as_str) {
        None | Some(Protocol::HTTP | Protocol::HTTPS) => Ok(()),
        Some(_) => Err(s3_error!(
            InvalidRequest,
            "Invalid protocol, protocol can be http or https. If not defined the protocol will be selected automatically."
        )),
    }
}

fn status(code: &str) -> Option<u16> {
    code.parse().ok().filter(|status| (301..400).contains(status) && code.len() == 3)
}

/// The redirect of a request before its object is read.
pub fn redirect_of(website: &WebsiteConfiguration, address: Address<'_>) -> Option<Moved> {
    if let Some(all) = &website.redirect_all_requests_to {
        let scheme = all.protocol.as_ref().map_or(address.scheme, Protocol::as_str);
        let location = format!("{scheme}://{}{}", all.host_name, address.path_and_query);
        return Some(Moved { status: 301, location });
    }
    rule_of(website, address, None)
}

/// The redirect of a request whose object could not be read.
pub fn redirect_after_error(
    website: &WebsiteConfiguration,
    address: Address<'_>,
    status: u16,
) -> Option<Moved> {
    rule_of(website, address, Some(status))
}

fn rule_of(website: &WebsiteConfiguration, address: Address<'_>, error: Option<u16>) -> Option<Moved> {
    let rules = website.routing_rules.as_deref().unwrap_or_default();
    let rule = rules.iter().find(|rule| {
        let condition = rule.condition.as_ref();
        let wanted = condition.and_then(|condition| condition.http_error_code_returned_equals.as_deref());
        let wanted = wanted.map(|code| code.parse().ok());
        wanted == error.map(Some) && address.key.starts_with(prefix_of(rule))
    })?;
    let redirect = &rule.redirect;
    let scheme = redirect.protocol.as_ref().map_or(address.scheme, Protocol::as_str);
    let host = redirect.host_name.as_deref().unwrap_or(address.host);
    let key = match (&redirect.replace_key_with, &redirect.replace_key_prefix_with) {
        (Some(key), _) => key.clone(),
        (None, Some(prefix)) => format!("{prefix}{}", &address.key[prefix_of(rule).len()..]),
        (None, None) => address.key.to_owned(),
    };
    Some(Moved {
        status: redirect.http_redirect_code.as_deref().and_then(status).unwrap_or(301),
        location: format!("{scheme}://{host}/{}", encode_key(&key)),
    })
}

fn prefix_of(rule: &RoutingRule) -> &str {
    let condition = rule.condition.as_ref();
    condition.and_then(|condition| condition.key_prefix_equals.as_deref()).unwrap_or_default()
}

/// A key as part of a path, percent-encoded.
pub fn encode_key(key: &str) -> String {
    key.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// The absolute path of a key. Two slashes at its start would name a host, so the second one is
/// encoded.
pub fn path_of(key: &str) -> String {
    match key.strip_prefix('/') {
        Some(rest) => format!("/%2F{}", encode_key(rest)),
        None => format!("/{}", encode_key(key)),
    }
}

#[cfg(test)]
#[path = "website_rules_tests.rs"]
mod tests;
