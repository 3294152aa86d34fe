//! The other objects that a method needs.
//!
//! A method reads only the object that it runs beside. So it declares names in its manifest
//! (`objects`), the caller says which object each name stands for, and the client reads these
//! objects and puts their contents into the input. The input is then a list, in the encoding that
//! methods that merge results get, too: the caller's own input, and the contents in the order of
//! the declaration.
//!
//! Rejected: a function of the interface that reads another object, because the process that stores
//! one object cannot read another; docs/design/0007 has the details.

use crate::MethodManifest;
use crate::manifest::{invalid, is_name};
use benthic_core::codec::Encode;
use benthic_core::{Error, Result};
use bytes::Bytes;

/// Limit of the names that a method declares.
const OBJECTS_MAX: usize = 16;
/// Limit of an input with the contents of other objects. Every call of a run carries it. It is the
/// default memory of a call, and fits an operation together with the largest module.
pub const COLLECTED_BYTES_MAX: u64 = 16 * 1024 * 1024;

impl MethodManifest {
    pub(crate) fn check_objects(&self) -> Result<()> {
        if self.objects.len() > OBJECTS_MAX {
            let message = "a method declares too many objects; combine some of them into one";
            return Err(invalid(message)
                .with("objects", self.objects.len())
                .with("objects_max", OBJECTS_MAX));
        }
        if self.merges && !self.objects.is_empty() {
            return Err(invalid(
                "a method that merges results declares no objects; let the method before it use them",
            ));
        }
        for (index, name) in self.objects.iter().enumerate() {
            let refused = |message: &str| Err(invalid(message).with("object", name));
            if !is_name(name) {
                return refused(
                    "the name of a declared object must consist of lower-case letters, digits and _, and begin with a letter",
                );
            }
            if self.objects[..index].contains(name) {
                return refused("the method declares an object twice");
            }
        }
        Ok(())
    }

    /// Sorts the caller's objects for the declared names into the order of the declaration.
    ///
    /// # Errors
    /// `InvalidArgument` if a name is missing, unknown or given twice.
    pub fn in_declared_order<T>(&self, mut given: Vec<(String, T)>) -> Result<Vec<T>> {
        let refused =
            |message: &str, name: &str| Err(invalid(message).with("method", &self.name).with("name", name));
        for (index, (name, _)) in given.iter().enumerate() {
            if !self.objects.contains(name) {
                let message = match self.objects.is_empty() {
                    true => "the method declares no objects; call it without this one".to_owned(),
                    false => format!(
                        "the method declares no object of this name; use one of its names: {}",
                        self.objects.join(", ")
                    ),
                };
                return refused(&message, name);
            }
            if given[..index].iter().any(|(other, _)| other == name) {
                return refused("the call gives an object twice; give each name once", name);
            }
        }
        let mut sorted = Vec::new();
        for name in &self.objects {
            let Some(index) = given.iter().position(|(other, _)| other == name) else {
                let message = "the method needs another object; give it as --object NAME=POOL/OBJECT, in Python in objects=";
                return refused(message, name);
            };
            sorted.push(given.swap_remove(index).1);
        }
        Ok(sorted)
    }

    /// The input of the method: the caller's input, with the contents of the declared objects if
    /// there are any.
    ///
    /// # Errors
    /// `LimitExceeded` if they are too large.
    pub fn collect(&self, input: Bytes, contents: &[Bytes]) -> Result<Bytes> {
        if self.objects.is_empty() {
            return Ok(input);
        }
        let parts = || std::iter::once(&input).chain(contents);
        check_collected(parts().map(|part| part.len() as u64).sum())?;
        Ok(list(parts()))
    }
}

/// Checks the size of an input with the contents of other objects.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_collected(size_bytes: u64) -> Result<()> {
    if size_bytes <= COLLECTED_BYTES_MAX {
        return Ok(());
    }
    let message = "the input and the other objects of the call are too large; run the method beside the largest one, or use smaller ones";
    Err(Error::limit_exceeded(message)
        .with("size_bytes", size_bytes)
        .with("size_bytes_max", COLLECTED_BYTES_MAX))
}

/// A list of byte strings as the input of a method: their count (u32), then each after its length
/// (u32).
pub fn list<'a>(parts: impl Iterator<Item = &'a Bytes> + Clone) -> Bytes {
    let mut list = Vec::new();
    list.put_len(parts.clone().count());
    parts.for_each(|part| list.put_bytes(part));
    list.into()
}
