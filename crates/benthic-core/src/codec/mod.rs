//! The encoding of everything that is stored or sent in binary form.
//!
//! Numbers are little-endian. Byte strings and text have their length (u32) before them, lists and maps their count (u32).
//! An absent value is 0, a present one 1 and the value. A struct is its fields in the order of its declaration, without
//! names; an enum is the number of the variant (u8) and its fields. A struct that may ever change begins with a version.
//!
//! [`Encode`] and [`Decoder`] handle primitives, for code that spells out a format field by field. [`Wire`] is for types
//! that have one encoding; [`wire_struct!`](crate::wire_struct) and [`wire_enum!`](crate::wire_enum) implement it.
//!
//! A decoder never allocates more than its input holds: a length or a count that lies ends at the end of the input. serde is
//! no alternative, because its binary formats leave widths and lengths to the library's version.

mod operations;

use crate::{Error, ErrorKind};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The bytes do not encode a value of the wanted type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The result of decoding.
pub type Decoded<T> = Result<T, Malformed>;

/// Appends primitives to a buffer.
pub trait Encode {
    /// Appends a number.
    fn put_u8(&mut self, value: u8);
    /// Appends a number.
    fn put_u16(&mut self, value: u16);
    /// Appends a number.
    fn put_u32(&mut self, value: u32);
    /// Appends a number.
    fn put_u64(&mut self, value: u64);
    /// Appends the count of the items that follow.
    fn put_len(&mut self, len: usize);
    /// Appends a byte string with its length.
    fn put_bytes(&mut self, bytes: &[u8]);
}

impl Encode for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_len(&mut self, len: usize) {
        // Operations are limited to 64 MiB, so every length fits.
        self.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_len(bytes.len());
        self.extend_from_slice(bytes);
    }
}

/// Reads a buffer from the front.
pub struct Decoder<'a> {
    rest: &'a [u8],
    /// The memory that decoded byte strings share; without it they are copies.
    shared: Option<&'a Bytes>,
}

impl<'a> Decoder<'a> {
    /// Decodes byte strings that share the memory of `bytes`, and so keep all of it alive.
    pub fn sharing(bytes: &'a Bytes) -> Decoder<'a> {
        Decoder { rest: bytes, shared: Some(bytes) }
    }

    /// Decodes byte strings into memory of their own.
    pub fn copying(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { rest: bytes, shared: None }
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    fn slice(&mut self, len: usize) -> Decoded<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Bytes without a length before them.
    ///
    /// # Errors
    /// [`Malformed`] if fewer are left.
    pub fn take(&mut self, len: usize) -> Decoded<Bytes> {
        let taken = self.slice(len)?;
        Ok(self.shared.map_or_else(|| Bytes::copy_from_slice(taken), |shared| shared.slice_ref(taken)))
    }

    /// An array of bytes.
    ///
    /// # Errors
    /// [`Malformed`] if fewer are left.
    pub fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        self.slice(N)?.try_into().map_err(|_| Malformed)
    }

    /// A number.
    ///
    /// # Errors
    /// [`Malformed`] at the end of the input.
    pub fn u8(&mut self) -> Decoded<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// A number.
    ///
    /// # Errors
    /// [`Malformed`] at the end of the input.
    pub fn u16(&mut self) -> Decoded<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// A number.
    ///
    /// # Errors
    /// [`Malformed`] at the end of the input.
    pub fn u32(&mut self) -> Decoded<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A number.
    ///
    /// # Errors
    /// [`Malformed`] at the end of the input.
    pub fn u64(&mut self) -> Decoded<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A truth value: 0 or 1.
    ///
    /// # Errors
    /// [`Malformed`] for any other byte.
    pub fn bool(&mut self) -> Decoded<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// The count of items that take at least `item_bytes_min` each.
    ///
    /// # Errors
    /// [`Malformed`] if the input cannot hold so many.
    pub fn len(&mut self, item_bytes_min: usize) -> Decoded<usize> {
        let len = self.u32()? as usize;
        if len.saturating_mul(item_bytes_min) > self.rest.len() { Err(Malformed) } else { Ok(len) }
    }

    /// A byte string with its length.
    ///
    /// # Errors
    /// [`Malformed`] if it is not whole.
    pub fn bytes(&mut self) -> Decoded<Bytes> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    /// UTF-8 text with its length.
    ///
    /// # Errors
    /// [`Malformed`] if it is not whole or not UTF-8.
    pub fn string(&mut self) -> Decoded<String> {
        let len = self.u32()? as usize;
        std::str::from_utf8(self.slice(len)?).map(str::to_owned).map_err(|_| Malformed)
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// [`Malformed`] if something is.
    pub fn end(&self) -> Decoded<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// A type with one encoding.
pub trait Wire: Sized {
    /// Appends the encoding.
    fn put(&self, out: &mut Vec<u8>);

    /// Decodes a value from the front of the input.
    ///
    /// # Errors
    /// [`Malformed`].
    fn get(input: &mut Decoder<'_>) -> Decoded<Self>;

    /// The encoding.
    fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        self.put(&mut out);
        out.into()
    }

    /// Decodes a value that is all of `encoded`. Byte strings in it are copies.
    ///
    /// # Errors
    /// [`Malformed`].
    fn decode(encoded: &[u8]) -> Decoded<Self> {
        let mut input = Decoder::copying(encoded);
        let value = Self::get(&mut input)?;
        input.end()?;
        Ok(value)
    }

    /// As [`Wire::decode`], of a method's input.
    ///
    /// # Errors
    /// `InvalidArgument`.
    fn from_input(input: &[u8]) -> crate::Result<Self> {
        Self::decode(input)
            .map_err(|_| Error::new(ErrorKind::InvalidArgument, "the input is none of this method's"))
    }

    /// As [`Wire::decode`], of a stored value.
    ///
    /// # Errors
    /// `Corrupt`.
    fn from_stored(stored: &[u8]) -> crate::Result<Self> {
        Self::decode(stored).map_err(|_| Error::new(ErrorKind::Corrupt, "a stored value cannot be decoded"))
    }
}

/// Implements [`Wire`](crate::codec::Wire) for structs, whose fields it lists in order.
#[macro_export]
macro_rules! wire_struct {
    ($($type:ident { $($field:ident),* $(,)? })*) => {$(
        impl $crate::codec::Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::codec::Wire::put(&self.$field, out);)*
            }

            fn get(input: &mut $crate::codec::Decoder<'_>) -> $crate::codec::Decoded<Self> {
                Ok($type { $($field: $crate::codec::Wire::get(input)?),* })
            }
        }
    )*};
}

/// Implements [`Wire`](crate::codec::Wire) for enums. Each variant has its number, and its fields with the names under which
/// the implementation binds them, and where inference needs it their types.
#[macro_export]
macro_rules! wire_enum {
    ($($type:ident {
        $($number:literal $variant:ident { $($field:tt: $bind:ident $(as $field_type:ty)?),* })*
    })*) => {$(
        impl $crate::codec::Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($type::$variant { $($field: $bind),* } => {
                        out.push($number);
                        $($crate::codec::Wire::put($bind, out);)*
                    })*
                }
            }

            fn get(input: &mut $crate::codec::Decoder<'_>) -> $crate::codec::Decoded<Self> {
                match input.u8()? {
                    $($number => {
                        $(let $bind $(: $field_type)? = $crate::codec::Wire::get(input)?;)*
                        Ok($type::$variant { $($field: $bind),* })
                    })*
                    _ => Err($crate::codec::Malformed),
                }
            }
        }
    )*};
}

macro_rules! numbers {
    ($($number:ident $put:ident),*) => {$(
        impl Wire for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.$put(*self);
            }

            fn get(input: &mut Decoder<'_>) -> Decoded<Self> {
                input.$number()
            }
        }
    )*};
}

numbers! { u8 put_u8, u16 put_u16, u32 put_u32, u64 put_u64 }

/// As u64.
impl Wire for usize {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(*self as u64);
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Self> {
        usize::try_from(input.u64()?).map_err(|_| Malformed)
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u8((*self).into());
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Self> {
        input.bool()
    }
}

impl Wire for Bytes {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_bytes(self);
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Self> {
        input.bytes()
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.as_bytes());
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Self> {
        input.string()
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Self> {
        if input.bool()? { T::get(input).map(Some) } else { Ok(None) }
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Self> {
        Ok((A::get(input)?, B::get(input)?))
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_len(self.len());
        self.iter().for_each(|item| item.put(out));
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Self> {
        (0..input.len(1)?).map(|_| T::get(input)).collect()
    }
}

/// Keys are in order and each occurs once, so that equal maps have equal encodings.
impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_len(self.len());
        for (key, value) in self {
            key.put(out);
            value.put(out);
        }
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Self> {
        let mut map = BTreeMap::new();
        for _ in 0..input.len(2)? {
            let key = K::get(input)?;
            if map.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return Err(Malformed);
            }
            map.insert(key, V::get(input)?);
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests;
