//! Parses calls of functions.

use super::super::lexer::Token;
use super::super::query::{Aggregate, AggregateKind, Expr, Function, Side, Type};
use super::super::timestamp::DatePart;
use super::super::value::excerpt;
use super::{Failure, Parsed, Parser, Tree, deeper, failure};

impl Parser {
    /// A function's arguments, after its opening parenthesis.
    pub(super) fn call(&mut self, depth: usize, name: &str) -> Parsed<Tree> {
        let aggregate = match name {
            "COUNT" => Some(AggregateKind::Count),
            "SUM" => Some(AggregateKind::Sum),
            "MIN" => Some(AggregateKind::Min),
            "MAX" => Some(AggregateKind::Max),
            "AVG" => Some(AggregateKind::Avg),
            _ => None,
        };
        if let Some(kind) = aggregate {
            return self.aggregate(depth, kind);
        }
        if name == "TRIM" {
            return self.trim(depth);
        }
        if name == "SUBSTRING" {
            return self.substring(depth);
        }
        let (mut arguments, mut levels) = (Vec::new(), 0);
        if name == "EXTRACT" {
            let part =
                self.date_part("YEAR, MONTH, DAY, HOUR, MINUTE, SECOND, TIMEZONE_HOUR or TIMEZONE_MINUTE")?;
            self.expect_keyword("FROM")?;
            let (time, levels) = self.expr(depth)?;
            self.expect_symbol(")", "ParseExpectedRightParenBuiltinFunctionCall")?;
            return Ok((Expr::Call(Function::Extract(part), vec![time]), deeper(levels)?));
        }
        if name == "TO_TIMESTAMP" {
            let (text, levels) = self.expr(depth)?;
            self.expect_symbol(")", "ParseExpectedRightParenBuiltinFunctionCall")?;
            return Ok((Expr::Cast(Box::new(text), Type::Timestamp), deeper(levels)?));
        }
        let (function, counts) = match name {
            "DATE_ADD" | "DATE_DIFF" => {
                let part = self.date_part("YEAR, MONTH, DAY, HOUR, MINUTE or SECOND")?;
                self.expect_symbol(",", "ParseExpectedArgumentDelimiter")?;
                if part.is_of_offset() {
                    return failure(
                        "ParseExpectedDatePart",
                        format!("{name} does not count parts of an offset"),
                    );
                }
                (if name == "DATE_ADD" { Function::DateAdd(part) } else { Function::DateDiff(part) }, 2..=2)
            }
            "TO_STRING" => (Function::ToString, 2..=2),
            "UTCNOW" => (Function::UtcNow, 0..=0),
            "LOWER" => (Function::Lower, 1..=1),
            "UPPER" => (Function::Upper, 1..=1),
            "CHAR_LENGTH" | "CHARACTER_LENGTH" => (Function::CharLength, 1..=1),
            "COALESCE" => (Function::Coalesce, 1..=usize::MAX),
            "NULLIF" => (Function::NullIf, 2..=2),
            _ => {
                let message = format!("there is no function {}", excerpt(name));
                return failure("UnsupportedFunction", message);
            }
        };
        if !matches!(self.peek(), Some(Token::Symbol(")"))) {
            loop {
                let (argument, argument_levels) = self.expr(depth)?;
                levels = levels.max(argument_levels);
                arguments.push(argument);
                if !self.symbol(",") {
                    break;
                }
            }
        }
        self.expect_symbol(")", "ParseExpectedRightParenBuiltinFunctionCall")?;
        if !counts.contains(&arguments.len()) {
            let message = format!("{name} cannot have {} arguments", arguments.len());
            return failure("EvaluatorInvalidArguments", message);
        }
        Ok((Expr::Call(function, arguments), deeper(levels)?))
    }

    /// Parses a part of a timestamp. `parts` names those that the call has, for the error.
    fn date_part(&mut self, parts: &str) -> Parsed<DatePart> {
        let part = match self.peek() {
            Some(Token::Word(word)) => DatePart::of_name(&word.to_ascii_uppercase()),
            _ => None,
        };
        let message = || format!("expected {parts}, found {}", self.found());
        let part = part.ok_or_else(|| Failure::new("ParseExpectedDatePart", message()))?;
        self.at += 1;
        Ok(part)
    }

    fn aggregate(&mut self, depth: usize, kind: AggregateKind) -> Parsed<Tree> {
        if self.in_aggregate {
            return failure("UnsupportedSqlStructure", "an aggregate cannot contain another one");
        }
        let argument = if self.symbol("*") {
            if kind != AggregateKind::Count {
                return failure("ParseUnsupportedCallWithStar", "only COUNT takes '*'");
            }
            None
        } else {
            self.in_aggregate = true;
            let argument = self.expr(depth)?.0;
            self.in_aggregate = false;
            Some(argument)
        };
        if matches!(self.peek(), Some(Token::Symbol(","))) {
            return failure("ParseNonUnaryAgregateFunctionCall", "an aggregate has one argument");
        }
        self.expect_symbol(")", "ParseExpectedRightParenBuiltinFunctionCall")?;
        if self.aggregates.len() >= 1_024 {
            return failure("ParseUnsupportedSyntax", "the query has more than 1,024 aggregates");
        }
        self.aggregates.push(Aggregate { kind, argument });
        Ok((Expr::Aggregate(self.aggregates.len() - 1), 1))
    }

    /// `TRIM([[LEADING | TRAILING | BOTH] [characters] FROM] text)`
    fn trim(&mut self, depth: usize) -> Parsed<Tree> {
        let side = match () {
            () if self.keyword("LEADING") => Some(Side::Leading),
            () if self.keyword("TRAILING") => Some(Side::Trailing),
            () if self.keyword("BOTH") => Some(Side::Both),
            () => None,
        };
        let (mut arguments, mut levels) = (Vec::new(), 0);
        let first = if self.is_keyword(self.at, "FROM") { None } else { Some(self.expr(depth)?) };
        if self.keyword("FROM") {
            let text = self.expr(depth)?;
            levels = levels.max(text.1);
            arguments.push(text.0);
        } else if side.is_some() {
            return failure("ParseExpectedKeyword", format!("expected FROM in TRIM, found {}", self.found()));
        }
        if let Some((characters, first_levels)) = first {
            levels = levels.max(first_levels);
            arguments.push(characters);
        }
        self.expect_symbol(")", "ParseExpectedRightParenBuiltinFunctionCall")?;
        Ok((Expr::Call(Function::Trim(side.unwrap_or(Side::Both)), arguments), deeper(levels)?))
    }

    /// `SUBSTRING(text, start[, length])` or `SUBSTRING(text FROM start [FOR length])`
    fn substring(&mut self, depth: usize) -> Parsed<Tree> {
        let (text, mut levels) = self.expr(depth)?;
        let mut arguments = vec![text];
        let with_words = self.keyword("FROM");
        if !with_words {
            self.expect_symbol(",", "ParseExpectedArgumentDelimiter")?;
        }
        for index in 0..2 {
            let (argument, argument_levels) = self.expr(depth)?;
            levels = levels.max(argument_levels);
            arguments.push(argument);
            let more = index == 0 && if with_words { self.keyword("FOR") } else { self.symbol(",") };
            if !more {
                break;
            }
        }
        self.expect_symbol(")", "ParseExpectedRightParenBuiltinFunctionCall")?;
        Ok((Expr::Call(Function::Substring, arguments), deeper(levels)?))
    }
}
