//! The encoding of all data that is stored or sent in binary form.
//!
//! Numbers are little-endian. A byte string or text starts with its length (u32), a list or map
//! with its count (u32). An absent value is 0; a present value is 1 followed by the value. A struct
//! is the sequence of its fields in declaration order, without names. An enum is the number of its
//! variant (u8) followed by the variant's fields. A struct that may change later begins with a
//! version.
//!
//! [`Encode`] and [`Decoder`] handle primitives, for code that writes a format field by field.
//! [`Wire`] is for types with a single encoding; [`wire_struct!`](crate::wire_struct) and
//! [`wire_enum!`](crate::wire_enum) implement it.
//!
//! A decoder never allocates more than its input can hold: it checks every length and count against
//! the bytes that are left. serde is not an alternative, because its binary formats leave integer
//! widths and length encoding to the library's version.

mod operations;

use crate::Error;
use bytes::Bytes;
use std::collections::BTreeMap;

/// The error of a decoder: the bytes do not encode a value of the requested type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The result of decoding.
pub type Decoded<T> = Result<T, Malformed>;

/// Appends primitives to a buffer. Numbers are little-endian.
pub trait Encode {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    /// Appends the count of the items that follow, as u32.
    fn put_len(&mut self, len: usize);
    /// Appends a byte string, preceded by its length.
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

/// Decodes a buffer from front to back. Every method fails with [`Malformed`] if the buffer ends
/// before the value does.
pub struct Decoder<'a> {
    rest: &'a [u8],
    /// Decoded byte strings share this memory. If None, they are copies.
    shared: Option<&'a Bytes>,
}

impl<'a> Decoder<'a> {
    /// A decoder whose byte strings share the memory of `bytes`, and so keep all of it alive.
    pub fn sharing(bytes: &'a Bytes) -> Decoder<'a> {
        Decoder { rest: bytes, shared: Some(bytes) }
    }

    /// A decoder whose byte strings are copies.
    pub fn copying(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { rest: bytes, shared: None }
    }

    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    fn slice(&mut self, len: usize) -> Decoded<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Decodes `len` bytes that have no length prefix.
    pub fn take(&mut self, len: usize) -> Decoded<Bytes> {
        let taken = self.slice(len)?;
        Ok(self.shared.map_or_else(|| Bytes::copy_from_slice(taken), |shared| shared.slice_ref(taken)))
    }

    pub fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        self.slice(N)?.try_into().map_err(|_| Malformed)
    }

    pub fn u8(&mut self) -> Decoded<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Decoded<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Decoded<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Decoded<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Decodes a boolean, which is 0 or 1. Any other byte is [`Malformed`].
    pub fn bool(&mut self) -> Decoded<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// Decodes the count of a list whose items take at least `item_bytes_min` bytes each.
    ///
    /// # Errors
    /// [`Malformed`] if the rest of the input is too short for that many items.
    pub fn len(&mut self, item_bytes_min: usize) -> Decoded<usize> {
        let len = self.u32()? as usize;
        if len.saturating_mul(item_bytes_min) > self.rest.len() { Err(Malformed) } else { Ok(len) }
    }

    /// Decodes a byte string with a length prefix.
    pub fn bytes(&mut self) -> Decoded<Bytes> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    /// Decodes text with a length prefix. Text that is not UTF-8 is [`Malformed`].
    pub fn string(&mut self) -> Decoded<String> {
        let len = self.u32()? as usize;
        std::str::from_utf8(self.slice(len)?).map(str::to_owned).map_err(|_| Malformed)
    }

    /// Fails with [`Malformed`] if bytes are left.
    pub fn end(&self) -> Decoded<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// A type with one encoding. `put` appends a value to a buffer; `get` decodes one from the front.
pub trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>);

    fn get(input: &mut Decoder<'_>) -> Decoded<Self>;

    fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        self.put(&mut out);
        out.into()
    }

    /// Decodes a value that takes up all of `encoded`. Byte strings in it are copies.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes do not encode the type, or if bytes are left.
    fn decode(encoded: &[u8]) -> Decoded<Self> {
        let mut input = Decoder::copying(encoded);
        let value = Self::get(&mut input)?;
        input.end()?;
        Ok(value)
    }

    /// [`Wire::decode`] for the input of a method. The error is `InvalidArgument`.
    fn from_input(input: &[u8]) -> crate::Result<Self> {
        Self::decode(input).map_err(|_| Error::invalid_argument("the method cannot decode this input"))
    }

    /// [`Wire::decode`] for a stored value. The error is `Corrupt`.
    fn from_stored(stored: &[u8]) -> crate::Result<Self> {
        Self::decode(stored).map_err(|_| Error::corrupt("a stored value cannot be decoded"))
    }
}

/// Implements [`Wire`](crate::codec::Wire) for structs. The macro takes the fields in encoding
/// order.
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

/// Implements [`Wire`](crate::codec::Wire) for enums. Each variant is given with its number and its
/// fields. Each field has the name to which the generated code binds it, and a type where inference
/// needs one.
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

/// Encoded as the number's bits, so that the bits of a NaN and of -0.0 do not change.
impl Wire for f64 {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.to_bits());
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Self> {
        input.u64().map(f64::from_bits)
    }
}

/// Encoded as u64.
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

/// Keys are sorted and unique, so equal maps have equal encodings.
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
