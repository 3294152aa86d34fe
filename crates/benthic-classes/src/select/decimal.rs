//! Exact decimal numbers of up to 38 digits, as DECIMAL of S3 Select has.
//!
//! A number is an integer and the count of its digits after the point. Sums, differences and
//! products are exact if they have at most 38 digits; otherwise digits after the point are rounded
//! away, half away from zero. A quotient has up to 38 digits. The crates for decimals in the
//! workspace are not used: `bigdecimal` has no limit of digits, and Arrow's kernels need arrays.

use super::query::Operator;
use std::cmp::Ordering;

/// Digits of a number.
pub(super) const DIGITS_MAX: u32 = 38;
const LIMIT: u128 = 10_u128.pow(DIGITS_MAX);

/// `unscaled / 10^scale`, with at most 38 digits, and at most 38 of them after the point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decimal {
    unscaled: i128,
    scale: u32,
}

impl Decimal {
    /// `None` if the number has more than 38 digits.
    pub fn new(unscaled: i128, scale: u32) -> Option<Decimal> {
        (unscaled.unsigned_abs() < LIMIT && scale <= DIGITS_MAX).then_some(Decimal { unscaled, scale })
    }

    /// Reads digits with a point, and maybe with an exponent. `None` for other texts, and for more
    /// than 38 digits.
    pub fn parse(text: &str) -> Option<Decimal> {
        let (digits, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (is_negative, digits) = match digits.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, digits.strip_prefix('+').unwrap_or(digits)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut unscaled = 0_u128;
        for digit in whole.bytes().chain(fraction.bytes()) {
            let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
            unscaled = unscaled.checked_mul(10)?.checked_add(digit.into()).filter(|value| *value < LIMIT)?;
        }
        let unscaled = i128::try_from(unscaled).ok()?;
        let mut scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        let mut number = if is_negative { -unscaled } else { unscaled };
        while number % 10 == 0 && scale > DIGITS_MAX as i32 && number != 0 {
            number /= 10;
            scale -= 1;
        }
        if number == 0 {
            scale = scale.clamp(0, DIGITS_MAX as i32);
        }
        while scale < 0 {
            number = number.checked_mul(10).filter(|number| number.unsigned_abs() < LIMIT)?;
            scale += 1;
        }
        Decimal::new(number, u32::try_from(scale).ok()?)
    }

    pub fn text(self) -> String {
        let sign = if self.unscaled < 0 { "-" } else { "" };
        let (digits, scale) = (self.unscaled.unsigned_abs(), self.scale);
        if scale == 0 {
            return format!("{sign}{digits}");
        }
        let one = 10_u128.pow(scale);
        format!("{sign}{}.{:0width$}", digits / one, digits % one, width = scale as usize)
    }

    /// The nearest binary number.
    pub fn float(self) -> f64 {
        // Both are exact, so the quotient is rounded once.
        if self.unscaled.unsigned_abs() < 1 << 53 && self.scale <= 22 {
            return self.unscaled as f64 / 10_f64.powi(self.scale as i32);
        }
        self.text().parse().unwrap_or(f64::NAN)
    }

    /// The number without its decimals.
    pub fn truncate(self) -> i128 {
        self.unscaled / 10_i128.pow(self.scale)
    }

    pub fn is_integer(self) -> bool {
        self.unscaled % 10_i128.pow(self.scale) == 0
    }

    /// The number with this scale, rounded. `None` if it has more than 38 digits then.
    pub fn rescale(self, scale: u32) -> Option<Decimal> {
        if scale >= self.scale {
            let factor = 10_i128.checked_pow(scale - self.scale)?;
            return Decimal::new(self.unscaled.checked_mul(factor)?, scale);
        }
        let dropped = 10_i128.checked_pow(self.scale - scale)?;
        let rest = (self.unscaled % dropped).unsigned_abs();
        let up = if rest >= dropped.unsigned_abs().div_ceil(2) { self.unscaled.signum() } else { 0 };
        Decimal::new(self.unscaled / dropped + up, scale)
    }

    /// As DECIMAL(precision, scale). `None` if the number has too many digits before the point.
    pub fn fit(self, precision: u32, scale: u32) -> Option<Decimal> {
        self.rescale(scale).filter(|number| number.unscaled.unsigned_abs() < 10_u128.pow(precision))
    }

    pub fn compare(self, other: Decimal) -> Ordering {
        // The fractions have 38 digits then, and no digit before the point.
        let fraction = |number: Decimal| {
            number.unscaled % 10_i128.pow(number.scale) * 10_i128.pow(DIGITS_MAX - number.scale)
        };
        self.truncate().cmp(&other.truncate()).then_with(|| fraction(self).cmp(&fraction(other)))
    }

    /// The result of an operation; `None` if it has more than 38 digits before the point. The
    /// caller has checked that it is no division by zero.
    pub fn apply(self, operator: Operator, other: Decimal) -> Option<Decimal> {
        match operator {
            Operator::Add => self.sum(other.unscaled, other.scale),
            Operator::Subtract => self.sum(-other.unscaled, other.scale),
            Operator::Multiply => self.product(other),
            Operator::Divide => self.quotient(other),
            Operator::Remainder => {
                let scale = self.scale.max(other.scale);
                let (left, right) = (self.rescale(scale)?, other.rescale(scale)?);
                Decimal::new(left.unscaled % right.unscaled, scale)
            }
        }
    }

    fn sum(self, unscaled: i128, scale: u32) -> Option<Decimal> {
        let other = Decimal { unscaled, scale };
        (0..=self.scale.max(scale)).rev().find_map(|scale| {
            let (left, right) = (self.rescale(scale)?, other.rescale(scale)?);
            Decimal::new(left.unscaled.checked_add(right.unscaled)?, scale)
        })
    }

    fn product(self, other: Decimal) -> Option<Decimal> {
        let is_negative = (self.unscaled < 0) != (other.unscaled < 0);
        let mut scale = self.scale + other.scale;
        let mut product = wide_product(self.unscaled.unsigned_abs(), other.unscaled.unsigned_abs());
        // The last digit that was removed decides the rounding.
        let mut last = 0;
        let digits = loop {
            let low = u128::from(product[0]) | u128::from(product[1]) << 64;
            if product[2..] == [0, 0] && low < LIMIT && scale <= DIGITS_MAX {
                // Rounding up may need one digit more.
                match low + u128::from(last >= 5) {
                    LIMIT => {}
                    rounded => break rounded,
                }
            }
            scale = scale.checked_sub(1)?;
            last = divide_by_ten(&mut product);
        };
        let digits = i128::try_from(digits).ok()?;
        Decimal::new(if is_negative { -digits } else { digits }, scale)
    }

    fn quotient(self, other: Decimal) -> Option<Decimal> {
        let is_negative = (self.unscaled < 0) != (other.unscaled < 0);
        let divisor = other.unscaled.unsigned_abs();
        let mut digits = self.unscaled.unsigned_abs() / divisor;
        let mut rest = self.unscaled.unsigned_abs() % divisor;
        let mut scale = self.scale as i32 - other.scale as i32;
        while scale < 0 || (rest != 0 && scale < DIGITS_MAX as i32) {
            if digits >= LIMIT / 10 {
                break;
            }
            let (digit, next) = next_digit(rest, divisor);
            digits = digits * 10 + digit;
            rest = next;
            scale += 1;
        }
        if rest != 0 && next_digit(rest, divisor).0 >= 5 {
            digits += 1;
        }
        let digits = i128::try_from(digits).ok()?;
        let number = if is_negative { -digits } else { digits };
        // Rounding up may have made 10^38 of 38 nines.
        let scale = u32::try_from(scale).ok()?;
        Decimal::new(number, scale).or_else(|| Decimal::new(number / 10, scale.checked_sub(1)?))
    }
}

/// The next digit of `rest / divisor`, and the rest after it. Ten times the rest may have more than
/// 128 bits, so it is added ten times.
fn next_digit(rest: u128, divisor: u128) -> (u128, u128) {
    let (mut digit, mut sum) = (0, 0);
    for _ in 0..10 {
        match sum >= divisor - rest {
            true => {
                sum -= divisor - rest;
                digit += 1;
            }
            false => sum += rest,
        }
    }
    (digit, sum)
}

/// The product in four parts of 64 bits, the lowest first.
fn wide_product(left: u128, right: u128) -> [u64; 4] {
    let halves = |value: u128| [value as u64, (value >> 64) as u64];
    let mut product = [0_u64; 4];
    for (at, left) in halves(left).into_iter().enumerate() {
        let mut carry = 0_u128;
        for (more, right) in halves(right).into_iter().enumerate() {
            let sum = u128::from(left) * u128::from(right) + u128::from(product[at + more]) + carry;
            product[at + more] = sum as u64;
            carry = sum >> 64;
        }
        product[at + 2] = carry as u64;
    }
    product
}

/// Divides by ten, and returns the last digit.
fn divide_by_ten(number: &mut [u64; 4]) -> u128 {
    let mut rest = 0_u128;
    for part in number.iter_mut().rev() {
        let value = rest << 64 | u128::from(*part);
        *part = (value / 10) as u64;
        rest = value % 10;
    }
    rest
}

#[cfg(test)]
#[path = "decimal_tests.rs"]
mod tests;
