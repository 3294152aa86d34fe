//! How operators group, compared with the table "Operator Precedence" of Postgres' manual.

use benthic_sql::json_operators::rewrite;
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Ident, visit_expressions_mut};
use std::mem::replace;
use std::ops::ControlFlow;

/// Operators, and how much they bind.
const OPERATORS: [(&str, u8); 10] = [
    ("*", 4),
    ("/", 4),
    ("+", 3),
    ("-", 3),
    ("||", 2),
    ("->", 2),
    ("->>", 2),
    ("=", 1),
    ("<", 1),
    ("AND", 0),
];

/// The expression with parentheses around each operator and its operands.
fn parenthesized(operands: &[String], operators: &[(&str, u8)]) -> String {
    // Of operators that bind least, the last one.
    let Some(place) = (0..operators.len()).rev().min_by_key(|place| operators[*place].1) else {
        return operands[0].clone();
    };
    let left = parenthesized(&operands[..=place], &operators[..place]);
    let right = parenthesized(&operands[place + 1..], &operators[place + 1..]);
    format!("({left} {} {right})", operators[place].0)
}

fn parsed(expr: &str) -> Statement {
    DFParser::parse_sql(&format!("SELECT {expr}")).unwrap().pop_front().unwrap()
}

fn without_parentheses(mut statement: Statement) -> Statement {
    let Statement::Statement(inner) = &mut statement else { panic!("a query is a statement of SQL") };
    let _ = visit_expressions_mut(&mut **inner, |expr| {
        while let Expr::Nested(inner) = expr {
            *expr = replace(&mut **inner, Expr::Identifier(Ident::new("")));
        }
        ControlFlow::<()>::Continue(())
    });
    statement
}

#[test]
fn operators_group_as_in_postgres() {
    for seed in seed::many(2_000) {
        let n = &mut Rng(seed);
        let count = n.below(11);
        let operators: Vec<(&str, u8)> = (0..count).map(|_| OPERATORS[n.below(OPERATORS.len())]).collect();
        let operand = |place| match n.below(8) {
            0 => format!("(a{place} || b{place})"),
            1 => format!("(a{place} = b{place})"),
            _ => format!("a{place}"),
        };
        let operands: Vec<String> = (0..=count).map(operand).collect();
        let mut flat = operands[0].clone();
        for ((operator, _), operand) in operators.iter().zip(&operands[1..]) {
            flat = format!("{flat} {operator} {operand}");
        }
        let mut found = parsed(&flat);
        rewrite(&mut found);
        let expected = without_parentheses(parsed(&parenthesized(&operands, &operators)));
        assert_eq!(without_parentheses(found), expected, "seed {seed}: {flat}");
    }
}
