//! The parameters of a request: the query of its URL.

use benthic_core::{Error, ObjectId, Result};
use benthic_program::units;
use form_urlencoded::parse;
use hyper::Uri;
use std::collections::BTreeMap;

pub struct Query(BTreeMap<String, String>);

impl Query {
    /// Parses the query of a URL.
    ///
    /// # Errors
    /// `InvalidArgument` if a parameter occurs twice.
    pub fn of(uri: &Uri) -> Result<Query> {
        let mut parameters = BTreeMap::new();
        for (name, value) in parse(uri.query().unwrap_or_default().as_bytes()) {
            if parameters.insert(name.to_string(), value.into_owned()).is_some() {
                let message = "the parameter occurs twice; send it once";
                return Err(Error::invalid_argument(message).with("parameter", name));
            }
        }
        Ok(Query(parameters))
    }

    /// The value of a parameter; empty if it is missing.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The value of a parameter that must not be empty.
    pub fn required(&self, name: &'static str) -> Result<&str> {
        match self.text(name) {
            "" => Err(Error::invalid_argument("a parameter is missing").with("parameter", name)),
            value => Ok(value),
        }
    }

    pub fn is_set(&self, name: &'static str) -> Result<bool> {
        match self.text(name) {
            "" | "0" => Ok(false),
            "1" => Ok(true),
            other => Err(Error::invalid_argument("this parameter is 0 or 1")
                .with("parameter", name)
                .with("got", other)),
        }
    }

    /// A number from 1 to `max`.
    pub fn number(&self, name: &'static str, default: usize, max: usize) -> Result<usize> {
        let text = self.text(name);
        if text.is_empty() {
            return Ok(default);
        }
        text.parse().ok().filter(|number| (1..=max).contains(number)).ok_or_else(|| {
            Error::invalid_argument(format!("this parameter is a number from 1 to {max}"))
                .with("parameter", name)
                .with("got", text)
        })
    }

    /// Bytes in hexadecimal; `None` if the parameter is missing.
    pub fn bytes(&self, name: &'static str) -> Result<Option<Vec<u8>>> {
        match self.text(name) {
            "" => Ok(None),
            text => units::parse_hex(text).map(Some).ok_or_else(|| {
                Error::invalid_argument("this parameter is in hexadecimal").with("parameter", name)
            }),
        }
    }

    /// The object that the parameters `namespace` and `object` name.
    pub fn object(&self) -> Result<ObjectId> {
        ObjectId::in_namespace(self.text("namespace"), self.required("object")?)
    }
}
