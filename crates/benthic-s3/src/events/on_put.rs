//! Rules that run a method of a class on new objects.
//!
//! A *synchronous* rule runs before the object is visible. If the method fails, the request fails,
//! and there is no object. The result becomes metadata of the object.
//!
//! An *asynchronous* rule runs later, from a queue. The result becomes another object.
//!
//! A method only reads: data of objects never change, and copies share them. So a method that wants
//! to keep something returns it.

use super::{Error, KeyFilter, Result, corrupt};
use crate::sal::{Attributes, limits};
use benthic_core::ClassCall;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The attribute of a bucket with its rules, as JSON.
pub const ATTRIBUTE: &str = "on-put";
/// The variable in the key of a result that stands for the key of the object.
pub const KEY_VARIABLE: &str = "{key}";
/// Limit of the result of a synchronous rule, in bytes: metadata go into a header.
pub const METADATA_BYTES_MAX: usize = 1_024;
/// Queues of rules begin with this text; the id of the rule follows.
const QUEUE: &str = "on-put/";
/// Limit of the rules of a bucket.
const RULES_MAX: usize = 20;
const INPUT_BYTES_MAX: usize = 4 * 1024;
const NAME_BYTES_MAX: usize = 64;
const FORM: u32 = 1;

/// The rules of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnPutRules {
    form: u32,
    pub rules: Vec<OnPutRule>,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnPutRule {
    pub id: String,
    pub filter: KeyFilter,
    pub class: String,
    pub method: String,
    pub input: String,
    pub then: Then,
}

/// The use of a method's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Then {
    /// The method only decides whether the object may be written.
    Check,
    /// Metadata of the object, under this name.
    Metadata(String),
    /// Another object, which is written later.
    Object { key: String, content_type: Option<String> },
}

impl Default for OnPutRules {
    fn default() -> OnPutRules {
        OnPutRules { form: FORM, rules: Vec::new() }
    }
}

impl OnPutRules {
    /// The rules of a bucket.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` if a newer version has written them.
    pub fn of_bucket(attributes: &Attributes) -> Result<OnPutRules> {
        let Some(text) = attributes.get(ATTRIBUTE) else { return Ok(OnPutRules::default()) };
        let rules: OnPutRules = serde_json::from_slice(text).map_err(|error| corrupt(&error.to_string()))?;
        if rules.form == FORM {
            return Ok(rules);
        }
        let message = "a newer version of Benthic has written the on-put rules of a bucket";
        Err(Error::unsupported(message).with("form", rules.form))
    }

    /// Stores the rules in the attributes of a bucket: also if there are none any more, so that
    /// gateways find the events of the old ones, and drop them.
    ///
    /// # Errors
    /// `Internal`.
    pub fn store(&self, attributes: &mut Attributes) -> Result<()> {
        let text = serde_json::to_vec(self)
            .map_err(|error| Error::internal("cannot encode on-put rules").with_source(error))?;
        attributes.insert(ATTRIBUTE.to_owned(), Bytes::from(text));
        Ok(())
    }

    /// Adds a rule, or replaces the one with its id.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`.
    pub fn add(&mut self, rule: OnPutRule) -> Result<()> {
        rule.check()?;
        self.rules.retain(|other| other.id != rule.id);
        if self.rules.len() >= RULES_MAX {
            return Err(Error::limit_exceeded("the bucket has 20 on-put rules; remove one first"));
        }
        self.rules.push(rule);
        Ok(())
    }

    /// The rules to run before an object is visible.
    pub fn synchronous<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a OnPutRule> {
        self.rules.iter().filter(move |rule| !rule.is_asynchronous() && rule.filter.fits(key))
    }

    /// The rules to run later.
    pub fn asynchronous<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a OnPutRule> {
        self.rules.iter().filter(move |rule| rule.is_asynchronous() && rule.filter.fits(key))
    }

    /// The rule of a queue.
    pub fn rule_of_queue(&self, queue: &str) -> Option<&OnPutRule> {
        let id = queue.strip_prefix(QUEUE)?;
        self.rules.iter().find(|rule| rule.id == id && rule.is_asynchronous())
    }
}

impl OnPutRule {
    pub fn is_asynchronous(&self) -> bool {
        matches!(self.then, Then::Object { .. })
    }

    pub(super) fn queue(&self) -> String {
        format!("{QUEUE}{}", self.id)
    }

    pub fn call(&self) -> ClassCall {
        ClassCall::new(&self.class, &self.method, self.input.clone())
    }

    fn check(&self) -> Result<()> {
        let invalid = |message: &str| Err(Error::invalid_argument(message.to_owned()));
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.id.is_empty() || self.id.len() > NAME_BYTES_MAX || !self.id.chars().all(fits) {
            return invalid("the id of a rule must consist of 1 to 64 letters, digits and `-_.`");
        }
        if self.input.len() > INPUT_BYTES_MAX {
            return invalid("the input of a rule has more than 4 KiB");
        }
        let KeyFilter { prefix, suffix } = &self.filter;
        if prefix.len().max(suffix.len()) > limits::KEY_BYTES_MAX {
            return invalid("the prefix and the suffix have at most 1,024 bytes");
        }
        match &self.then {
            Then::Check => Ok(()),
            Then::Metadata(name) => {
                let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(fits) {
                    return Ok(());
                }
                invalid("the name of metadata must consist of 1 to 64 lower-case letters, digits and `-`")
            }
            Then::Object { key, content_type } => {
                if !key.contains(KEY_VARIABLE) || key == KEY_VARIABLE {
                    return invalid(
                        "the key of the result must contain {key} and other text, for example small/{key}",
                    );
                }
                if key.len() > limits::KEY_BYTES_MAX {
                    return invalid("the key of the result has more than 1,024 bytes");
                }
                let is_visible = |text: &String| text.bytes().all(|byte| (b' '..0x7f).contains(&byte));
                if content_type.as_ref().is_some_and(|text| text.len() > 256 || !is_visible(text)) {
                    return invalid("the content type has at most 256 printable ASCII characters");
                }
                Ok(())
            }
        }
    }
}
