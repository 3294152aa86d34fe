//! Input and output of the `lock` methods, and their limits.

use crate::input::{check_len, json, text};
use benthic_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Limit of a lock's name, owner and cookie, in bytes of UTF-8.
pub const TEXT_BYTES_MAX: usize = 128;
/// Limit of locks per object.
pub const LOCKS_MAX: usize = 64;
/// Limit of holders of a shared lock.
pub const HOLDERS_MAX: usize = 128;
/// Limit of a lease. Holders that need the lock for longer renew it.
pub const LEASE_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// The lock's name if the input has none.
pub const DEFAULT_NAME: &str = "default";

const INPUT_BYTES_MAX: usize = 4_096;

/// Whether a lock admits one holder or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[default]
    Exclusive,
    /// Up to [`HOLDERS_MAX`] holders, none of them exclusive.
    Shared,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Exclusive => "exclusive",
            Mode::Shared => "shared",
        })
    }
}

/// Input of all methods except `list`, as JSON such as
/// `{"name":"index","owner":"ada","cookie":"1","lease_ms":30000}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    #[serde(default = "default_name")]
    pub name: String,
    pub owner: String,
    /// Identifies a session of the owner. If absent, it is the empty cookie; for `break`, all
    /// sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// For `acquire` and `assert`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// For `acquire` and `renew`: lease duration, 1 to [`LEASE_MS_MAX`] milliseconds. Without it,
    /// the lease never ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
}

/// The optional fields that a method accepts.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    pub mode: bool,
    pub lease: bool,
}

/// One lock in the output of `list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedLock {
    pub name: String,
    pub mode: Mode,
    pub holders: Vec<ListedHolder>,
}

/// One holder in the output of `list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedHolder {
    pub owner: String,
    pub cookie: String,
    /// Milliseconds until the lease ends; `null` if it does not.
    pub left_ms: Option<u64>,
}

fn default_name() -> String {
    DEFAULT_NAME.to_owned()
}

impl Input {
    pub fn cookie(&self) -> &str {
        self.cookie.as_deref().unwrap_or_default()
    }

    pub(super) fn parse(input: &[u8], fields: Fields) -> Result<Input> {
        let expected = r#"the input is JSON such as {"owner":"ada"}; `benthic class show lock` shows more"#;
        let parsed: Input = json(text(input, INPUT_BYTES_MAX)?.as_bytes(), expected)?;
        let unexpected = [
            ("mode", parsed.mode.is_some() && !fields.mode),
            ("lease_ms", parsed.lease_ms.is_some() && !fields.lease),
        ];
        if let Some((field, _)) = unexpected.iter().find(|(_, is_unexpected)| *is_unexpected) {
            let message = "the method does not accept this field; `benthic class show lock` shows its fields";
            return Err(Error::invalid_argument(message).with("field", field));
        }
        check_text("the lock's name", &parsed.name, 1)?;
        check_owner(&parsed.owner)?;
        check_cookie(parsed.cookie())?;
        match parsed.lease_ms {
            Some(0) => Err(Error::invalid_argument("a lease must last at least 1 ms")),
            Some(lease_ms) if lease_ms > LEASE_MS_MAX => {
                Err(Error::limit_exceeded("the lease is too long; renew it in time")
                    .with("lease_ms", lease_ms)
                    .with("lease_ms_max", LEASE_MS_MAX))
            }
            _ => Ok(parsed),
        }
    }

    pub fn encode(&self) -> String {
        serde_json::json!(self).to_string()
    }
}

/// Parses the input of `list`: empty, or a lock's name.
pub(super) fn parse_list(input: &[u8]) -> Result<Option<&str>> {
    match text(input, INPUT_BYTES_MAX)? {
        "" => Ok(None),
        name => check_text("the lock's name", name, 1).map(|()| Some(name)),
    }
}

pub(super) fn check_owner(owner: &str) -> Result<()> {
    check_text("the owner", owner, 1)
}

pub(super) fn check_cookie(cookie: &str) -> Result<()> {
    check_text("the cookie", cookie, 0)
}

fn check_text(what: &str, text: &str, len_bytes_min: usize) -> Result<()> {
    check_len(what, text.len(), TEXT_BYTES_MAX)?;
    if text.len() < len_bytes_min || text.contains(char::is_control) {
        return Err(Error::invalid_argument(format!("{what} is empty or has control characters")));
    }
    Ok(())
}
