//! Random queries of random tables.

use super::noise::Noise;
use super::table::RandomTable;
use super::values::{Column, Kind};
use arrow::datatypes::DataType;

/// A query, and the rules for comparing its answers.
#[derive(Default)]
pub struct Query {
    pub sql: String,
    /// Columns with floating-point numbers that depend on the order of computation.
    pub approximate: Vec<usize>,
    /// Whether the query orders its rows.
    pub ordered: bool,
    /// Whether the query may fail depending on the order of evaluation. If it succeeds, its rows
    /// are equal.
    pub may_fail: bool,
}

/// A table in a query, under an alias.
struct Source<'a> {
    alias: &'static str,
    table: &'a RandomTable,
}

/// Generates parts of queries.
struct Author<'a> {
    n: &'a mut Noise,
    sources: Vec<Source<'a>>,
}

/// Selected expressions, and the indexes of those that are approximate.
#[derive(Default)]
struct Selected {
    exprs: Vec<String>,
    approximate: Vec<usize>,
}

impl Selected {
    fn push(&mut self, expr: String, is_approximate: bool) {
        if is_approximate {
            self.approximate.push(self.exprs.len());
        }
        self.exprs.push(expr);
    }

    /// The expressions, each with an alias.
    fn named(&self) -> String {
        named(&self.exprs)
    }
}

fn named(exprs: &[String]) -> String {
    let named: Vec<String> =
        exprs.iter().enumerate().map(|(place, expr)| format!("{expr} AS o{place}")).collect();
    named.join(", ")
}

impl Query {
    /// A random query of one of two tables, or of both.
    pub fn random(n: &mut Noise, tables: &[RandomTable; 2]) -> Query {
        let [a, b] = if n.percent(50) { [&tables[0], &tables[1]] } else { [&tables[1], &tables[0]] };
        let mut author = Author { n, sources: vec![Source { alias: "a", table: a }] };
        match author.n.below(26) {
            0..5 => author.rows(),
            5..10 => author.groups(),
            10..13 => author.aggregates(),
            13..16 => author.top(),
            16..18 => {
                author.sources.push(Source { alias: "b", table: b });
                author.join()
            }
            18 => author.distinct(),
            19 => author.semi_join(b),
            20 => author.counted(),
            21 => author.set_operation(),
            22 => author.scalar_subquery(),
            23 | 24 => author.grouping_sets(),
            _ => author.division(),
        }
    }
}

impl Author<'_> {
    fn from(&self) -> String {
        let source = &self.sources[0];
        format!("r.{} {}", source.table.name, source.alias)
    }

    /// A random column that `wanted` accepts: its qualified name, the column, and its source.
    fn column(&mut self, wanted: impl Fn(&Column) -> bool) -> Option<(String, Column, usize)> {
        let place = self.n.below(self.sources.len());
        let source = &self.sources[place];
        let column = self.n.find(&source.table.columns, wanted)?.clone();
        Some((format!("{}.\"{}\"", source.alias, column.name), column, place))
    }

    fn any_column(&mut self) -> (String, Column, usize) {
        let key = |column: &Column| column.name == "k";
        match self.column(|_| true) {
            Some(found) => found,
            None => self.column(key).unwrap(),
        }
    }

    /// A literal that fits a column; usually a value of the column, or one near it.
    fn literal(&mut self, column: &Column, place: usize) -> String {
        let value = self.sources[place].table.value(self.n, column);
        let strangers_percent = if column.kind == Kind::Float { 25 } else { 10 };
        let Some(value) = value.filter(|_| !self.n.percent(strangers_percent)) else {
            return self.stranger(column);
        };
        let near = *self.n.pick(&["", "", "", " + 1", " - 1"]);
        match column.kind {
            Kind::Integer if column.is_tame => format!("{value}{near}"),
            Kind::Integer => value,
            Kind::Float => match value.as_str() {
                "NaN" | "inf" | "-inf" => format!("CAST('{value}' AS DOUBLE)"),
                _ => format!("CAST('{value}' AS DOUBLE){near}"),
            },
            Kind::Decimal => format!("CAST('{value}' AS DECIMAL(20, 6)){near}"),
            Kind::Date => format!("DATE '{value}'"),
            Kind::Time if has_zone(column) => format!("CAST('{value}Z' AS TIMESTAMPTZ)"),
            Kind::Time => format!("CAST('{value}' AS TIMESTAMP)"),
            Kind::Text => quoted(&value),
            Kind::Binary => format!("X'{value}'"),
            Kind::Boolean => value,
            Kind::Nested => "NULL".to_owned(),
        }
    }

    /// A literal that probably occurs in no row.
    fn stranger(&mut self, column: &Column) -> String {
        let literals: &[&str] = match column.kind {
            Kind::Integer => &["0", "-1", "1000000", "-5", "3.5"],
            Kind::Float => {
                &["0.0", "-0.0", "CAST('NaN' AS DOUBLE)", "CAST('inf' AS DOUBLE)", "1e30", "-7.25"]
            }
            Kind::Decimal => &["0", "1.5", "-3", "CAST('0.01' AS DECIMAL(9, 2))"],
            Kind::Date => &["DATE '1970-01-01'", "DATE '2024-02-29'", "DATE '1701-01-01'"],
            Kind::Time if has_zone(column) => {
                &["TIMESTAMPTZ '1970-01-01 00:00:00Z'", "TIMESTAMPTZ '2024-10-27 01:00:00+00'"]
            }
            Kind::Time => &["TIMESTAMP '1970-01-01 00:00:00'", "TIMESTAMP '2024-10-27 02:30:00'"],
            Kind::Text => &["''", "'zebra'", "'日'", "'x'", "'05 '"],
            Kind::Binary => &["X''", "X'61'", "X'FFFF'"],
            Kind::Boolean => &["TRUE", "FALSE"],
            Kind::Nested => &["NULL"],
        };
        (*self.n.pick(literals)).to_owned()
    }

    /// An expression on one row, its kind, and whether sums of it are exact.
    fn expr(&mut self) -> (String, Kind, bool) {
        let (name, column, place) = self.any_column();
        let is_tame = column.is_tame;
        let expr = match (column.kind, self.n.below(7)) {
            (Kind::Integer, 0) if is_tame => (format!("{name} + {}", self.n.below(100)), Kind::Integer, true),
            (Kind::Integer, 1) if is_tame => (format!("{name} * {}", self.n.below(9)), Kind::Integer, true),
            (Kind::Integer, 2) if is_tame => (format!("7000 / nullif({name}, 0)"), Kind::Integer, true),
            (Kind::Integer, 3) if is_tame => (format!("{name} % 7"), Kind::Integer, true),
            (Kind::Float, 0) => (format!("{name} * 2"), Kind::Float, is_tame),
            (Kind::Float, 1) => (format!("{name} + 0.5"), Kind::Float, is_tame),
            (Kind::Float, 2) => (format!("-{name}"), Kind::Float, is_tame),
            (Kind::Float, 3) => (format!("round({name})"), Kind::Float, is_tame),
            (Kind::Decimal, 0) => (format!("{name} + 1"), Kind::Decimal, true),
            (Kind::Decimal, 1) => (format!("{name} * 3"), Kind::Decimal, true),
            (Kind::Decimal, 2) => (format!("-{name}"), Kind::Decimal, true),
            (Kind::Date, 0) => (format!("{name} + INTERVAL '3' DAY"), Kind::Date, is_tame),
            (Kind::Date | Kind::Time, 1) => {
                let part = *self.n.pick(&["year", "month", "day"]);
                (format!("extract({part} FROM {name})"), Kind::Integer, true)
            }
            (Kind::Time, 0) => {
                let unit = *self.n.pick(&["year", "month", "day", "hour"]);
                (format!("date_trunc('{unit}', {name})"), Kind::Time, is_tame)
            }
            (Kind::Text, 0) => (format!("upper({name})"), Kind::Text, is_tame),
            (Kind::Text, 1) => (format!("{name} || '/' || {name}"), Kind::Text, is_tame),
            (Kind::Text, 2) => (format!("character_length({name})"), Kind::Integer, true),
            (Kind::Text, 3) => {
                (format!("substr({name}, {}, {})", 1 + self.n.below(3), self.n.below(4)), Kind::Text, is_tame)
            }
            (Kind::Integer, 4) if is_tame => {
                let json = format!("'{{\"k\": [null, ' || {name} || ']}}'");
                (format!("json_get_int({json}, 'k', 1)"), Kind::Integer, true)
            }
            (Kind::Text, 6) => (format!("regexp_like({name}, '^[a-m]|\\d+')"), Kind::Boolean, false),
            (Kind::Nested, 0..=3) if matches!(column.data_type, DataType::Struct(_)) => {
                (format!("get_field({name}, 'n')"), Kind::Integer, true)
            }
            (Kind::Nested, 0..=4) if matches!(column.data_type, DataType::List(_)) => {
                let (function, kind) = self.n.pick(&[
                    ("array_length({})", Kind::Integer),
                    ("{}[2]", Kind::Integer),
                    ("array_max({})", Kind::Integer),
                    ("array_sum({})", Kind::Float),
                    ("array_any_match({}, e -> e % 3 = 1)", Kind::Boolean),
                    ("array_length(array_filter({}, e -> e IS NULL OR e > a.k))", Kind::Integer),
                    (
                        "array_sum(array_transform({}, e -> CASE WHEN e > 0 THEN e % 100 ELSE 1 END))",
                        Kind::Float,
                    ),
                ]);
                (function.replace("{}", &name), *kind, false)
            }
            (Kind::Boolean, 0) => (format!("NOT {name}"), Kind::Boolean, is_tame),
            (Kind::Nested, _) => (format!("{name} IS NULL"), Kind::Boolean, is_tame),
            (kind, 4) => {
                let literal = self.literal(&column, place);
                let when = self.predicate(1);
                (
                    format!("CASE WHEN {when} THEN {name} ELSE {literal} END"),
                    kind,
                    is_tame && kind != Kind::Integer,
                )
            }
            (Kind::Float, 6) => {
                let function = *self.n.pick(&[
                    "sqrt(abs({}))",
                    "cbrt({})",
                    "atan({})",
                    "signum({})",
                    "trunc({})",
                    "nanvl({}, 0)",
                    "radians({})",
                    "power({}, 2)",
                ]);
                (function.replace("{}", &name), Kind::Float, false)
            }
            (Kind::Integer, 6) if is_tame => {
                let function = *self.n.pick(&["gcd({}, 12)", "lcm({}, 4)", "factorial({} % 5 * ({} % 5))"]);
                (function.replace("{}", &name), Kind::Integer, false)
            }
            (Kind::Decimal, 6) => (format!("trunc({name})"), Kind::Decimal, true),
            // The query engine has no coalesce for the binary type that a scan returns.
            (kind, 5) if kind != Kind::Binary => {
                let literal = self.literal(&column, place);
                (format!("coalesce({name}, {literal})"), kind, is_tame && kind != Kind::Integer)
            }
            (kind, _) => (name, kind, is_tame),
        };
        match expr {
            // A literal may have a wider type than the column, so sums may not be exact.
            (text, kind @ (Kind::Float | Kind::Integer), _)
                if text.starts_with("CASE") || text.starts_with("coalesce") =>
            {
                (text, kind, false)
            }
            expr => expr,
        }
    }

    fn predicate(&mut self, depth: usize) -> String {
        if depth > 0 && self.n.percent(45) {
            let (one, other) = (self.predicate(depth - 1), self.predicate(depth - 1));
            return match self.n.below(5) {
                0 | 1 => format!("({one} AND {other})"),
                2 | 3 => format!("({one} OR {other})"),
                _ => format!("NOT ({one})"),
            };
        }
        let (name, column, place) = self.any_column();
        let literal = self.literal(&column, place);
        let compare = *self.n.pick(&["=", "<>", "<", "<=", ">", ">="]);
        match (column.kind, self.n.below(12)) {
            (_, 0) => format!("{name} IS NULL"),
            (Kind::Nested, 2..7) if matches!(column.data_type, DataType::List(_)) => {
                let condition = *self.n.pick(&[
                    "array_length({}) > 1",
                    "array_any_match({}, e -> e > 1)",
                    "NOT array_any_match({}, e -> e > a.k)",
                    "array_has({}, 1)",
                    "array_has_any({}, [1, 4, 7])",
                    "NOT array_has_all({}, [2, 3])",
                    "{}[1] % 2 = 0",
                ]);
                condition.replace("{}", &name)
            }
            (_, 1) | (Kind::Nested, _) => format!("{name} IS NOT NULL"),
            (Kind::Boolean, 2..6) => name,
            (Kind::Text, 2..5) => {
                let pattern = self.pattern(&literal);
                format!("{name} {}LIKE {pattern}", self.n.pick(&["", "", "NOT ", "NOT "]))
            }
            (Kind::Text, 10) => {
                let operator = *self.n.pick(&["~", "~*", "!~", "!~*"]);
                let pattern =
                    *self.n.pick(&["^.?[a-k]", "[0-9]{2,}", "", "(z|b)e?", "^(.+)*x$", r"\W", "^$"]);
                format!("{name} {operator} '{pattern}'")
            }
            (_, 5) => format!("{name} BETWEEN {literal} AND {}", self.literal(&column, place)),
            (_, 6) => {
                let others: Vec<String> =
                    (0..self.n.below(4)).map(|_| self.literal(&column, place)).collect();
                let list = [&[literal][..], &others[..]].concat().join(", ");
                format!("{name} {}IN ({list})", self.n.pick(&["", "NOT "]))
            }
            (_, 7) => format!("({name} IS {}DISTINCT FROM {literal})", self.n.pick(&["", "NOT "])),
            (kind, 8) => {
                match self.column(|other| other.kind == kind && has_zone(other) == has_zone(&column)) {
                    Some((other, ..)) => format!("{name} {compare} {other}"),
                    None => format!("{name} {compare} {literal}"),
                }
            }
            (Kind::Integer, 9) if column.is_tame => format!("{name} * 2 + 1 {compare} {literal}"),
            (Kind::Float, 9) => format!("{name} + 1 {compare} {literal}"),
            (Kind::Text, 9) => format!("lower({name}) {compare} {literal}"),
            // No object runs it.
            (Kind::Text, 11) => format!("reverse({name}) {compare} {literal}"),
            _ => format!("{name} {compare} {literal}"),
        }
    }

    fn pattern(&mut self, literal: &str) -> String {
        let inner = literal.trim_matches('\'');
        // Drop quotes, because half of an escaped quote is invalid.
        let part: String = inner.chars().take(1 + self.n.below(3)).filter(|char| *char != '\'').collect();
        match self.n.below(4) {
            0 => format!("'{part}%'"),
            1 => format!("'%{part}'"),
            2 => format!("'%{part}%'"),
            _ => format!("'_{part}%'"),
        }
    }

    fn filter(&mut self) -> String {
        match self.n.percent(80) {
            true => format!(" WHERE {}", self.predicate(2)),
            false => String::new(),
        }
    }

    /// An aggregate, and whether it is approximate.
    fn aggregate(&mut self) -> (String, bool) {
        let (expr, kind, is_tame) = self.expr();
        let is_number = matches!(kind, Kind::Integer | Kind::Float | Kind::Decimal);
        match self.n.below(14) {
            0 => ("count(*)".to_owned(), false),
            1 => (format!("count({expr})"), false),
            2 if kind != Kind::Nested && kind != Kind::Float => (format!("count(DISTINCT {expr})"), false),
            3 if is_number && is_tame => (format!("sum({expr})"), kind == Kind::Float),
            4 if is_number && is_tame => (format!("avg({expr})"), kind != Kind::Decimal),
            5 if kind == Kind::Integer && is_tame => (format!("var_samp({expr})"), true),
            6 => (format!("count(*) FILTER (WHERE {})", self.predicate(1)), false),
            7 => (format!("min({expr})"), false),
            // A text in memory and one of an object have different types, and so different hashes.
            9 if matches!(kind, Kind::Integer | Kind::Date) => (format!("approx_distinct({expr})"), false),
            10 => {
                let function = *self.n.pick(&["bool_and", "bool_or"]);
                (format!("{function}({})", self.predicate(1)), false)
            }
            11 if kind == Kind::Integer => {
                let function = *self.n.pick(&["bit_and", "bit_or", "bit_xor"]);
                (format!("{function}({expr})"), false)
            }
            12 if kind == Kind::Integer && is_tame => {
                let function = *self.n.pick(&["stddev", "stddev_pop", "var_pop"]);
                (format!("{function}({expr})"), true)
            }
            13 if kind == Kind::Integer && is_tame => (format!("covar_pop({expr}, a.k)"), true),
            _ => (format!("max({expr})"), false),
        }
    }

    fn rows(&mut self) -> Query {
        let exprs: Vec<String> = (0..1 + self.n.below(4)).map(|_| self.expr().0).collect();
        let all = self.n.percent(15);
        let selected = if all { "*".to_owned() } else { named(&exprs) };
        Query { sql: format!("SELECT {selected} FROM {}{}", self.from(), self.filter()), ..Query::default() }
    }

    fn groups(&mut self) -> Query {
        let mut selected = Selected::default();
        let keys: Vec<String> = (0..1 + self.n.below(2)).map(|_| self.expr().0).collect();
        keys.iter().for_each(|key| selected.push(key.clone(), false));
        for _ in 0..1 + self.n.below(3) {
            let (aggregate, is_approximate) = self.aggregate();
            selected.push(aggregate, is_approximate);
        }
        let having = *self.n.pick(&["", "", " HAVING count(*) > 1"]);
        let (from, filter) = (self.from(), self.filter());
        let sql =
            format!("SELECT {} FROM {from}{filter} GROUP BY {}{having}", selected.named(), keys.join(", "));
        Query { sql, approximate: selected.approximate, ..Query::default() }
    }

    fn aggregates(&mut self) -> Query {
        let mut selected = Selected::default();
        for _ in 0..1 + self.n.below(4) {
            let (aggregate, is_approximate) = self.aggregate();
            selected.push(aggregate, is_approximate);
        }
        let sql = format!("SELECT {} FROM {}{}", selected.named(), self.from(), self.filter());
        Query { sql, approximate: selected.approximate, ..Query::default() }
    }

    /// Random columns, and an ORDER BY over all of them. Rows that tie are equal, so their order
    /// does not matter.
    fn ordered_columns(&mut self) -> (Vec<String>, String) {
        let mut names: Vec<String> = Vec::new();
        for _ in 0..1 + self.n.below(3) {
            let (name, ..) = self.column(|column| column.has_order() && !column.has_both_zeros).unwrap();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let order: Vec<String> = names
            .iter()
            .map(|name| format!("{name}{}", self.n.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"])))
            .collect();
        (names, order.join(", "))
    }

    fn top(&mut self) -> Query {
        let (names, order) = self.ordered_columns();
        let (from, filter, limit) = (self.from(), self.filter(), self.n.pick(&[1, 3, 10, 100]).to_owned());
        let offset = *self.n.pick(&["", "", "", " OFFSET 2"]);
        let sql =
            format!("SELECT {} FROM {from}{filter} ORDER BY {order} LIMIT {limit}{offset}", names.join(", "));
        Query { sql, ordered: true, ..Query::default() }
    }

    fn join(&mut self) -> Query {
        let (a, b) = (&self.sources[0].table.name, &self.sources[1].table.name);
        let kind = *self.n.pick(&["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
        let more =
            *self.n.pick(&["", "", " AND a.k % 5 = b.k % 5", " AND CAST(a.k AS TEXT) = CAST(b.k AS TEXT)"]);
        let from = format!("r.{a} a {kind} r.{b} b ON a.k = b.k{more}");
        let filter = self.filter();
        let mut selected = Selected::default();
        let keys: Vec<String> = (0..self.n.below(2)).map(|_| self.expr().0).collect();
        keys.iter().for_each(|key| selected.push(key.clone(), false));
        for _ in 0..1 + self.n.below(3) {
            let (aggregate, is_approximate) = self.aggregate();
            selected.push(aggregate, is_approximate);
        }
        let group = if keys.is_empty() { String::new() } else { format!(" GROUP BY {}", keys.join(", ")) };
        let sql = format!("SELECT {} FROM {from}{filter}{group}", selected.named());
        Query { sql, approximate: selected.approximate, ..Query::default() }
    }

    /// Groups of several sets of columns.
    fn grouping_sets(&mut self) -> Query {
        let (from, filter) = (self.from(), self.filter());
        let (mut keys, _) = self.ordered_columns();
        keys.truncate(3);
        let mut selected = Selected::default();
        keys.iter().for_each(|key| selected.push(key.clone(), false));
        selected.push(format!("grouping({})", keys.join(", ")), false);
        for _ in 0..1 + self.n.below(3) {
            let (aggregate, is_approximate) = self.aggregate();
            // The query engine does not plan distinct values of grouping sets.
            if !aggregate.contains("DISTINCT") {
                selected.push(aggregate, is_approximate);
            }
        }
        let sets = match self.n.below(3) {
            0 => format!("ROLLUP ({})", keys.join(", ")),
            1 => format!("CUBE ({})", keys.join(", ")),
            _ => format!("GROUPING SETS (({}), ({}))", keys.join(", "), keys[0]),
        };
        let sql = format!("SELECT {} FROM {from}{filter} GROUP BY {sets}", selected.named());
        Query { sql, approximate: selected.approximate, ..Query::default() }
    }

    fn distinct(&mut self) -> Query {
        let (names, _) = self.ordered_columns();
        let sql = format!("SELECT DISTINCT {} FROM {}{}", names.join(", "), self.from(), self.filter());
        Query { sql, ..Query::default() }
    }

    fn semi_join(&mut self, other: &RandomTable) -> Query {
        let (name, ..) = self.any_column();
        let (from, filter) = (self.from(), self.predicate(1));
        let operator = *self.n.pick(&["IN", "NOT IN"]);
        let least = self.n.below(9);
        let sql = format!(
            "SELECT {name} FROM {from} WHERE {filter} AND a.k {operator} (SELECT k FROM r.{} WHERE k > {least})",
            other.name
        );
        Query { sql, ..Query::default() }
    }

    fn counted(&mut self) -> Query {
        let (from, filter) = (self.from(), self.filter());
        let limit = *self.n.pick(&[0, 1, 7, 300]);
        let sql = format!("SELECT count(*) FROM (SELECT a.k FROM {from}{filter} LIMIT {limit})");
        Query { sql, ..Query::default() }
    }

    fn set_operation(&mut self) -> Query {
        let (names, _) = self.ordered_columns();
        let operator = *self.n.pick(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]);
        let (names, from) = (names.join(", "), self.from());
        let (one, other) = (self.predicate(1), self.predicate(1));
        let sql = format!(
            "SELECT {names} FROM {from} WHERE {one} {operator} SELECT {names} FROM {from} WHERE {other}"
        );
        Query { sql, ..Query::default() }
    }

    fn scalar_subquery(&mut self) -> Query {
        let (name, column, _) = self.column(Column::has_order).unwrap();
        let (from, filter) = (self.from(), self.filter());
        let compare = *self.n.pick(&["=", "<", ">="]);
        let aggregate = *self.n.pick(&["min", "max"]);
        let inner = format!("SELECT {aggregate}(a.\"{}\") FROM {from}{filter}", column.name);
        let sql = format!("SELECT a.k AS k, {name} AS o FROM {from} WHERE {name} {compare} ({inner})");
        Query { sql, ..Query::default() }
    }

    /// A division whose divisor may be zero. Without a guard it fails in all ways or in none; with
    /// a guard it returns the same rows.
    fn division(&mut self) -> Query {
        let divides = |column: &Column| column.kind == Kind::Integer && column.is_tame;
        let from = self.from();
        let ((one, ..), (other, ..)) = (self.column(divides).unwrap(), self.column(divides).unwrap());
        let (quotient, limit) = (format!("{one} / {other}"), self.n.in_range(-2..3));
        let sql = match self.n.below(5) {
            0 => format!("SELECT {quotient} FROM {from}"),
            1 => format!("SELECT sum({quotient}) FROM {from}"),
            2 => format!("SELECT {one} AS o0, {other} AS o1 FROM {from} WHERE {quotient} > {limit}"),
            guard => {
                let guard = if guard == 3 { format!("{other} <> 0") } else { format!("{other} > 0") };
                let sql = format!(
                    "SELECT {one} AS o0, {other} AS o1 FROM {from} WHERE {guard} AND {quotient} > {limit}"
                );
                return Query { sql, may_fail: true, ..Query::default() };
            }
        };
        Query { sql, ..Query::default() }
    }
}

fn has_zone(column: &Column) -> bool {
    matches!(column.data_type, DataType::Timestamp(_, Some(_)))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
