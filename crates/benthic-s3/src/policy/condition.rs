//! Conditions: operators that compare a fact of the request with the values of a policy.

use super::facts::{self, FactCache, check_key};
use super::pattern::Pattern;
use std::net::IpAddr;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// One operator on one key. All conditions of a statement must hold.
#[derive(Clone, Debug)]
pub struct Condition {
    key: String,
    set: Option<Set>,
    /// `…IfExists`: the condition holds if the request has no such fact.
    if_exists: bool,
    test: Test,
}

/// How an operator treats a fact with several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    Any,
    All,
}

#[derive(Clone, Debug)]
enum Test {
    Null(bool),
    Compare { negated: bool, values: Values },
}

/// The values of the policy, one of which must match.
#[derive(Clone, Debug)]
enum Values {
    Patterns { patterns: Vec<Pattern>, ignores_case: bool },
    Arns(Vec<Vec<Pattern>>),
    Numbers(Order, Vec<f64>),
    Dates(Order, Vec<OffsetDateTime>),
    Bools(Vec<bool>),
    Networks(Vec<Network>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A range of IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: u128,
    prefix_bits: u32,
    is_v6: bool,
}

impl Condition {
    /// Parses an operator, such as `ForAnyValue:StringLikeIfExists`, with its key and values.
    ///
    /// # Errors
    /// A message for an unknown operator or key, or a value that does not fit.
    pub fn parse(operator: &str, key: &str, values: &[String], variables: bool) -> Result<Condition, String> {
        let unknown = || format!("unknown condition operator '{operator}'");
        let (set, name) = match operator.split_once(':') {
            None => (None, operator),
            Some(("ForAnyValue", name)) => (Some(Set::Any), name),
            Some(("ForAllValues", name)) => (Some(Set::All), name),
            Some(_) => return Err(unknown()),
        };
        let (if_exists, name) = match name.strip_suffix("IfExists") {
            Some(name) => (true, name),
            None => (false, name),
        };
        let key = check_key(key)?;
        if values.is_empty() {
            return Err(format!("the condition '{operator}' on '{key}' has no value"));
        }
        let test = if name == "Null" {
            let wanted = single_bool(values).filter(|_| set.is_none() && !if_exists);
            Test::Null(wanted.ok_or_else(|| "Null takes one value, true or false".to_owned())?)
        } else {
            let (kind, comparison) =
                KINDS.iter().find_map(|kind| Some((*kind, name.strip_prefix(kind)?))).ok_or_else(unknown)?;
            let (negated, values) = compare(kind, comparison, values, variables, &unknown)?;
            Test::Compare { negated, values }
        };
        Ok(Condition { key, set, if_exists, test })
    }

    /// The claim of a token that the condition looks at.
    pub fn claim(&self) -> Option<&str> {
        facts::claim(&self.key)
    }

    /// Whether the condition looks at a fact whose key begins with `prefix`.
    pub fn reads(&self, prefix: &str) -> bool {
        let in_values = match &self.test {
            Test::Compare { values: Values::Patterns { patterns, .. }, .. } => {
                patterns.iter().any(|pattern| pattern.reads(prefix))
            }
            Test::Compare { values: Values::Arns(arns), .. } => {
                arns.iter().flatten().any(|pattern| pattern.reads(prefix))
            }
            Test::Compare { .. } | Test::Null(_) => false,
        };
        in_values || self.key.starts_with(prefix)
    }

    /// Whether the condition limits requests to a fixed set of values, so that an allowed request
    /// is not public.
    pub fn is_fixed(&self) -> bool {
        let identifies = matches!(
            self.key.as_str(),
            "aws:sourceip" | "aws:principalarn" | "aws:principalaccount" | "aws:userid"
        );
        let is_fixed = match &self.test {
            Test::Null(_) | Test::Compare { negated: true, .. } => false,
            Test::Compare { values: Values::Patterns { patterns, .. }, .. } => {
                !patterns.iter().any(Pattern::is_open)
            }
            Test::Compare { values: Values::Arns(arns), .. } => !arns.iter().flatten().any(Pattern::is_open),
            Test::Compare { values: Values::Networks(networks), .. } => {
                // The limits of AWS.
                networks.iter().all(|network| network.prefix_bits >= if network.is_v6 { 32 } else { 8 })
            }
            Test::Compare { .. } => false,
        };
        identifies && is_fixed && !self.if_exists && self.set != Some(Set::All)
    }

    pub fn holds(&self, facts: &FactCache<'_>) -> bool {
        // A key without any value counts as missing, as on AWS.
        let found = facts.values(&self.key).filter(|found| !found.is_empty());
        let (negated, values) = match &self.test {
            Test::Null(wanted) => return found.is_none() == *wanted,
            Test::Compare { negated, values } => (*negated, values),
        };
        let Some(found) = found else {
            return match self.set {
                Some(Set::All) => true,
                Some(Set::Any) => self.if_exists,
                None => self.if_exists || negated,
            };
        };
        let holds = |value: &String| values.matches(value, facts) != negated;
        match self.set {
            Some(Set::All) => found.iter().all(holds),
            // A negated operator holds exactly if the positive one does not, which needs one value.
            None if negated => found.iter().all(holds),
            Some(Set::Any) | None => found.iter().any(holds),
        }
    }
}

const KINDS: [&str; 7] = ["String", "Numeric", "Date", "Bool", "IpAddress", "NotIpAddress", "Arn"];

/// Whether an operator is negated, and its values.
fn compare(
    kind: &str,
    comparison: &str,
    values: &[String],
    variables: bool,
    unknown: &dyn Fn() -> String,
) -> Result<(bool, Values), String> {
    let parse = |text: &String| Pattern::parse(text, variables);
    let patterns = || values.iter().map(parse).collect::<Result<Vec<Pattern>, String>>();
    let literals = || Ok::<_, String>(patterns()?.into_iter().map(Pattern::literal).collect());
    let of = |patterns, ignores_case| Values::Patterns { patterns, ignores_case };
    Ok(match (kind, comparison) {
        ("String", "Equals") => (false, of(literals()?, false)),
        ("String", "NotEquals") => (true, of(literals()?, false)),
        ("String", "EqualsIgnoreCase") => (false, of(literals()?, true)),
        ("String", "NotEqualsIgnoreCase") => (true, of(literals()?, true)),
        ("String", "Like") => (false, of(patterns()?, false)),
        ("String", "NotLike") => (true, of(patterns()?, false)),
        ("Arn", "Equals" | "Like") => (false, Values::Arns(arns(values, variables)?)),
        ("Arn", "NotEquals" | "NotLike") => (true, Values::Arns(arns(values, variables)?)),
        ("Numeric", comparison) => {
            let (negated, order) = order(comparison).ok_or_else(unknown)?;
            let number = |text: &String| number(text).ok_or_else(|| format!("'{text}' is not a number"));
            (negated, Values::Numbers(order, values.iter().map(number).collect::<Result<_, _>>()?))
        }
        ("Date", comparison) => {
            let (negated, order) = order(comparison).ok_or_else(unknown)?;
            let date = |text: &String| {
                date(text).ok_or_else(|| format!("'{text}' is not a date such as 2026-01-31T00:00:00Z"))
            };
            (negated, Values::Dates(order, values.iter().map(date).collect::<Result<_, _>>()?))
        }
        ("Bool", "") => {
            let value = |text: &String| bool_of(text).ok_or_else(|| format!("'{text}' is not true or false"));
            (false, Values::Bools(values.iter().map(value).collect::<Result<_, _>>()?))
        }
        ("IpAddress" | "NotIpAddress", "") => {
            let networks = values.iter().map(|text| Network::parse(text)).collect::<Result<_, _>>()?;
            (kind == "NotIpAddress", Values::Networks(networks))
        }
        _ => return Err(unknown()),
    })
}

fn order(comparison: &str) -> Option<(bool, Order)> {
    Some(match comparison {
        "Equals" => (false, Order::Equal),
        "NotEquals" => (true, Order::Equal),
        "LessThan" => (false, Order::Less),
        "LessThanEquals" => (false, Order::LessOrEqual),
        "GreaterThan" => (false, Order::Greater),
        "GreaterThanEquals" => (false, Order::GreaterOrEqual),
        _ => return None,
    })
}

impl Order {
    fn holds<T: PartialOrd>(self, found: &T, wanted: &T) -> bool {
        match self {
            Order::Equal => found == wanted,
            Order::Less => found < wanted,
            Order::LessOrEqual => found <= wanted,
            Order::Greater => found > wanted,
            Order::GreaterOrEqual => found >= wanted,
        }
    }
}

impl Values {
    fn matches(&self, found: &str, facts: &FactCache<'_>) -> bool {
        match self {
            Values::Patterns { patterns, ignores_case } => {
                patterns.iter().any(|pattern| pattern.matches(found, *ignores_case, facts))
            }
            Values::Arns(arns) => {
                let parts: Vec<&str> = found.splitn(ARN_PARTS, ':').collect();
                let fits = |arn: &Vec<Pattern>| {
                    arn.len() == parts.len()
                        && arn.iter().zip(&parts).all(|(part, found)| part.matches(found, false, facts))
                };
                arns.iter().any(fits)
            }
            Values::Numbers(order, wanted) => {
                number(found).is_some_and(|found| wanted.iter().any(|wanted| order.holds(&found, wanted)))
            }
            Values::Dates(order, wanted) => {
                date(found).is_some_and(|found| wanted.iter().any(|wanted| order.holds(&found, wanted)))
            }
            Values::Bools(wanted) => bool_of(found).is_some_and(|found| wanted.contains(&found)),
            Values::Networks(networks) => {
                found.parse().is_ok_and(|found| networks.iter().any(|network| network.contains(found)))
            }
        }
    }
}

/// An ARN has six parts, which patterns match one by one.
const ARN_PARTS: usize = 6;

/// The parts of an ARN in a policy. A colon in a variable separates nothing.
fn arn_parts(text: &str, variables: bool) -> Vec<&str> {
    let (mut parts, mut start, mut in_variable) = (Vec::new(), 0, false);
    for (index, c) in text.char_indices() {
        match c {
            '{' if variables && text[..index].ends_with('$') => in_variable = true,
            '}' => in_variable = false,
            ':' if !in_variable && parts.len() + 1 < ARN_PARTS => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn arns(values: &[String], variables: bool) -> Result<Vec<Vec<Pattern>>, String> {
    let parse = |text: &String| {
        let parts = arn_parts(text, variables);
        if parts.len() < ARN_PARTS {
            return Err(format!("'{text}' is not an ARN"));
        }
        parts.into_iter().map(|part| Pattern::parse(part, variables)).collect()
    };
    values.iter().map(parse).collect()
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Parses a date, a date with a time, or seconds since 1970.
fn date(text: &str) -> Option<OffsetDateTime> {
    if let Ok(seconds) = text.parse::<i64>() {
        return OffsetDateTime::from_unix_timestamp(seconds).ok();
    }
    let full = if text.contains('T') { text.to_owned() } else { format!("{text}T00:00:00Z") };
    OffsetDateTime::parse(&full, &Rfc3339).ok()
}

fn bool_of(text: &str) -> Option<bool> {
    match text {
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

fn single_bool(values: &[String]) -> Option<bool> {
    if let [value] = values { bool_of(value) } else { None }
}

impl Network {
    fn parse(text: &str) -> Result<Network, String> {
        let invalid = || format!("'{text}' is not a range of addresses such as 192.0.2.0/24");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u32>().map_err(|_| invalid())?)),
            None => (text, None),
        };
        let (address, bits) = address_bits(address.parse().map_err(|_| invalid())?);
        let prefix_bits = prefix.unwrap_or(bits);
        if prefix_bits > bits {
            return Err(invalid());
        }
        Ok(Network { address, prefix_bits, is_v6: bits == 128 })
    }

    fn contains(&self, found: IpAddr) -> bool {
        let (found, bits) = address_bits(found);
        let shift = bits - self.prefix_bits.min(bits);
        let differs = found ^ self.address;
        (bits == 128) == self.is_v6 && differs.checked_shr(shift).unwrap_or(0) == 0
    }
}

/// An address as a number, and its length. A version 4 address in version 6 form counts as version
/// 4.
fn address_bits(address: IpAddr) -> (u128, u32) {
    match address.to_canonical() {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}
