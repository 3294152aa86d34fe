//! Queries and data that would crash an OSD, fill its memory or hold it for long.

use super::tests::{Memory, call, request, run_in_pieces, turn};
use super::wire;
use super::wire::{CsvInput, Header, Input, Output, Request};
use super::{Fault, PERMITS, RECORD_BYTES_MAX, Select};
use benthic_core::ErrorKind;
use bytes::Bytes;
use bzip2::write::BzEncoder;
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

fn csv() -> Input {
    Input::Csv(CsvInput::default())
}

fn select(list: &str) -> Request {
    request(&format!("SELECT {list} FROM S3Object s"), csv())
}

/// The code of a request that must fail.
fn code(request: &Request, data: &[u8]) -> String {
    run_in_pieces(request, data, 1 << 20).unwrap_err().1.code.into_owned()
}

/// Runs a request that has time for some checks.
fn run_for(request: &Request, data: &[u8], checks: u64) -> Result<usize, Fault> {
    let select = Select::new(request).unwrap();
    let rest = Bytes::copy_from_slice(data);
    let mut host = Memory { rest, piece_bytes: 1 << 20, answer: Vec::new(), checks_left: checks };
    select.run(select.part(data.len() as u64), None, &mut host)?;
    Ok(host.answer.len())
}

#[track_caller]
fn runs_out_of_time(request: &Request, data: &[u8]) {
    runs_out_of(100, request, data);
}

#[track_caller]
fn runs_out_of(checks: u64, request: &Request, data: &[u8]) {
    match run_for(request, data, checks) {
        Err(Fault::Host(error)) => assert_eq!(error.kind(), ErrorKind::LimitExceeded),
        other => panic!("{other:?}"),
    }
}

#[test]
fn deep_expressions_are_refused_and_long_ones_are_not_deep() {
    for deep in [
        format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000)),
        "NOT ".repeat(60_000) + "TRUE",
        "-".repeat(1_000) + "1",
        "- ".repeat(100_000) + "1",
        "1".to_owned() + &" + 1".repeat(60_000),
        "1".to_owned() + &" = 1".repeat(60_000),
        "1".to_owned() + &" IS NULL".repeat(20_000),
        "LOWER(".repeat(40_000),
        "CASE WHEN ".repeat(20_000),
        "CAST(".repeat(50_000),
        "a IN (".repeat(40_000),
        format!("{}1{}", "COALESCE(1, ".repeat(200), ")".repeat(200)),
    ] {
        assert!(code(&select(&deep), b"1\n").starts_with("Parse"), "{}", &deep[..20]);
    }
    for long in [
        "TRUE".to_owned() + &" AND TRUE".repeat(25_000),
        "FALSE".to_owned() + &" OR TRUE".repeat(25_000),
        format!("1 IN (2{}, 1)", ", 2".repeat(60_000)),
    ] {
        let ran = run_in_pieces(&select(&format!("CASE WHEN {long} THEN 'yes' END")), b"1\n", 9);
        assert_eq!(ran.unwrap(), "yes\n");
    }
    let many = vec!["COUNT(*)"; 2_000].join(",");
    assert_eq!(code(&select(&many), b"1\n"), "ParseUnsupportedSyntax");
    let path = "a".to_owned() + &".a".repeat(1_000);
    assert_eq!(code(&select(&path), b"1\n"), "ParseInvalidPathComponent");
    let from = format!("SELECT 1 FROM S3Object[*]{}", ".a".repeat(1_000));
    assert_eq!(code(&request(&from, Input::JsonDocument), b""), "ParseInvalidPathComponent");
}

#[test]
fn records_and_answers_have_limits() {
    let long = vec![b'x'; RECORD_BYTES_MAX + 1];
    assert_eq!(code(&select("s._1"), &long), "OverMaxRecordSize");
    assert_eq!(code(&select("s._1"), &[&long[..], b"\n1\n"].concat()), "OverMaxRecordSize");
    let almost = [&long[1..], b"\n1\n"].concat();
    assert!(run_in_pieces(&select("s._1"), &almost, 1 << 20).is_ok());
    assert_eq!(code(&select("s._1, s._1"), &almost), "OverMaxRecordSize");
    assert_eq!(code(&select("s._1 || s._1"), &almost), "OverMaxRecordSize");
    let quoted = CsvInput { quoted_record_delimiter: true, ..CsvInput::default() };
    let quoted = request("SELECT * FROM S3Object", Input::Csv(quoted));
    assert_eq!(code(&quoted, &[b"\"", &b"a\n".repeat(RECORD_BYTES_MAX)[..]].concat()), "OverMaxRecordSize");
    let aggregates = select(&["MAX(s._1)"; 3].join(","));
    assert_eq!(code(&aggregates, &almost[RECORD_BYTES_MAX / 2..]), "OverMaxRecordSize");

    let text = String::from_utf8(long.clone()).unwrap();
    for document in [
        format!("\"{text}{text}\""),
        format!("{{\"{text}{text}\":1}}"),
        format!("[{}1]", "1,".repeat(RECORD_BYTES_MAX)),
        format!("{{\"a\":[{}[]]}}", "[],".repeat(RECORD_BYTES_MAX)),
        " ".repeat(3 * RECORD_BYTES_MAX),
        "1".repeat(3 * RECORD_BYTES_MAX),
    ] {
        let all = request("SELECT * FROM S3Object s", Input::JsonDocument);
        assert_eq!(code(&all, document.as_bytes()), "OverMaxRecordSize", "{}", &document[..20]);
    }
    // A value that is not on the path of the query may be larger than a record.
    let document = format!("{{\"big\":[{}1],\"small\":[7]}}", "\"0123456789\",".repeat(RECORD_BYTES_MAX / 4));
    let small = request("SELECT * FROM S3Object[*].small[*]", Input::JsonDocument);
    assert_eq!(run_in_pieces(&small, document.as_bytes(), 1 << 20).unwrap(), "7\n");
    let deep = "[".repeat(200_000);
    for input in [Input::JsonDocument, Input::JsonLines] {
        assert_eq!(code(&request("SELECT * FROM S3Object s", input), deep.as_bytes()), "JSONParsingError");
    }
    for path in ["[*].a", "[*][0][0]"] {
        let skipped = request(&format!("SELECT * FROM S3Object{path}"), Input::JsonDocument);
        assert_eq!(code(&skipped, deep.as_bytes()), "JSONParsingError");
    }
}

/// Work within one record is counted, too.
#[test]
fn expensive_records_run_out_of_time() {
    let pattern = format!("s._1 LIKE '%{}b'", "a".repeat(200_000));
    let text = [&b"a".repeat(RECORD_BYTES_MAX)[..], b"\n"].concat();
    runs_out_of_time(&select(&pattern), &text);
    let many = format!("s._1 IN ('b'{})", ", UPPER(s._1)".repeat(15_000));
    runs_out_of_time(&select(&many), &text);
    let upper = vec!["CHAR_LENGTH(UPPER(s._1))"; 9_000].join(",");
    runs_out_of_time(&select(&upper), &text);
    let concat = format!("NULLIF(s._1{}, 'a')", " || s._2".repeat(25_000));
    runs_out_of_time(&select(&concat), &b"a,\n".repeat(10_000));
    runs_out_of_time(&select("s._1"), &b"\n".repeat(64 << 20));
    assert_eq!(
        code(&select(&format!("TRIM('{}' FROM s._1)", "ab".repeat(600))), &text),
        "EvaluatorInvalidArguments"
    );
    // Data without a record in them.
    let none = Request { output: Output::Json("\n".into()), ..select("s._2") };
    assert!(run_for(&none, &b"# a comment\n".repeat(1_000), 100).is_ok());
    runs_out_of_time(&none, &b"# a comment\n".repeat(4 << 20));
}

/// 64 MiB of data from 64 KiB.
#[test]
fn compressed_data_grow_only_until_the_deadline() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let piece = b"1\n".repeat(1 << 19);
    (0..64).for_each(|_| encoder.write_all(&piece).unwrap());
    let data = encoder.finish().unwrap();
    let mut all = select("COUNT(*)");
    all.compression = wire::Compression::Gzip;
    runs_out_of_time(&all, &data);
    all.input = Input::JsonDocument;
    runs_out_of_time(&all, &data);
    let mut encoder = BzEncoder::new(Vec::new(), bzip2::Compression::best());
    (0..4).for_each(|_| encoder.write_all(&piece).unwrap());
    all.compression = wire::Compression::Bzip2;
    runs_out_of_time(&all, &encoder.finish().unwrap());
}

#[test]
fn the_class_refuses_long_inputs() {
    let _turn = turn();
    let error = call(b"", &format!("{{\"expression\":\"{}\"", "x".repeat(3 << 20))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
}

/// The gateway runs a query itself for which the class has no permit.
#[test]
fn the_class_runs_few_queries_at_once() {
    let _turn = turn();
    let input = super::METHODS[0].examples[0];
    let all: Vec<_> = std::iter::from_fn(|| PERMITS.try_acquire()).collect();
    assert!(!all.is_empty());
    assert_eq!(call(b"1\n", input).unwrap_err().kind(), ErrorKind::LimitExceeded);
    drop(all);
    assert!(call(b"1\n", input).is_ok());
}

/// The time depends on the sum of names and columns, not on their product.
#[test]
fn many_names_and_many_columns_are_fast() {
    let header = CsvInput { header: Header::Use, ..CsvInput::default() };
    let numbers: Vec<String> = (0..65_000).map(|at| format!("_{}", at % 65 + 1)).collect();
    let numbers = request(&format!("SELECT {} FROM S3Object", numbers.join(",")), Input::Csv(header.clone()));
    assert_eq!(super::parse::parse(&numbers.expression).unwrap().columns.len(), 65);
    let names = ",".repeat(RECORD_BYTES_MAX) + "\n1\n";
    assert_eq!(run_for(&numbers, names.as_bytes(), 100).unwrap(), 66_000);
    let columns: Vec<String> = (0..25_000).map(|at| format!("N{at}")).collect();
    let columns = request(&format!("SELECT {} FROM S3Object", columns.join(",")), Input::Csv(header));
    let names: Vec<String> = (0..140_000).map(|at| format!("n{at}")).collect();
    assert_eq!(run_for(&columns, (names.join(",") + "\n1\n").as_bytes(), 100).unwrap(), 25_001);
}

/// Steps whose time depends on the data count more than one unit of work.
#[test]
fn steps_count_what_they_read() {
    // To read the data takes about ten checks.
    let out_of_time = |request: &Request, data: &[u8]| runs_out_of(20, request, data);
    let any = |condition: &str| {
        let all = vec![condition; 3_000].join(" OR ");
        format!("SELECT 1 FROM S3Object s WHERE {all}")
    };
    let keys = format!("{{{}\"a\":1}}\n", "\"\":1,".repeat(150_000));
    out_of_time(&request(&any("s.b = 1"), Input::JsonLines), keys.as_bytes());
    let nested = format!("{{\"a\":[\"{}\"]}}\n", "x".repeat(RECORD_BYTES_MAX - 100));
    for condition in ["s.a LIKE 'x'", "'x' LIKE s.a", "CAST(s.a AS STRING) = 1"] {
        out_of_time(&request(&any(condition), Input::JsonLines), nested.as_bytes());
    }
    let blanks = " ".repeat(RECORD_BYTES_MAX - 100) + "9\n";
    for condition in ["s._1 = 1", "s._1 = TRUE", "CAST(s._1 AS INT) = 1", "s._1 + 1 = 1", "'' LIKE s._1"] {
        out_of_time(&request(&any(condition), csv()), blanks.as_bytes());
    }
    let list = ["1"; 3_000].join(",");
    out_of_time(&select(&format!("s._1 IN ({list})")), blanks.as_bytes());
    let truths = blanks.replace('9', "TRUE");
    out_of_time(&request(&any("NOT s._1"), csv()), truths.as_bytes());
    let most = select("MAX(CASE WHEN s._1 = 'x' THEN s._2 ELSE 1 END)");
    out_of_time(&most, format!("x,{blanks}{}", "a\n".repeat(3_000)).as_bytes());
}

#[test]
fn an_answer_has_no_part_of_a_record_that_fails() {
    let failed = |request: &Request, data: &str| {
        let (answer, failure) = run_in_pieces(request, data.as_bytes(), 1 << 20).unwrap_err();
        (answer, failure.code.into_owned())
    };
    let sum = select("s._1, s._2 + 1");
    assert_eq!(failed(&sum, "1,2\n3,x\n"), ("1,3\n".to_owned(), "CastFailed".to_owned()));
    // JSON writes six characters for each of these.
    let mut all = request("SELECT * FROM S3Object", csv());
    all.output = Output::Json("\n".into());
    let data = format!("1\n{}\n", "\u{1}".repeat(RECORD_BYTES_MAX / 4));
    assert_eq!(failed(&all, &data), ("{\"_1\":\"1\"}\n".to_owned(), "OverMaxRecordSize".to_owned()));
}
