//! The syntax tree of a query.

use super::timestamp::DatePart;
use super::value::Value;

/// A parsed query.
#[derive(Debug)]
pub(super) struct Query {
    pub items: Items,
    /// The steps from a top-level value of the data to a record.
    pub from: Vec<FromStep>,
    pub condition: Option<Expr>,
    pub limit: Option<u64>,
    /// The paths of the columns, each once; [`Expr::Column`] has an index.
    pub columns: Vec<Path>,
    /// [`Expr::Aggregate`] has an index.
    pub aggregates: Vec<Aggregate>,
}

#[derive(Debug)]
pub(super) enum Items {
    All,
    List(Vec<Item>),
}

#[derive(Debug)]
pub(super) struct Item {
    pub expr: Expr,
    /// The name in answers in JSON.
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FromStep {
    Key(Name),
    Index(usize),
    Each,
}

/// A name that matches without regard to case, unless it is in quotes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub text: String,
    pub quoted: bool,
}

impl Name {
    pub fn matches(&self, key: &str) -> bool {
        if self.quoted { self.text == key } else { self.text.eq_ignore_ascii_case(key) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Key(Name),
    Index(usize),
}

/// The steps from a record to a value; the record itself without steps.
pub(super) type Path = Vec<Step>;

#[derive(Debug)]
pub(super) struct Aggregate {
    pub kind: AggregateKind,
    /// `None` counts records.
    pub argument: Option<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AggregateKind {
    Count,
    Sum,
    Min,
    Max,
    Avg,
}

#[derive(Debug)]
pub(super) enum Expr {
    Literal(Value<'static>),
    Column(usize),
    Aggregate(usize),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    /// Lists keep the depth small where a query has thousands of conditions.
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Compare(Comparison, Box<(Expr, Expr)>),
    Arithmetic(Operator, Box<(Expr, Expr)>),
    Concat(Vec<Expr>),
    IsNull(Box<Expr>),
    IsMissing(Box<Expr>),
    In(Box<Expr>, Vec<Expr>),
    Between(Box<(Expr, Expr, Expr)>),
    Like(Box<(Expr, Expr, Option<Expr>)>),
    Cast(Box<Expr>, Type),
    Case(Box<Case>),
    Call(Function, Vec<Expr>),
}

#[derive(Debug)]
pub(super) struct Case {
    /// The value that is compared with the conditions; without it, these are conditions.
    pub operand: Option<Expr>,
    /// Conditions with results.
    pub branches: Vec<(Expr, Expr)>,
    pub otherwise: Option<Expr>,
}

impl Expr {
    /// Whether a part of an expression has a property. The arguments of aggregates are not parts.
    pub fn any(&self, has: &dyn Fn(&Expr) -> bool) -> bool {
        let all = |list: &[Expr]| list.iter().any(|part| part.any(has));
        has(self)
            || match self {
                Expr::Literal(_) | Expr::Column(_) | Expr::Aggregate(_) => false,
                Expr::Not(part)
                | Expr::Negate(part)
                | Expr::IsNull(part)
                | Expr::IsMissing(part)
                | Expr::Cast(part, _) => part.any(has),
                Expr::And(parts) | Expr::Or(parts) | Expr::Concat(parts) | Expr::Call(_, parts) => all(parts),
                Expr::Compare(_, parts) | Expr::Arithmetic(_, parts) => parts.0.any(has) || parts.1.any(has),
                Expr::In(part, list) => part.any(has) || all(list),
                Expr::Between(parts) => parts.0.any(has) || parts.1.any(has) || parts.2.any(has),
                Expr::Like(parts) => {
                    parts.0.any(has) || parts.1.any(has) || parts.2.as_ref().is_some_and(|part| part.any(has))
                }
                Expr::Case(case) => {
                    case.branches.iter().any(|(condition, result)| condition.any(has) || result.any(has))
                        || [&case.operand, &case.otherwise].into_iter().flatten().any(|part| part.any(has))
                }
            }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Int,
    Float,
    /// With a precision and a scale, if the query has them.
    Decimal(Option<(u32, u32)>),
    Text,
    Bool,
    Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Lower,
    Upper,
    CharLength,
    Coalesce,
    NullIf,
    /// Text, first character from 1, and optionally a length.
    Substring,
    /// Text, and optionally the characters to remove.
    Trim(Side),
    /// A timestamp, and how many parts to add.
    DateAdd(DatePart),
    /// Two timestamps.
    DateDiff(DatePart),
    Extract(DatePart),
    /// A timestamp and a pattern.
    ToString,
    /// The time at which the query began.
    UtcNow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Both,
    Leading,
    Trailing,
}
