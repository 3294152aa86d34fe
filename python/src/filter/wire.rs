//! The part of Substrait that pyarrow writes for filters, from
//! `substrait/extended_expression.proto` and `substrait/algebra.proto`, with the field numbers of
//! those files. An expression that uses any other part is not pushed down.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct ExtendedExpression {
    #[prost(message, repeated, tag = "2")]
    pub extensions: Vec<ExtensionDeclaration>,
    #[prost(message, repeated, tag = "3")]
    pub expressions: Vec<NamedExpression>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ExtensionDeclaration {
    #[prost(message, optional, tag = "3")]
    pub function: Option<FunctionDeclaration>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FunctionDeclaration {
    #[prost(uint32, tag = "2")]
    pub anchor: u32,
    #[prost(string, tag = "3")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct NamedExpression {
    #[prost(message, optional, tag = "1")]
    pub expression: Option<Expression>,
}

/// An expression. Exactly one field is set.
#[derive(Clone, PartialEq, Message)]
pub struct Expression {
    #[prost(message, optional, tag = "1")]
    pub literal: Option<Literal>,
    #[prost(message, optional, tag = "2")]
    pub field: Option<FieldReference>,
    #[prost(message, optional, tag = "3")]
    pub function: Option<ScalarFunction>,
    #[prost(message, optional, boxed, tag = "6")]
    pub if_then: Option<Box<IfThen>>,
    #[prost(message, optional, boxed, tag = "8")]
    pub is_one_of: Option<Box<SingularOrList>>,
    #[prost(message, optional, boxed, tag = "11")]
    pub cast: Option<Box<Cast>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FieldReference {
    #[prost(message, optional, tag = "1")]
    pub direct: Option<ReferenceSegment>,
    /// The expression that holds the referenced part; absent if the reference is to the row.
    #[prost(message, optional, boxed, tag = "3")]
    pub root: Option<Box<Expression>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ReferenceSegment {
    #[prost(message, optional, boxed, tag = "2")]
    pub field: Option<Box<StructField>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct StructField {
    #[prost(int32, tag = "1")]
    pub place: i32,
    /// The part of the column, if the reference is not to the whole column.
    #[prost(message, optional, boxed, tag = "2")]
    pub child: Option<Box<ReferenceSegment>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ScalarFunction {
    #[prost(uint32, tag = "1")]
    pub anchor: u32,
    #[prost(message, repeated, tag = "4")]
    pub arguments: Vec<FunctionArgument>,
    #[prost(message, repeated, tag = "5")]
    pub options: Vec<FunctionOption>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FunctionArgument {
    #[prost(message, optional, tag = "3")]
    pub value: Option<Expression>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FunctionOption {
    #[prost(string, tag = "1")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct IfThen {
    #[prost(message, repeated, tag = "1")]
    pub ifs: Vec<IfClause>,
    #[prost(message, optional, boxed, tag = "2")]
    pub otherwise: Option<Box<Expression>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct IfClause {
    #[prost(message, optional, tag = "1")]
    pub condition: Option<Expression>,
    #[prost(message, optional, tag = "2")]
    pub then: Option<Expression>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SingularOrList {
    #[prost(message, optional, boxed, tag = "1")]
    pub value: Option<Box<Expression>>,
    #[prost(message, repeated, tag = "2")]
    pub options: Vec<Expression>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Cast {
    #[prost(message, optional, boxed, tag = "2")]
    pub input: Option<Box<Expression>>,
}

/// A constant. Exactly one field beside `variation` is set.
#[derive(Clone, PartialEq, Message)]
pub struct Literal {
    #[prost(bool, optional, tag = "1")]
    pub boolean: Option<bool>,
    #[prost(int32, optional, tag = "2")]
    pub i8: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub i16: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub i32: Option<i32>,
    #[prost(int64, optional, tag = "7")]
    pub i64: Option<i64>,
    #[prost(float, optional, tag = "10")]
    pub fp32: Option<f32>,
    #[prost(double, optional, tag = "11")]
    pub fp64: Option<f64>,
    #[prost(string, optional, tag = "12")]
    pub string: Option<String>,
    #[prost(bytes = "vec", optional, tag = "13")]
    pub binary: Option<Vec<u8>>,
    /// Microseconds since 1970.
    #[prost(int64, optional, tag = "14")]
    pub timestamp: Option<i64>,
    /// Days since 1970.
    #[prost(int32, optional, tag = "16")]
    pub date: Option<i32>,
    /// Microseconds of the day.
    #[prost(int64, optional, tag = "17")]
    pub time: Option<i64>,
    #[prost(message, optional, tag = "24")]
    pub decimal: Option<Decimal>,
    /// Microseconds since 1970, in UTC.
    #[prost(int64, optional, tag = "27")]
    pub timestamp_tz: Option<i64>,
    /// The type of a null.
    #[prost(bytes = "vec", optional, tag = "29")]
    pub null: Option<Vec<u8>>,
    /// Selects one of several types that share an encoding, such as unsigned integers.
    #[prost(uint32, tag = "51")]
    pub variation: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Decimal {
    /// 16 bytes, little-endian.
    #[prost(bytes = "vec", tag = "1")]
    pub value: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub precision: i32,
    #[prost(int32, tag = "3")]
    pub scale: i32,
}
