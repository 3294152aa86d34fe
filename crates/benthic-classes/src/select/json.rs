//! Reads records from JSON without holding the document: only one record is in memory.
//!
//! `serde_json`'s own values are not used, because the order of keys depends on a feature of
//! the crate, and because their size has no limit.

use super::decimal::Decimal;
use super::failure::{Fault, fault};
use super::query::FromStep;
use super::value::float_text;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::cell::{Cell, RefCell};
use std::fmt;

/// A value of JSON. Objects keep the order of their keys.
#[derive(Clone, Debug)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Int(i128),
    /// Only of data with types: JSON's own numbers are integers or binary ones.
    Decimal(Decimal),
    Float(f64),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Writes the value as JSON.
    pub fn write(&self, to: &mut Vec<u8>) {
        match self {
            Json::Null => to.extend_from_slice(b"null"),
            Json::Bool(value) => to.extend_from_slice(if *value { b"true" } else { b"false" }),
            Json::Int(value) => to.extend_from_slice(value.to_string().as_bytes()),
            Json::Decimal(value) => to.extend_from_slice(value.text().as_bytes()),
            Json::Float(value) => to.extend_from_slice(float_text(*value).as_bytes()),
            Json::Text(text) => write_text(text, to),
            Json::Array(values) => {
                to.push(b'[');
                for (index, value) in values.iter().enumerate() {
                    if index > 0 {
                        to.push(b',');
                    }
                    value.write(to);
                }
                to.push(b']');
            }
            Json::Object(entries) => {
                to.push(b'{');
                for (index, (key, value)) in entries.iter().enumerate() {
                    if index > 0 {
                        to.push(b',');
                    }
                    write_text(key, to);
                    to.push(b':');
                    value.write(to);
                }
                to.push(b'}');
            }
        }
    }
}

/// Writes a text as JSON.
pub(super) fn write_text(text: &str, to: &mut Vec<u8>) {
    // Writing into memory and serializing a text cannot fail.
    let _ = serde_json::to_writer(to, text);
}

/// Takes the records that a [`Walk`] finds. `None` is a record that is missing at the end of the
/// path.
pub(super) trait Take {
    /// Returns whether the walk goes on.
    fn take(&mut self, record: Option<&Json>) -> Result<bool, Fault>;
}

/// The state that the steps of a walk share.
pub(super) struct WalkState<'a> {
    pub take: RefCell<&'a mut dyn Take>,
    /// Why the walk ended, if its own code ended it.
    pub fault: RefCell<Option<Fault>>,
    /// Bytes read since the last value: what limits a single text.
    pub since_value_bytes: &'a Cell<u64>,
    /// The walk needs no more records.
    pub ended: Cell<bool>,
}

impl<'a> WalkState<'a> {
    pub fn new(take: &'a mut dyn Take, since_value_bytes: &'a Cell<u64>) -> WalkState<'a> {
        WalkState {
            take: RefCell::new(take),
            fault: RefCell::new(None),
            since_value_bytes,
            ended: Cell::new(false),
        }
    }

    fn stop<E: serde::de::Error>(&self, fault: Fault) -> E {
        self.fault.borrow_mut().get_or_insert(fault);
        E::custom("the walk has ended")
    }

    fn emit<E: serde::de::Error>(&self, record: Option<&Json>) -> Result<(), E> {
        self.since_value_bytes.set(0);
        match self.take.borrow_mut().take(record) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.ended.set(true);
                Err(E::custom("the walk has ended"))
            }
            Err(fault) => Err(self.stop(fault)),
        }
    }
}

/// Goes along the path of a query through one top-level value, and emits each record at its end.
pub(super) struct Walk<'a, 'b> {
    pub state: &'a WalkState<'b>,
    pub steps: &'a [FromStep],
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.steps.is_empty() {
            let size_bytes = Cell::new(0);
            let record = Build { state: self.state, size_bytes: &size_bytes }.deserialize(deserializer)?;
            return self.state.emit(Some(&record));
        }
        deserializer.deserialize_any(self)
    }
}

/// Implements the visits of scalars, which are no records inside a path.
macro_rules! scalars {
    ($self:ident => $result:expr) => {
        fn visit_bool<E: serde::de::Error>($self, _: bool) -> Result<(), E> {
            $result
        }
        fn visit_i64<E: serde::de::Error>($self, _: i64) -> Result<(), E> {
            $result
        }
        fn visit_u64<E: serde::de::Error>($self, _: u64) -> Result<(), E> {
            $result
        }
        fn visit_f64<E: serde::de::Error>($self, _: f64) -> Result<(), E> {
            $result
        }
        fn visit_str<E: serde::de::Error>($self, _: &str) -> Result<(), E> {
            $result
        }
        fn visit_unit<E: serde::de::Error>($self) -> Result<(), E> {
            $result
        }
    };
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("JSON")
    }

    scalars!(self => self.state.emit(None));

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        let (steps, state) = (&self.steps[1..], self.state);
        let mut index = 0;
        let mut found = false;
        loop {
            let is_on_path = match &self.steps[0] {
                FromStep::Each => true,
                FromStep::Index(wanted) => *wanted == index,
                FromStep::Key(_) => false,
            };
            let more = if is_on_path {
                values.next_element_seed(Walk { state, steps })?.is_some()
            } else {
                values.next_element_seed(Skip(state))?.is_some()
            };
            if !more {
                break;
            }
            found |= is_on_path;
            index += 1;
        }
        if found || self.steps[0] == FromStep::Each { Ok(()) } else { state.emit(None) }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let (steps, state) = (&self.steps[1..], self.state);
        let mut found = false;
        while let Some(key) = entries.next_key::<String>()? {
            match &self.steps[0] {
                FromStep::Key(name) if name.matches(&key) => {
                    found = true;
                    entries.next_value_seed(Walk { state, steps })?;
                }
                _ => entries.next_value_seed(Skip(state))?,
            }
        }
        if found { Ok(()) } else { state.emit(None) }
    }
}

/// Reads over a value. Unlike serde's `IgnoredAny`, it tells the limit of a text that values pass.
struct Skip<'a, 'b>(&'a WalkState<'b>);

impl Skip<'_, '_> {
    fn pass<E>(&self) -> Result<(), E> {
        self.0.since_value_bytes.set(0);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Skip<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Skip<'_, '_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("JSON")
    }

    scalars!(self => self.pass());

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        while values.next_element_seed(Skip(self.0))?.is_some() {}
        self.pass()
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while entries.next_key_seed(Skip(self.0))?.is_some() {
            entries.next_value_seed(Skip(self.0))?;
        }
        self.pass()
    }
}

/// Reads a record. `size_bytes` counts its text, so that a record has a limit.
struct Build<'a, 'b> {
    state: &'a WalkState<'b>,
    size_bytes: &'a Cell<u64>,
}

impl<'b> Build<'_, 'b> {
    fn count<E: serde::de::Error>(&self, len_bytes: usize) -> Result<(), E> {
        self.state.since_value_bytes.set(0);
        // A value in an array has at least one byte and a comma.
        let size_bytes = self.size_bytes.get() + len_bytes as u64 + 2;
        self.size_bytes.set(size_bytes);
        if size_bytes <= super::RECORD_BYTES_MAX as u64 {
            return Ok(());
        }
        Err(self.state.stop(record_too_long()))
    }

    fn again(&self) -> Build<'_, 'b> {
        Build { state: self.state, size_bytes: self.size_bytes }
    }
}

pub(super) fn record_too_long() -> Fault {
    fault("OverMaxRecordSize", "a record is longer than 1 MiB")
}

impl<'de> DeserializeSeed<'de> for Build<'_, '_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Build<'_, '_> {
    type Value = Json;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("JSON")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Json, E> {
        self.count(2).map(|()| Json::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Json, E> {
        self.count(0).map(|()| Json::Int(value.into()))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Json, E> {
        self.count(0).map(|()| Json::Int(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Json, E> {
        self.count(2).map(|()| Json::Float(value))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Json, E> {
        self.count(text.len()).map(|()| Json::Text(text.to_owned()))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Json, E> {
        self.count(2).map(|()| Json::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Json, A::Error> {
        self.count(0)?;
        let mut values = Vec::new();
        while let Some(value) = from.next_element_seed(self.again())? {
            values.push(value);
        }
        Ok(Json::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Json, A::Error> {
        self.count(0)?;
        let mut entries = Vec::new();
        while let Some(key) = from.next_key::<String>()? {
            self.count::<A::Error>(key.len())?;
            entries.push((key, from.next_value_seed(self.again())?));
        }
        Ok(Json::Object(entries))
    }
}

/// The fault behind an error of `serde_json`.
pub(super) fn fault_of(error: &serde_json::Error, state: &WalkState<'_>) -> Fault {
    state.fault.borrow_mut().take().unwrap_or_else(|| {
        let what = if error.is_eof() { "ends in the middle of a value" } else { "is not valid" };
        let message = format!("the JSON {what} at line {} column {}", error.line(), error.column());
        fault("JSONParsingError", message)
    })
}
