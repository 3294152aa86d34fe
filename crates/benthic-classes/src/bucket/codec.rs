//! How values are written as bytes: numbers little-endian; bytes and text with their length (u32) before them; lists and
//! maps with their count (u32); an absent value as 0, a present one as 1 and the value. Fields stand in the order in which
//! they are declared, without names, so a struct that may ever change begins with a [`Version`].

use benthic_core::{Error, ErrorKind, Result};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// What has a form in bytes.
pub trait Wire: Sized {
    /// Appends the form.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes the form from the front.
    ///
    /// # Errors
    /// [`Malformed`] if that is none.
    fn take(from: &mut &[u8]) -> Result<Self, Malformed>;

    /// The form.
    fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        self.put(&mut out);
        out.into()
    }

    /// Reads a form, and nothing behind it.
    ///
    /// # Errors
    /// [`Malformed`].
    fn decode(mut from: &[u8]) -> Result<Self, Malformed> {
        let value = Self::take(&mut from)?;
        if from.is_empty() { Ok(value) } else { Err(Malformed) }
    }

    /// As [`Wire::decode`], of a method's input.
    ///
    /// # Errors
    /// `InvalidArgument`.
    fn from_input(input: &[u8]) -> Result<Self> {
        Self::decode(input)
            .map_err(|_| Error::new(ErrorKind::InvalidArgument, "the input is none of this method's"))
    }

    /// As [`Wire::decode`], of what is stored.
    ///
    /// # Errors
    /// `Corrupt`.
    fn from_stored(stored: &[u8]) -> Result<Self> {
        Self::decode(stored).map_err(|_| corrupt("a stored value of the index cannot be decoded"))
    }
}

/// Bytes that are no such value.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

pub(super) fn corrupt(message: &str) -> Error {
    Error::new(ErrorKind::Corrupt, message)
}

fn split<'a>(from: &mut &'a [u8], len_bytes: usize) -> Result<&'a [u8], Malformed> {
    let (taken, rest) = from.split_at_checked(len_bytes).ok_or(Malformed)?;
    *from = rest;
    Ok(taken)
}

fn take_len(from: &mut &[u8]) -> Result<usize, Malformed> {
    u32::take(from).map(|len| len as usize)
}

/// Lengths and counts are below 4 GiB: no operation carries more than 64 MiB.
fn put_len(len: usize, out: &mut Vec<u8>) {
    u32::try_from(len).unwrap_or(u32::MAX).put(out);
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl Wire for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
                let bytes = split(from, size_of::<$number>())?.try_into().map_err(|_| Malformed)?;
                Ok(<$number>::from_le_bytes(bytes))
            }
        })*
    };
}
numbers!(u8 u16 u32 u64);

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self).put(out);
    }

    fn take(from: &mut &[u8]) -> Result<bool, Malformed> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }
}

impl Wire for Bytes {
    fn put(&self, out: &mut Vec<u8>) {
        put_len(self.len(), out);
        out.extend_from_slice(self);
    }

    fn take(from: &mut &[u8]) -> Result<Bytes, Malformed> {
        let len_bytes = take_len(from)?;
        split(from, len_bytes).map(Bytes::copy_from_slice)
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_len(self.len(), out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(from: &mut &[u8]) -> Result<String, Malformed> {
        let len_bytes = take_len(from)?;
        std::str::from_utf8(split(from, len_bytes)?).map(str::to_owned).map_err(|_| Malformed)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut &[u8]) -> Result<Option<T>, Malformed> {
        if bool::take(from)? { T::take(from).map(Some) } else { Ok(None) }
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_len(self.len(), out);
        self.iter().for_each(|value| value.put(out));
    }

    fn take(from: &mut &[u8]) -> Result<Vec<T>, Malformed> {
        // Every value takes a byte at least: a count that lies ends at the end of the bytes.
        let count = take_len(from)?;
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(T::take(from)?);
        }
        Ok(values)
    }
}

impl<V: Wire> Wire for BTreeMap<String, V> {
    fn put(&self, out: &mut Vec<u8>) {
        put_len(self.len(), out);
        for (key, value) in self {
            key.put(out);
            value.put(out);
        }
    }

    fn take(from: &mut &[u8]) -> Result<BTreeMap<String, V>, Malformed> {
        let mut map = BTreeMap::new();
        for _ in 0..take_len(from)? {
            let key = String::take(from)?;
            // In order and each once, so that equal maps have equal bytes.
            if map.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return Err(Malformed);
            }
            map.insert(key, V::take(from)?);
        }
        Ok(map)
    }
}

/// The version of a form, one byte; all others are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version;

const VERSION: u8 = 1;

impl Wire for Version {
    fn put(&self, out: &mut Vec<u8>) {
        VERSION.put(out);
    }

    fn take(from: &mut &[u8]) -> Result<Version, Malformed> {
        if u8::take(from)? == VERSION { Ok(Version) } else { Err(Malformed) }
    }
}

/// A number that nobody else draws: six bytes of time (big-endian milliseconds, so that ids sort by age), ten at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub [u8; 16]);

impl Wire for Id {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn take(from: &mut &[u8]) -> Result<Id, Malformed> {
        split(from, 16)?.try_into().map(Id).map_err(|_| Malformed)
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl FromStr for Id {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Id, Malformed> {
        let id = u128::from_str_radix(text, 16).map(|number| Id(number.to_be_bytes()));
        // Only its own spelling: no sign, no capitals, no fewer digits.
        id.ok().filter(|id| id.to_string() == text).ok_or(Malformed)
    }
}

/// Declares structs and enums with a form: a struct is its fields one after the other, a variant its number (u8) and its
/// value.
#[macro_export]
#[doc(hidden)]
macro_rules! wire {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$meta])*
            pub struct $name {
                $($(#[$field_meta])* pub $field: $type,)*
            }

            impl $crate::bucket::codec::Wire for $name {
                fn put(&self, out: &mut Vec<u8>) {
                    $($crate::bucket::codec::Wire::put(&self.$field, out);)*
                }

                fn take(from: &mut &[u8]) -> ::core::result::Result<$name, $crate::bucket::codec::Malformed> {
                    $(let $field = $crate::bucket::codec::Wire::take(from)?;)*
                    Ok($name { $($field),* })
                }
            }
        )*
    };
    ($($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$variant_meta:meta])* $number:literal = $variant:ident $(($value:ty))?,)*
    })*) => {
        $(
            $(#[$meta])*
            pub enum $name {
                $($(#[$variant_meta])* $variant $(($value))?,)*
            }

            impl $crate::bucket::codec::Wire for $name {
                fn put(&self, out: &mut Vec<u8>) {
                    match self {
                        $($crate::wire!(@pattern $variant value $(($value))?) => {
                            $crate::bucket::codec::Wire::put(&($number as u8), out);
                            $(<$value as $crate::bucket::codec::Wire>::put(value, out);)?
                        })*
                    }
                }

                fn take(from: &mut &[u8]) -> ::core::result::Result<$name, $crate::bucket::codec::Malformed> {
                    match <u8 as $crate::bucket::codec::Wire>::take(from)? {
                        $($number => Ok($name::$variant
                            $((<$value as $crate::bucket::codec::Wire>::take(from)?))?),)*
                        _ => Err($crate::bucket::codec::Malformed),
                    }
                }
            }
        )*
    };
    (@pattern $variant:ident $bound:ident) => { Self::$variant };
    (@pattern $variant:ident $bound:ident ($value:ty)) => { Self::$variant($bound) };
}
