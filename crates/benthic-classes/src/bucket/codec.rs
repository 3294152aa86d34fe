//! Encodes a bucket's values with [`benthic_core::codec`]. A struct that may ever change begins
//! with a [`Version`].

use benthic_core::Error;
use benthic_core::codec::{Decoded, Decoder, Encode, Malformed, Wire};
use std::fmt;
use std::str::FromStr;

pub(super) fn corrupt(message: &str) -> Error {
    Error::corrupt(message)
}

/// The format version of a struct, one byte. Decoding refuses all other versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version;

const VERSION: u8 = 2;

impl Wire for Version {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(VERSION);
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Version> {
        if input.u8()? == VERSION { Ok(Version) } else { Err(Malformed) }
    }
}

/// A unique id: six bytes of time (big-endian milliseconds, so that ids sort by age) and ten random
/// bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub [u8; 16]);

impl Wire for Id {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Id> {
        input.array().map(Id)
    }
}

/// Displayed as 32 hexadecimal digits.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl FromStr for Id {
    type Err = Malformed;

    fn from_str(text: &str) -> Decoded<Id> {
        let id = u128::from_str_radix(text, 16).map(|number| Id(number.to_be_bytes()));
        // Accept only the canonical spelling: no sign, no capitals, no fewer digits.
        id.ok().filter(|id| id.to_string() == text).ok_or(Malformed)
    }
}

/// Declares structs and enums and implements [`Wire`] for them. A struct is encoded as its fields
/// in order, a variant as its number (u8) and its value.
#[macro_export]
#[doc(hidden)]
macro_rules! wire {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$meta])*
            pub struct $name {
                $($(#[$field_meta])* pub $field: $type,)*
            }

            ::benthic_core::wire_struct! { $name { $($field),* } }
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

            ::benthic_core::wire_enum! { $name { $($number $variant { $(0: value as $value)? })* } }
        )*
    };
}
