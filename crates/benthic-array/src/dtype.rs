//! The data types of array elements.

use benthic_core::codec::{Decoded, Decoder, Malformed, Wire};
use std::fmt;

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float32,
    Float64,
}

/// How reductions represent the elements of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    Signed,
    /// Booleans, too, as 0 and 1.
    Unsigned,
    Float,
}

impl Dtype {
    pub const ALL: [Dtype; 11] = [
        Dtype::Bool,
        Dtype::Int8,
        Dtype::Int16,
        Dtype::Int32,
        Dtype::Int64,
        Dtype::Uint8,
        Dtype::Uint16,
        Dtype::Uint32,
        Dtype::Uint64,
        Dtype::Float32,
        Dtype::Float64,
    ];

    /// The name in Zarr v3 and in NumPy.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::Bool => "bool",
            Dtype::Int8 => "int8",
            Dtype::Int16 => "int16",
            Dtype::Int32 => "int32",
            Dtype::Int64 => "int64",
            Dtype::Uint8 => "uint8",
            Dtype::Uint16 => "uint16",
            Dtype::Uint32 => "uint32",
            Dtype::Uint64 => "uint64",
            Dtype::Float32 => "float32",
            Dtype::Float64 => "float64",
        }
    }

    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Parses a type string of NumPy, as Zarr v2 stores it: byte order, kind and size, such as
    /// `<f4`. Returns the type, and whether the elements are big-endian.
    pub fn from_type_string(text: &str) -> Option<(Dtype, bool)> {
        let order = text.chars().next()?;
        let dtype = match text.get(1..)? {
            "b1" => Dtype::Bool,
            "i1" => Dtype::Int8,
            "i2" => Dtype::Int16,
            "i4" => Dtype::Int32,
            "i8" => Dtype::Int64,
            "u1" => Dtype::Uint8,
            "u2" => Dtype::Uint16,
            "u4" => Dtype::Uint32,
            "u8" => Dtype::Uint64,
            "f4" => Dtype::Float32,
            "f8" => Dtype::Float64,
            _ => return None,
        };
        match order {
            '<' => Some((dtype, false)),
            '>' => Some((dtype, true)),
            '|' if dtype.size_bytes() == 1 => Some((dtype, false)),
            _ => None,
        }
    }

    /// The type string of NumPy for little-endian elements.
    pub fn type_string(self) -> &'static str {
        match self {
            Dtype::Bool => "|b1",
            Dtype::Int8 => "|i1",
            Dtype::Int16 => "<i2",
            Dtype::Int32 => "<i4",
            Dtype::Int64 => "<i8",
            Dtype::Uint8 => "|u1",
            Dtype::Uint16 => "<u2",
            Dtype::Uint32 => "<u4",
            Dtype::Uint64 => "<u8",
            Dtype::Float32 => "<f4",
            Dtype::Float64 => "<f8",
        }
    }

    /// Size of an element.
    pub fn size_bytes(self) -> usize {
        match self {
            Dtype::Bool | Dtype::Int8 | Dtype::Uint8 => 1,
            Dtype::Int16 | Dtype::Uint16 => 2,
            Dtype::Int32 | Dtype::Uint32 | Dtype::Float32 => 4,
            Dtype::Int64 | Dtype::Uint64 | Dtype::Float64 => 8,
        }
    }

    pub fn number_kind(self) -> NumberKind {
        match self {
            Dtype::Int8 | Dtype::Int16 | Dtype::Int32 | Dtype::Int64 => NumberKind::Signed,
            Dtype::Bool | Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32 | Dtype::Uint64 => {
                NumberKind::Unsigned
            }
            Dtype::Float32 | Dtype::Float64 => NumberKind::Float,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Wire for Dtype {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Dtype> {
        Dtype::ALL.get(usize::from(input.u8()?)).copied().ok_or(Malformed)
    }
}

/// A Rust type that represents elements.
pub trait Element: Copy + PartialOrd + Send + Sync + 'static {
    const SIZE_BYTES: usize;

    /// Decodes a little-endian element of [`Element::SIZE_BYTES`] bytes.
    fn from_le(bytes: &[u8]) -> Self;
    fn to_f64(self) -> f64;
    fn to_f32(self) -> f32;
    /// The value of a signed integer. Meaningless for other types.
    fn to_i64(self) -> i64;
    /// The value of an unsigned integer. Meaningless for other types.
    fn to_u64(self) -> u64;
}

macro_rules! elements {
    ($($element:ident)*) => {$(
        impl Element for $element {
            const SIZE_BYTES: usize = size_of::<$element>();

            #[inline]
            fn from_le(bytes: &[u8]) -> $element {
                let mut element = [0; size_of::<$element>()];
                element.copy_from_slice(bytes);
                $element::from_le_bytes(element)
            }

            #[inline]
            fn to_f64(self) -> f64 {
                self as f64
            }

            #[inline]
            fn to_f32(self) -> f32 {
                self as f32
            }

            #[inline]
            fn to_i64(self) -> i64 {
                self as i64
            }

            #[inline]
            fn to_u64(self) -> u64 {
                self as u64
            }
        }
    )*};
}

elements! { i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 }

/// Calls a generic function with the Rust type of a [`Dtype`]. Booleans are bytes.
macro_rules! with_element {
    ($dtype:expr, $function:ident :: <_>($($argument:expr),* $(,)?)) => {
        match $dtype {
            $crate::Dtype::Bool | $crate::Dtype::Uint8 => $function::<u8>($($argument),*),
            $crate::Dtype::Int8 => $function::<i8>($($argument),*),
            $crate::Dtype::Int16 => $function::<i16>($($argument),*),
            $crate::Dtype::Int32 => $function::<i32>($($argument),*),
            $crate::Dtype::Int64 => $function::<i64>($($argument),*),
            $crate::Dtype::Uint16 => $function::<u16>($($argument),*),
            $crate::Dtype::Uint32 => $function::<u32>($($argument),*),
            $crate::Dtype::Uint64 => $function::<u64>($($argument),*),
            $crate::Dtype::Float32 => $function::<f32>($($argument),*),
            $crate::Dtype::Float64 => $function::<f64>($($argument),*),
        }
    };
}
pub(crate) use with_element;
