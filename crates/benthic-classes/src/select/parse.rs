//! Parses S3's subset of SQL.
//!
//! The workspace has `sqlparser` (DataFusion uses it), but that crate does not know paths such as
//! `S3Object[*].rules[*]`, and its trees have no limit of depth: to drop the tree of a long chain
//! of operators overflows the stack, and an OSD would end. Here each tree has at most [`DEPTH_MAX`]
//! levels.

mod calls;

use super::decimal::DIGITS_MAX;
use super::failure::Failure;
use super::lexer::{Token, tokens};
use super::query::{
    Aggregate, Case, Comparison, Expr, FromStep, Item, Items, Name, Operator, Path, Query, Step, Type,
};
use super::timestamp::Timestamp;
use super::value::{Value, parse_number};
use std::collections::HashMap;

/// Limit of an expression, as on AWS.
pub const EXPRESSION_BYTES_MAX: usize = 256 * 1024;
/// Levels of a tree of operators.
pub(super) const DEPTH_MAX: usize = 64;
/// Words that cannot be the name of a column without quotes.
const RESERVED: [&str; 21] = [
    "SELECT", "FROM", "WHERE", "LIMIT", "AND", "OR", "NOT", "IN", "IS", "BETWEEN", "LIKE", "AS", "CASE",
    "WHEN", "THEN", "ELSE", "END", "NULL", "MISSING", "CAST", "ESCAPE",
];

type Parsed<T> = Result<T, Failure>;

fn failure<T>(code: &'static str, message: impl Into<String>) -> Parsed<T> {
    Err(Failure::new(code, message))
}

/// Parses a query.
pub(super) fn parse(expression: &str) -> Parsed<Query> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return failure("ExpressionTooLong", "the expression is longer than 256 KiB");
    }
    let mut parser = Parser {
        tokens: tokens(expression)?,
        at: 0,
        columns: Vec::new(),
        known_columns: HashMap::new(),
        aggregates: Vec::new(),
        in_aggregate: false,
    };
    let query = parser.query()?;
    check_aggregates(&query)?;
    Ok(query)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    columns: Vec<Path>,
    /// The index of each of `columns`.
    known_columns: HashMap<Path, usize>,
    aggregates: Vec<Aggregate>,
    in_aggregate: bool,
}

/// An expression and the number of its levels.
type Tree = (Expr, usize);

fn deeper(depth: usize) -> Parsed<usize> {
    if depth >= DEPTH_MAX {
        return failure("ParseUnsupportedSyntax", "the expression has more than 64 nested operators");
    }
    Ok(depth + 1)
}

fn box_operands(parts: (Tree, Tree)) -> Parsed<(Box<(Expr, Expr)>, usize)> {
    let ((left, left_depth), (right, right_depth)) = parts;
    Ok((Box::new((left, right)), deeper(left_depth.max(right_depth))?))
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn is_keyword(&self, at: usize, keyword: &str) -> bool {
        matches!(self.tokens.get(at), Some(Token::Word(word)) if word.eq_ignore_ascii_case(keyword))
    }

    fn keyword(&mut self, keyword: &str) -> bool {
        let found = self.is_keyword(self.at, keyword);
        self.at += usize::from(found);
        found
    }

    fn expect_keyword(&mut self, keyword: &str) -> Parsed<()> {
        if self.keyword(keyword) {
            return Ok(());
        }
        failure("ParseExpectedKeyword", format!("expected {keyword}, found {}", self.found()))
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Symbol(found)) if *found == symbol);
        self.at += usize::from(found);
        found
    }

    fn expect_symbol(&mut self, symbol: &str, code: &'static str) -> Parsed<()> {
        if self.symbol(symbol) {
            return Ok(());
        }
        failure(code, format!("expected '{symbol}', found {}", self.found()))
    }

    /// The next token, for messages.
    fn found(&self) -> String {
        match self.peek() {
            None => "the end".to_owned(),
            Some(Token::Word(text) | Token::Number(text)) => format!("'{}'", super::value::excerpt(text)),
            Some(Token::Quoted(text)) => format!("\"{}\"", super::value::excerpt(text)),
            Some(Token::Text(text)) => format!("the text '{}'", super::value::excerpt(text)),
            Some(Token::Timestamp(text)) => format!("the timestamp `{}`", super::value::excerpt(text)),
            Some(Token::Symbol(symbol)) => format!("'{symbol}'"),
        }
    }

    /// A name that is not a keyword.
    fn name(&mut self) -> Option<Name> {
        let name = match self.peek()? {
            Token::Quoted(text) => Name { text: text.clone(), quoted: true },
            Token::Word(word) if !RESERVED.iter().any(|reserved| word.eq_ignore_ascii_case(reserved)) => {
                Name { text: word.clone(), quoted: false }
            }
            _ => return None,
        };
        self.at += 1;
        Some(name)
    }

    fn query(&mut self) -> Parsed<Query> {
        self.expect_keyword("SELECT")?;
        if self.is_keyword(self.at, "FROM") {
            return failure("ParseEmptySelect", "the list after SELECT is empty");
        }
        let items = self.items()?;
        if !self.keyword("FROM") {
            let message = format!("expected FROM after the list of SELECT, found {}", self.found());
            return failure("ParseSelectMissingFrom", message);
        }
        let (from, alias) = self.from()?;
        let condition = if self.keyword("WHERE") { Some(self.expr(0)?.0) } else { None };
        let limit = if self.keyword("LIMIT") { Some(self.limit()?) } else { None };
        let _ = self.symbol(";");
        if let Some(Token::Word(word)) = self.peek() {
            const NOT_HERE: [&str; 9] =
                ["GROUP", "ORDER", "HAVING", "JOIN", "INNER", "LEFT", "UNION", "OFFSET", "WINDOW"];
            if NOT_HERE.iter().any(|other| word.eq_ignore_ascii_case(other)) {
                let message = format!("{} is not part of S3 Select", word.to_ascii_uppercase());
                return failure("UnsupportedSqlStructure", message);
            }
        }
        if self.peek().is_some() {
            return failure("ParseUnexpectedToken", format!("unexpected {} after the query", self.found()));
        }
        let items = match items {
            ParsedItems::All(None) => Items::All,
            ParsedItems::All(Some(table)) if is_table(&table, &alias) => Items::All,
            ParsedItems::All(Some(table)) => {
                let message = format!("'{}' is not the table's alias", super::value::excerpt(&table.text));
                return failure("InvalidTableAlias", message);
            }
            ParsedItems::List(list) => Items::List(list),
        };
        // The aliases come after the columns, so the columns lose them here.
        let mut columns = std::mem::take(&mut self.columns);
        for path in &mut columns {
            let is_alias = matches!(path.first(), Some(Step::Key(name)) if is_table(name, &alias));
            if is_alias {
                path.remove(0);
            }
        }
        Ok(Query { items, from, condition, limit, columns, aggregates: std::mem::take(&mut self.aggregates) })
    }

    fn items(&mut self) -> Parsed<ParsedItems> {
        let alone = "'*' must be alone in the list after SELECT";
        if self.symbol("*") {
            if matches!(self.peek(), Some(Token::Symbol(","))) {
                return failure("ParseAsteriskIsNotAloneInSelectList", alone);
            }
            return Ok(ParsedItems::All(None));
        }
        // `alias.*`
        let is_star = matches!(
            self.tokens.get(self.at..self.at + 3),
            Some([Token::Word(_) | Token::Quoted(_), Token::Symbol("."), Token::Symbol("*")])
        );
        if is_star && let Some(table) = self.name() {
            self.at += 2;
            if matches!(self.peek(), Some(Token::Symbol(","))) {
                return failure("ParseAsteriskIsNotAloneInSelectList", alone);
            }
            return Ok(ParsedItems::All(Some(table)));
        }
        let mut list = Vec::new();
        loop {
            if matches!(self.peek(), Some(Token::Symbol("*"))) {
                return failure("ParseAsteriskIsNotAloneInSelectList", alone);
            }
            let (expr, _) = self.expr(0)?;
            let given = if self.keyword("AS") {
                let name = self.name();
                let message = format!("expected a name after AS, found {}", self.found());
                Some(name.ok_or_else(|| Failure::new("ParseExpectedIdentForAlias", message))?)
            } else {
                self.name()
            };
            let name = match given {
                Some(name) => name.text,
                None => self.default_name(&expr, list.len() + 1),
            };
            list.push(Item { expr, name });
            if !self.symbol(",") {
                return Ok(ParsedItems::List(list));
            }
        }
    }

    fn default_name(&self, expr: &Expr, position: usize) -> String {
        if let Expr::Column(index) = expr
            && let Some(Step::Key(name)) = self.columns[*index].last()
        {
            return name.text.clone();
        }
        format!("_{position}")
    }

    fn from(&mut self) -> Parsed<(Vec<FromStep>, Option<Name>)> {
        let table = self.name();
        if !table.as_ref().is_some_and(|name| name.text.eq_ignore_ascii_case("S3Object")) {
            return failure("InvalidDataSource", "the data after FROM must be S3Object");
        }
        let mut steps = Vec::new();
        loop {
            if self.symbol(".") {
                let name = self.any_name();
                let message = format!("expected a key after '.', found {}", self.found());
                steps.push(FromStep::Key(
                    name.ok_or_else(|| Failure::new("ParseInvalidPathComponent", message))?,
                ));
            } else if self.symbol("[") {
                steps.push(if self.symbol("*") {
                    FromStep::Each
                } else {
                    self.bracket(FromStep::Key, FromStep::Index)?
                });
                self.expect_symbol("]", "ParseExpectedTokenType")?;
            } else {
                break;
            }
            if steps.len() > DEPTH_MAX {
                return failure("ParseInvalidPathComponent", "the path after FROM is too long");
            }
        }
        // The top-level values of an object are an array, which `[*]` goes through.
        if !steps.is_empty() && steps.remove(0) != FromStep::Each {
            return failure("ParseInvalidPathComponent", "a path after FROM must begin with S3Object[*]");
        }
        let alias = if self.keyword("AS") {
            let message = format!("expected a name after AS, found {}", self.found());
            Some(self.name().ok_or_else(|| Failure::new("ParseExpectedIdentForAlias", message))?)
        } else if matches!(self.peek(), Some(Token::Word(word)) if
            ["GROUP", "ORDER", "HAVING", "JOIN", "INNER", "LEFT", "UNION", "OFFSET"].iter().any(|other| word.eq_ignore_ascii_case(other)))
        {
            None
        } else {
            self.name()
        };
        if matches!(self.peek(), Some(Token::Symbol(","))) || self.is_keyword(self.at, "JOIN") {
            return failure("ParseMalformedJoin", "a query has one source; joins are not part of S3 Select");
        }
        let implied = || match steps.last() {
            Some(FromStep::Key(name)) => Some(name.clone()),
            _ => None,
        };
        let alias = alias.or_else(implied);
        Ok((steps, alias))
    }

    /// A name after a dot, which may be a keyword.
    fn any_name(&mut self) -> Option<Name> {
        let name = match self.peek()? {
            Token::Quoted(text) => Name { text: text.clone(), quoted: true },
            Token::Word(word) => Name { text: word.clone(), quoted: false },
            _ => return None,
        };
        self.at += 1;
        Some(name)
    }

    /// Parses the content of brackets: an index or a key.
    fn bracket<T>(&mut self, key: impl Fn(Name) -> T, index: impl Fn(usize) -> T) -> Parsed<T> {
        let step = match self.peek() {
            Some(Token::Text(text)) => key(Name { text: text.clone(), quoted: true }),
            Some(Token::Number(number)) => match number.parse() {
                Ok(number) => index(number),
                Err(_) => return failure("ParseInvalidPathComponent", format!("{number} is not an index")),
            },
            Some(Token::Symbol("*")) => {
                let message = "'[*]' can be only in the path after FROM";
                return failure("ParseInvalidContextForWildcardInSelectList", message);
            }
            _ => {
                let message = format!("expected an index or a text in brackets, found {}", self.found());
                return failure("ParseInvalidPathComponent", message);
            }
        };
        self.at += 1;
        Ok(step)
    }

    fn limit(&mut self) -> Parsed<u64> {
        if self.symbol("-") {
            return failure("EvaluatorNegativeLimit", "LIMIT must not be negative");
        }
        let limit = if let Some(Token::Number(number)) = self.peek() { number.parse().ok() } else { None };
        let message = || format!("LIMIT needs an integer, found {}", self.found());
        let limit = limit.ok_or_else(|| Failure::new("ParseExpectedNumber", message()))?;
        self.at += 1;
        Ok(limit)
    }

    /// An expression, in a place that is nested in `depth` others.
    fn expr(&mut self, depth: usize) -> Parsed<Tree> {
        let depth = deeper(depth)?;
        self.list_of("OR", Expr::Or, |parser| {
            parser.list_of("AND", Expr::And, |parser| parser.negation(depth))
        })
    }

    /// Operands of OR or AND.
    fn list_of(
        &mut self,
        keyword: &str,
        list: fn(Vec<Expr>) -> Expr,
        mut operand: impl FnMut(&mut Parser) -> Parsed<Tree>,
    ) -> Parsed<Tree> {
        let (first, mut levels) = operand(self)?;
        if !self.is_keyword(self.at, keyword) {
            return Ok((first, levels));
        }
        let mut operands = vec![first];
        while self.keyword(keyword) {
            let (next, next_levels) = operand(self)?;
            levels = levels.max(next_levels);
            operands.push(next);
        }
        Ok((list(operands), deeper(levels)?))
    }

    fn negation(&mut self, depth: usize) -> Parsed<Tree> {
        if !self.keyword("NOT") {
            return self.comparison(depth);
        }
        let (operand, levels) = self.negation(deeper(depth)?)?;
        Ok((Expr::Not(Box::new(operand)), deeper(levels)?))
    }

    fn comparison(&mut self, depth: usize) -> Parsed<Tree> {
        let mut left = self.sum(depth)?;
        loop {
            const COMPARISONS: [(&str, Comparison); 7] = [
                ("=", Comparison::Equal),
                ("<>", Comparison::NotEqual),
                ("!=", Comparison::NotEqual),
                ("<=", Comparison::LessOrEqual),
                (">=", Comparison::GreaterOrEqual),
                ("<", Comparison::Less),
                (">", Comparison::Greater),
            ];
            let found = COMPARISONS.into_iter().find(|(symbol, _)| self.symbol(symbol));
            if let Some((_, comparison)) = found {
                let right = self.sum(depth)?;
                let (operands, levels) = box_operands((left, right))?;
                left = (Expr::Compare(comparison, operands), levels);
                continue;
            }
            let is_is = self.keyword("IS");
            let is_negated =
                if is_is || self.is_predicate(self.at + 1) { self.keyword("NOT") } else { false };
            let (predicate, levels) = if is_is {
                let (operand, levels) = left;
                let predicate = match () {
                    () if self.keyword("NULL") => Expr::IsNull(Box::new(operand)),
                    () if self.keyword("MISSING") => Expr::IsMissing(Box::new(operand)),
                    () => {
                        let message = format!("expected NULL or MISSING after IS, found {}", self.found());
                        return failure("ParseExpectedKeyword", message);
                    }
                };
                (predicate, deeper(levels)?)
            } else if self.keyword("IN") {
                self.within(depth, left)?
            } else if self.keyword("BETWEEN") {
                let low = self.sum(depth)?;
                self.expect_keyword("AND")?;
                let high = self.sum(depth)?;
                let levels = deeper(left.1.max(low.1).max(high.1))?;
                (Expr::Between(Box::new((left.0, low.0, high.0))), levels)
            } else if self.keyword("LIKE") {
                let pattern = self.sum(depth)?;
                let escape = if self.keyword("ESCAPE") { Some(self.sum(depth)?) } else { None };
                let levels = left.1.max(pattern.1).max(escape.as_ref().map_or(0, |(_, levels)| *levels));
                (Expr::Like(Box::new((left.0, pattern.0, escape.map(|(escape, _)| escape)))), deeper(levels)?)
            } else {
                return Ok(left);
            };
            left = if is_negated {
                (Expr::Not(Box::new(predicate)), deeper(levels)?)
            } else {
                (predicate, levels)
            };
        }
    }

    /// Whether a predicate that NOT can precede begins at a token.
    fn is_predicate(&self, at: usize) -> bool {
        ["IN", "BETWEEN", "LIKE"].iter().any(|keyword| self.is_keyword(at, keyword))
    }

    fn within(&mut self, depth: usize, (left, mut levels): Tree) -> Parsed<Tree> {
        self.expect_symbol("(", "ParseExpectedLeftParenValueConstructor")?;
        let mut list = Vec::new();
        loop {
            let (value, value_levels) = self.expr(depth)?;
            levels = levels.max(value_levels);
            list.push(value);
            if !self.symbol(",") {
                break;
            }
        }
        self.expect_symbol(")", "ParseExpectedTokenType")?;
        Ok((Expr::In(Box::new(left), list), deeper(levels)?))
    }

    fn sum(&mut self, depth: usize) -> Parsed<Tree> {
        let mut left = self.product(depth)?;
        loop {
            if self.symbol("||") {
                let right = self.product(depth)?;
                let levels = left.1.max(deeper(right.1)?);
                left = match left {
                    (Expr::Concat(mut parts), _) => {
                        parts.push(right.0);
                        (Expr::Concat(parts), levels)
                    }
                    (first, first_levels) => {
                        (Expr::Concat(vec![first, right.0]), levels.max(deeper(first_levels)?))
                    }
                };
                continue;
            }
            let operator = match () {
                () if self.symbol("+") => Operator::Add,
                () if self.symbol("-") => Operator::Subtract,
                () => return Ok(left),
            };
            let (operands, levels) = box_operands((left, self.product(depth)?))?;
            left = (Expr::Arithmetic(operator, operands), levels);
        }
    }

    fn product(&mut self, depth: usize) -> Parsed<Tree> {
        let mut left = self.unary(depth)?;
        loop {
            let operator = match () {
                () if self.symbol("*") => Operator::Multiply,
                () if self.symbol("/") => Operator::Divide,
                () if self.symbol("%") => Operator::Remainder,
                () => return Ok(left),
            };
            let (operands, levels) = box_operands((left, self.unary(depth)?))?;
            left = (Expr::Arithmetic(operator, operands), levels);
        }
    }

    fn unary(&mut self, depth: usize) -> Parsed<Tree> {
        if self.symbol("+") {
            return self.unary(deeper(depth)?);
        }
        if self.symbol("-") {
            let (operand, levels) = self.unary(deeper(depth)?)?;
            return Ok((Expr::Negate(Box::new(operand)), deeper(levels)?));
        }
        self.primary(depth)
    }

    fn primary(&mut self, depth: usize) -> Parsed<Tree> {
        if self.symbol("(") {
            let inner = self.expr(depth)?;
            self.expect_symbol(")", "ParseExpectedTokenType")?;
            return Ok(inner);
        }
        let literal = match self.peek() {
            Some(Token::Text(text)) => Some(Value::Text(text.clone().into())),
            Some(Token::Timestamp(text)) => match Timestamp::parse(text) {
                Some(time) => Some(Value::Time(time)),
                None => return failure("LexerInvalidLiteral", format!("{} is not valid", self.found())),
            },
            Some(Token::Number(text)) => match parse_number(text) {
                Some(number) => Some(number.value()),
                None => return failure("LexerInvalidLiteral", format!("{} is too large", self.found())),
            },
            Some(Token::Word(word)) => match () {
                () if word.eq_ignore_ascii_case("TRUE") => Some(Value::Bool(true)),
                () if word.eq_ignore_ascii_case("FALSE") => Some(Value::Bool(false)),
                () if word.eq_ignore_ascii_case("NULL") => Some(Value::Null),
                () if word.eq_ignore_ascii_case("MISSING") => Some(Value::Missing),
                () => None,
            },
            _ => None,
        };
        if let Some(literal) = literal {
            self.at += 1;
            return Ok((Expr::Literal(literal), 1));
        }
        if self.is_keyword(self.at, "SELECT") {
            return failure("UnsupportedSqlStructure", "queries within queries are not part of S3 Select");
        }
        if self.keyword("CASE") {
            return self.case(depth);
        }
        if self.keyword("CAST") {
            return self.cast(depth);
        }
        if let Some(Token::Word(word)) = self.peek()
            && matches!(self.tokens.get(self.at + 1), Some(Token::Symbol("(")))
        {
            let word = word.to_ascii_uppercase();
            self.at += 2;
            return self.call(depth, &word);
        }
        self.column()
    }

    fn column(&mut self) -> Parsed<Tree> {
        let Some(first) = self.name() else {
            let code = match self.peek() {
                Some(Token::Word(_)) => "ParseUnExpectedKeyword",
                Some(Token::Symbol("*")) => "ParseUnsupportedCallWithStar",
                _ => "ParseExpectedExpression",
            };
            return failure(code, format!("expected a value, found {}", self.found()));
        };
        let mut path = vec![Step::Key(first)];
        loop {
            if self.symbol(".") {
                let name = self.any_name();
                let message = format!("expected a name after '.', found {}", self.found());
                path.push(Step::Key(name.ok_or_else(|| Failure::new("ParseInvalidPathComponent", message))?));
            } else if self.symbol("[") {
                path.push(self.bracket(Step::Key, Step::Index)?);
                self.expect_symbol("]", "ParseExpectedTokenType")?;
            } else {
                break;
            }
            if path.len() > 2 * DEPTH_MAX {
                return failure("ParseInvalidPathComponent", "the path of a column is too long");
            }
        }
        if let Some(index) = self.known_columns.get(&path) {
            return Ok((Expr::Column(*index), 1));
        }
        let index = self.columns.len();
        self.known_columns.insert(path.clone(), index);
        self.columns.push(path);
        Ok((Expr::Column(index), 1))
    }

    fn case(&mut self, depth: usize) -> Parsed<Tree> {
        let (mut branches, mut levels) = (Vec::new(), 0);
        let mut operand = None;
        if !self.is_keyword(self.at, "WHEN") {
            let (value, value_levels) = self.expr(depth)?;
            levels = value_levels;
            operand = Some(value);
        }
        if !self.is_keyword(self.at, "WHEN") {
            return failure("ParseExpectedWhenClause", format!("expected WHEN, found {}", self.found()));
        }
        while self.keyword("WHEN") {
            let condition = self.expr(depth)?;
            self.expect_keyword("THEN")?;
            let result = self.expr(depth)?;
            levels = levels.max(condition.1).max(result.1);
            branches.push((condition.0, result.0));
        }
        let mut otherwise = None;
        if self.keyword("ELSE") {
            let (result, result_levels) = self.expr(depth)?;
            levels = levels.max(result_levels);
            otherwise = Some(result);
        }
        self.expect_keyword("END")?;
        Ok((Expr::Case(Box::new(Case { operand, branches, otherwise })), deeper(levels)?))
    }

    fn cast(&mut self, depth: usize) -> Parsed<Tree> {
        self.expect_symbol("(", "ParseExpectedLeftParenAfterCast")?;
        let (operand, levels) = self.expr(depth)?;
        self.expect_keyword("AS")?;
        let name = match self.peek() {
            Some(Token::Word(word)) => word.to_ascii_uppercase(),
            _ => return failure("ParseExpectedTypeName", format!("expected a type, found {}", self.found())),
        };
        let to = match name.as_str() {
            "INT" | "INTEGER" | "BIGINT" | "SMALLINT" => Type::Int,
            "FLOAT" | "REAL" | "DOUBLE" => Type::Float,
            "DECIMAL" | "NUMERIC" => Type::Decimal(None),
            "STRING" | "VARCHAR" | "CHAR" | "TEXT" => Type::Text,
            "BOOL" | "BOOLEAN" => Type::Bool,
            "TIMESTAMP" => Type::Timestamp,
            _ => return failure("ParseExpectedTypeName", format!("unknown type {}", self.found())),
        };
        self.at += 1;
        // Precision and scale, or a length.
        let mut numbers = Vec::new();
        if self.symbol("(") {
            loop {
                let number = match self.peek() {
                    Some(Token::Number(number)) => number.parse::<u32>().ok(),
                    _ => None,
                };
                let message = || format!("expected a number, found {}", self.found());
                numbers.push(number.ok_or_else(|| Failure::new("ParseInvalidTypeParam", message()))?);
                self.at += 1;
                if !self.symbol(",") {
                    break;
                }
            }
            self.expect_symbol(")", "ParseInvalidTypeParam")?;
        }
        let to = match (to, numbers.as_slice()) {
            (_, []) => to,
            (Type::Decimal(_), [precision, rest @ ..]) => {
                let scale = rest.first().copied().unwrap_or(0);
                if rest.len() > 1 || !(1..=DIGITS_MAX).contains(precision) || scale > *precision {
                    let message = "DECIMAL has a precision from 1 to 38, and a scale up to the precision";
                    return failure("ParseInvalidTypeParam", message);
                }
                Type::Decimal(Some((*precision, scale)))
            }
            _ => to,
        };
        self.expect_symbol(")", "ParseCastArity")?;
        Ok((Expr::Cast(Box::new(operand), to), deeper(levels)?))
    }
}

enum ParsedItems {
    All(Option<Name>),
    List(Vec<Item>),
}

fn is_table(name: &Name, alias: &Option<Name>) -> bool {
    let is_alias = alias.as_ref().is_some_and(|alias| {
        if alias.quoted || name.quoted {
            alias.text == name.text
        } else {
            alias.text.eq_ignore_ascii_case(&name.text)
        }
    });
    is_alias || (!name.quoted && name.text.eq_ignore_ascii_case("S3Object"))
}

/// A query with aggregates has one record as its answer, so its list has no columns outside of
/// them.
fn check_aggregates(query: &Query) -> Parsed<()> {
    if query
        .condition
        .as_ref()
        .is_some_and(|condition| condition.any(&|expr| matches!(expr, Expr::Aggregate(_))))
    {
        return failure("UnsupportedSqlStructure", "a condition cannot contain an aggregate");
    }
    let Items::List(items) = &query.items else { return Ok(()) };
    if query.aggregates.is_empty() {
        return Ok(());
    }
    if items.iter().any(|item| item.expr.any(&|expr| matches!(expr, Expr::Column(_)))) {
        let message = "a list with aggregates cannot contain columns outside of them; there is no GROUP BY";
        return failure("UnsupportedSqlStructure", message);
    }
    Ok(())
}
