use super::wire;
use super::wire::{CsvInput, CsvOutput, Header, Input, Output, Request, ScanRange, Totals, decode_answer};
use super::{Failure, Fault, HEADER_BYTES_MAX, Host, Select};
use benthic_core::{ClassCall, Error, ErrorKind, ObjectId, Result, Store};
use benthic_embedded::MemStore;
use bytes::Bytes;
use bzip2::write::BzEncoder;
use flate2::{Compression, write::GzEncoder};
use futures::executor::block_on;
use std::io::Write;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Data in pieces of some bytes, and the answer.
pub(super) struct Memory {
    pub rest: Bytes,
    pub piece_bytes: usize,
    pub answer: Vec<u8>,
    /// How often a query may check its time.
    pub checks_left: u64,
}

impl Host for Memory {
    fn read(&mut self) -> Result<Bytes> {
        Ok(self.rest.split_to(self.piece_bytes.min(self.rest.len())))
    }

    fn read_range(&mut self, range: Range<u64>) -> Result<Bytes> {
        Ok(self.rest.slice(range.start as usize..range.end as usize))
    }

    fn write(&mut self, records: Vec<u8>) -> Result<()> {
        self.answer.extend_from_slice(&records);
        Ok(())
    }

    fn unix_ms(&self) -> u64 {
        1_750_000_000_123
    }

    fn check(&mut self, _: Totals) -> Result<()> {
        let over = || Error::new(ErrorKind::LimitExceeded, "the time is over");
        self.checks_left = self.checks_left.checked_sub(1).ok_or_else(over)?;
        Ok(())
    }
}

/// Runs a request on data that arrive in pieces.
pub(super) fn run_in_pieces(
    request: &Request,
    data: &[u8],
    piece_bytes: usize,
) -> std::result::Result<String, (String, Failure)> {
    let select = Select::new(request).map_err(|failure| (String::new(), failure))?;
    let part = select.part(data.len() as u64);
    let header = part.needs_header.then(|| &data[..data.len().min(HEADER_BYTES_MAX as usize)]);
    let rest = Bytes::copy_from_slice(&data[(part.read_from as usize).min(data.len())..]);
    let mut host = Memory { rest, piece_bytes, answer: Vec::new(), checks_left: u64::MAX };
    let ran = select.run(part, header, &mut host);
    let answer = String::from_utf8(host.answer).unwrap();
    match ran {
        Ok(totals) => {
            assert_eq!(totals.returned_bytes, answer.len() as u64);
            Ok(answer)
        }
        Err(Fault::Query(failure)) => Err((answer, failure)),
        Err(Fault::Host(error)) => panic!("{error}"),
    }
}

fn run(request: &Request, data: &[u8]) -> std::result::Result<String, (String, Failure)> {
    let ran = run_in_pieces(request, data, 1 << 20);
    for piece_bytes in [1, 7] {
        assert_eq!(run_in_pieces(request, data, piece_bytes), ran);
    }
    ran
}

pub(super) fn request(expression: &str, input: Input) -> Request {
    let output = Output::Csv(CsvOutput::default());
    Request {
        expression: expression.to_owned(),
        input,
        compression: wire::Compression::None,
        output,
        range: None,
    }
}

fn with_header() -> Input {
    Input::Csv(CsvInput { header: Header::Use, ..CsvInput::default() })
}

const FISH: &str = "name,depth,legs\nsole,12,0\ncrab,3,8\n\"eel, grey\",140,0\n# a comment\ncod,,\n";

fn fish(expression: &str) -> String {
    run(&request(expression, with_header()), FISH.as_bytes()).unwrap()
}

fn code(expression: &str) -> String {
    match run(&request(expression, with_header()), FISH.as_bytes()) {
        Ok(answer) => panic!("{expression} answers {answer:?}"),
        Err((_, failure)) => failure.code.into_owned(),
    }
}

/// The value of an expression on the first record.
fn value(expression: &str) -> String {
    let answer = fish(&format!("SELECT {expression} FROM S3Object s LIMIT 1"));
    answer.strip_suffix('\n').unwrap().to_owned()
}

#[test]
fn columns_have_names_and_numbers() {
    assert_eq!(fish("SELECT s.name FROM S3Object s WHERE s.depth > 11"), "sole\n\"eel, grey\"\n");
    assert_eq!(fish("select NAME, s._2 from s3object as S where S.LEGS = 8"), "crab,3\n");
    assert_eq!(fish("SELECT * FROM S3Object WHERE \"name\" = 'sole'"), "sole,12,0\n");
    assert_eq!(fish("SELECT s.* FROM S3Object s LIMIT 1"), "sole,12,0\n");
    assert_eq!(fish("SELECT s._9 FROM S3Object s LIMIT 1"), "\n");
    assert_eq!(code("SELECT s.\"Name\" FROM S3Object s"), "MissingHeaders");
    assert_eq!(code("SELECT s.a.b FROM S3Object s"), "InvalidKeyPath");
    assert_eq!(code("SELECT s._0 FROM S3Object s"), "InvalidColumnIndex");
    assert_eq!(code("SELECT x.* FROM S3Object s"), "InvalidTableAlias");
}

#[test]
fn timestamps() {
    assert_eq!(value("CAST('2007-04-05T14:30Z' AS TIMESTAMP)"), "2007-04-05T14:30Z");
    assert_eq!(value("TO_TIMESTAMP('2007T')"), "2007T");
    assert_eq!(value("DATE_ADD(month, 13, `2010T`)"), "2011-02T");
    assert_eq!(value("date_add(DAY, '-1', '2017-01-10')"), "2017-01-09");
    assert_eq!(value("DATE_DIFF(hour, `2010-01-01T23:00Z`, `2010-01-02T01:30+00:00`)"), "2");
    assert_eq!(value("EXTRACT(TIMEZONE_MINUTE FROM `2017-01-02T03:04:05+07:08`)"), "8");
    assert_eq!(value("TO_STRING(`1969-07-20T20:18Z`, 'y-MM-dd''T''H:m:ssX')"), "1969-07-20T20:18:00Z");
    assert_eq!(value("UTCNOW()"), "2025-06-15T15:06:40.123Z");
    assert_eq!(value("UTCNOW() > '2025-06-15T17:06+02:00' AND UTCNOW() < `2026T`"), "true");
    assert_eq!(value("`2010T` = '2010-01-01T01:00+01:00'"), "true");
    assert_eq!(value("CASE WHEN `2010T` = 2010 OR `2010T` < 'x' THEN 1 ELSE 2 END"), "2");
    assert_eq!(value("COUNT(s.name)"), "4");
    for null in
        ["EXTRACT(YEAR FROM NULL)", "DATE_ADD(DAY, NULL, `2010T`)", "TO_STRING(UTCNOW(), NULL)", "s._9"]
    {
        assert_eq!(value(&format!("CASE WHEN {null} IS NULL THEN 'null' END")), "null");
    }
    let dates = b"2001-05-04\n1999-12-31T23:59:59Z\n2010T\n";
    let times = |expression: &str| {
        run(&request(expression, Input::Csv(CsvInput::default())), dates).map_err(|(_, failure)| failure.code)
    };
    let later = "SELECT s._1 FROM S3Object s WHERE CAST(s._1 AS TIMESTAMP) > `2000T`";
    assert_eq!(times(later).unwrap(), "2001-05-04\n2010T\n");
    assert_eq!(
        times("SELECT MIN(CAST(s._1 AS TIMESTAMP)) FROM S3Object s").unwrap(),
        "1999-12-31T23:59:59Z\n"
    );
    for (expression, code) in [
        ("CAST('soon' AS TIMESTAMP)", "CastFailed"),
        ("EXTRACT(YEAR FROM 2010)", "CastFailed"),
        ("DATE_ADD(DAY, 1.5, `2010T`)", "EvaluatorInvalidArguments"),
        ("DATE_ADD(YEAR, 10000, `2010T`)", "EvaluatorInvalidArguments"),
        ("TO_STRING(`2010T`, 'Q')", "EvaluatorInvalidTimestampFormatPatternSymbol"),
        ("`2010T` + 1", "InvalidDataType"),
        ("SUM(`2010T`)", "InvalidDataType"),
    ] {
        assert_eq!(times(&format!("SELECT {expression} FROM S3Object s")).unwrap_err(), code, "{expression}");
    }
    let output = Output::Json("\n".to_owned());
    let json =
        Request { output, ..request("SELECT `2010-02-03` AS day FROM S3Object LIMIT 1", with_header()) };
    assert_eq!(run(&json, FISH.as_bytes()).unwrap(), "{\"day\":\"2010-02-03\"}\n");
}

#[test]
fn the_first_record_is_a_record_a_header_or_nothing() {
    let first = |header| {
        let input = Input::Csv(CsvInput { header, ..CsvInput::default() });
        run(&request("SELECT s._1 FROM S3Object s LIMIT 1", input), FISH.as_bytes()).unwrap()
    };
    assert_eq!(
        [first(Header::None), first(Header::Ignore), first(Header::Use)],
        ["name\n", "sole\n", "sole\n"]
    );
    let twice = request("SELECT a FROM S3Object", with_header());
    assert_eq!(run(&twice, b"a,a\n1,2\n").unwrap_err().1.code, "AmbiguousFieldName");
    assert_eq!(run(&twice, b"a,A\n1,2\n").unwrap(), "1\n");
    // Of no records, and after the mark of UTF-8.
    assert_eq!(run(&twice, b"").unwrap(), "");
    assert_eq!(run(&twice, b"b\n").unwrap_err().1.code, "MissingHeaders");
    assert_eq!(run(&twice, b"\xef\xbb\xbfa\r\n1\r\n").unwrap(), "1\n");
}

#[test]
fn the_mark_of_utf_8_is_no_part_of_the_data() {
    let all = |input| request("SELECT * FROM S3Object", input);
    let csv = |data: &str| run(&all(Input::Csv(CsvInput::default())), format!("\u{feff}{data}").as_bytes());
    assert_eq!(csv("# a comment\n1\n").unwrap(), "1\n");
    assert_eq!(csv("").unwrap(), "");
    assert_eq!(csv("\u{feff}\n").unwrap(), "\u{feff}\n");
    let quoted = CsvInput { quoted_record_delimiter: true, ..CsvInput::default() };
    let quoted = request("SELECT s._2 FROM S3Object s", Input::Csv(quoted));
    assert_eq!(run(&quoted, "\u{feff}\"a\nb\",c\n".as_bytes()).unwrap(), "c\n");
    assert_eq!(run(&all(Input::JsonLines), "\u{feff}{\"a\":1}\n".as_bytes()).unwrap(), "1\n");
    // Two ranges next to each other contain each record once.
    for end in 0..6 {
        let mut part = all(Input::Csv(CsvInput::default()));
        part.range = Some(ScanRange { start: Some(0), end: Some(end) });
        let first = run(&part, "\u{feff}1\n2\n".as_bytes()).unwrap();
        part.range = Some(ScanRange { start: Some(end + 1), end: None });
        let second = run(&part, "\u{feff}1\n2\n".as_bytes()).unwrap();
        assert_eq!(first + &second, "1\n2\n", "{end}");
    }
}

#[test]
fn conditions_know_three_values() {
    assert_eq!(value("CASE WHEN NULL THEN 1 WHEN TRUE OR NULL THEN 2 END"), "2");
    assert_eq!(value("CASE s.depth WHEN 3 THEN 'crab' WHEN 12 THEN 'sole' ELSE 'other' END"), "sole");
    assert_eq!(value("CASE NULL WHEN NULL THEN 1 ELSE 2 END"), "2");
    assert_eq!(value("CASE s.legs WHEN 1 THEN 2 END"), "");
    for (expression, expected) in [
        ("NULL AND FALSE", "false"),
        ("NULL AND TRUE", ""),
        ("NOT NULL", ""),
        ("NULL = NULL", ""),
        ("s.nothing IS MISSING", "MissingHeaders"),
        ("s._9 IS MISSING", "true"),
        ("s._9 IS NOT NULL", "false"),
        ("NULL IS MISSING", "false"),
        ("s.depth IN (1, 12)", "true"),
        ("s.depth NOT IN (1, NULL)", ""),
        ("s.depth BETWEEN 12 AND 13", "true"),
        ("s.depth NOT BETWEEN 12 AND 13", "false"),
        ("'b' > 'a' AND 10 > 9 AND '10' < '9'", "true"),
        ("'x' > 9", ""),
        ("TRUE = 'true'", "true"),
    ] {
        if expected == "MissingHeaders" {
            assert_eq!(code(&format!("SELECT {expression} FROM S3Object s")), expected);
        } else {
            assert_eq!(value(expression), expected, "{expression}");
        }
    }
}

#[test]
fn numbers_texts_and_casts() {
    for (expression, expected) in [
        ("1 + 2 * 3 - -4", "11"),
        ("7 / 2", "3"),
        ("7 % 4", "3"),
        ("7.0 / 2", "3.5"),
        ("s.depth * 2", "24"),
        ("1e3", "1000.0"),
        ("0.1 + 0.2", "0.3"),
        ("CAST('0.1' AS FLOAT) + CAST('0.2' AS FLOAT)", "0.30000000000000004"),
        ("1.10 * 1.10", "1.2100"),
        ("CAST(1 AS DECIMAL) / 3", "0.33333333333333333333333333333333333333"),
        ("CAST('2.345' AS DECIMAL(4, 2))", "2.35"),
        ("CAST('-1.5e3' AS DECIMAL)", "-1500"),
        ("CAST(2.5 AS DECIMAL(1))", "3"),
        ("CAST(0.1e0 AS DECIMAL(3, 2))", "0.10"),
        ("12345678901234567890123456789012345678 - 0.0", "12345678901234567890123456789012345678"),
        ("'0.30' = 0.1 + 0.2 AND 0.3e0 = 0.3 AND 1.00 = 1", "true"),
        ("-1.50", "-1.50"),
        ("CAST(' 12 ' AS INT) + 1", "13"),
        ("CAST('1.9' AS INTEGER)", "1"),
        ("CAST('1.50' AS DECIMAL(10, 2))", "1.50"),
        ("CAST('8' AS NUMERIC)", "8"),
        ("CAST(8 AS FLOAT)", "8.0"),
        ("CAST(8 AS VARCHAR(3)) || 'x'", "8x"),
        ("CAST('FALSE' AS BOOL)", "false"),
        ("CAST(NULL AS INT)", ""),
        ("LOWER('Ä') || UPPER('ä')", "äÄ"),
        ("CHAR_LENGTH('añb')", "3"),
        ("CHARACTER_LENGTH(s.name)", "4"),
        ("SUBSTRING('123456789', 0)", "123456789"),
        ("SUBSTRING('123456789', 2, 3)", "234"),
        ("SUBSTRING('123456789', -1, 3)", "1"),
        ("SUBSTRING('ñandú' FROM 2 FOR 4)", "andú"),
        ("TRIM('  x  ')", "x"),
        ("TRIM(LEADING FROM '  x ') || '.'", "x ."),
        ("TRIM(TRAILING 'ab' FROM 'xaba')", "x"),
        ("TRIM(BOTH '12' FROM '1112211foobar22211122')", "foobar"),
        ("COALESCE(NULL, MISSING, 'a')", "a"),
        ("NULLIF(1, 1)", ""),
        ("NULLIF('1', 2)", "1"),
        ("'it''s'", "it's"),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn patterns() {
    for (text, pattern, expected) in [
        ("reef", "reef", true),
        ("reef", "r%", true),
        ("reef", "%e_", true),
        ("reef", "_", false),
        ("", "%", true),
        ("", "", true),
        ("aXbXc", "a%b%c", true),
        ("aXbX", "a%b%c", false),
        ("mississippi", "%iss%ip%", true),
        ("mississippi", "m%iss_p", false),
        ("ñ", "_", true),
    ] {
        assert_eq!(value(&format!("'{text}' LIKE '{pattern}'")), expected.to_string(), "{text} {pattern}");
    }
    assert_eq!(value("'50%' LIKE '50\\%' ESCAPE '\\'"), "true");
    assert_eq!(value("'50x' NOT LIKE '50!%' ESCAPE '!'"), "true");
    assert_eq!(
        code("SELECT 'a' LIKE 'a!' ESCAPE '!' FROM S3Object"),
        "EvaluatorLikePatternInvalidEscapeSequence"
    );
}

#[test]
fn aggregates_answer_one_record() {
    assert_eq!(fish("SELECT COUNT(*), COUNT(s._9), MAX(s.name) FROM S3Object s"), "4,0,sole\n");
    assert_eq!(
        fish(
            "SELECT SUM(CAST(s.depth AS INT)), MIN(CAST(depth AS INT)), AVG(s.depth) AS a FROM S3Object s WHERE s.depth <> ''"
        ),
        "155,3,51.666666666666666666666666666666666667\n"
    );
    assert_eq!(fish("SELECT SUM(s.depth) / COUNT(*) FROM S3Object s WHERE FALSE"), "\n");
    assert_eq!(fish("SELECT COUNT(*) FROM S3Object LIMIT 1"), "4\n");
    assert_eq!(fish("SELECT COUNT(*) FROM S3Object LIMIT 0"), "");
    assert_eq!(code("SELECT SUM(depth) FROM S3Object"), "CastFailed");
    assert_eq!(code("SELECT COUNT(*), name FROM S3Object"), "UnsupportedSqlStructure");
    assert_eq!(code("SELECT name FROM S3Object WHERE COUNT(*) > 1"), "UnsupportedSqlStructure");
    assert_eq!(code("SELECT SUM(MAX(depth)) FROM S3Object"), "UnsupportedSqlStructure");
}

#[test]
fn faults_of_expressions_have_the_codes_of_s3() {
    for (expression, expected) in [
        ("", "ParseExpectedKeyword"),
        ("DELETE FROM S3Object", "ParseExpectedKeyword"),
        ("SELECT FROM S3Object", "ParseEmptySelect"),
        ("SELECT 1", "ParseSelectMissingFrom"),
        ("SELECT 1 FROM other", "InvalidDataSource"),
        ("SELECT 1 FROM S3Object[*].a", "InvalidDataSource"),
        ("SELECT 1 FROM S3Object.a", "ParseInvalidPathComponent"),
        ("SELECT 1 FROM S3Object s, S3Object t", "ParseMalformedJoin"),
        ("SELECT *, 1 FROM S3Object", "ParseAsteriskIsNotAloneInSelectList"),
        ("SELECT 1, * FROM S3Object", "ParseAsteriskIsNotAloneInSelectList"),
        ("SELECT a AS FROM S3Object", "ParseExpectedIdentForAlias"),
        ("SELECT a[*] FROM S3Object", "ParseInvalidContextForWildcardInSelectList"),
        ("SELECT a. FROM S3Object.", "ParseSelectMissingFrom"),
        ("SELECT (1 FROM S3Object", "ParseExpectedTokenType"),
        ("SELECT 1 + FROM S3Object", "ParseUnExpectedKeyword"),
        ("SELECT 1 FROM S3Object WHERE", "ParseExpectedExpression"),
        ("SELECT 1 FROM S3Object LIMIT x", "ParseExpectedNumber"),
        ("SELECT 1 FROM S3Object LIMIT -1", "EvaluatorNegativeLimit"),
        ("SELECT 1 FROM S3Object GROUP BY a", "UnsupportedSqlStructure"),
        ("SELECT 1 FROM S3Object ORDER BY a", "UnsupportedSqlStructure"),
        ("SELECT 1 FROM S3Object s )", "ParseUnexpectedToken"),
        ("SELECT (SELECT 1) FROM S3Object", "UnsupportedSqlStructure"),
        ("SELECT NOW() FROM S3Object", "UnsupportedFunction"),
        ("SELECT LOWER(1, 2) FROM S3Object", "EvaluatorInvalidArguments"),
        ("SELECT LOWER(1 FROM S3Object", "ParseExpectedRightParenBuiltinFunctionCall"),
        ("SELECT SUBSTRING(name) FROM S3Object", "ParseExpectedArgumentDelimiter"),
        ("SELECT SUM(*) FROM S3Object", "ParseUnsupportedCallWithStar"),
        ("SELECT SUM(a, b) FROM S3Object", "ParseNonUnaryAgregateFunctionCall"),
        ("SELECT CAST a AS INT FROM S3Object", "ParseExpectedLeftParenAfterCast"),
        ("SELECT CAST(a AS PET) FROM S3Object", "ParseExpectedTypeName"),
        ("SELECT CASE a THEN 2 END FROM S3Object", "ParseExpectedWhenClause"),
        ("SELECT EXTRACT(WEEK FROM a) FROM S3Object", "ParseExpectedDatePart"),
        ("SELECT EXTRACT(YEAR, a) FROM S3Object", "ParseExpectedKeyword"),
        ("SELECT DATE_ADD(TIMEZONE_HOUR, 1, a) FROM S3Object", "ParseExpectedDatePart"),
        ("SELECT DATE_DIFF(DAY, a) FROM S3Object", "EvaluatorInvalidArguments"),
        ("SELECT UTCNOW(1) FROM S3Object", "EvaluatorInvalidArguments"),
        ("SELECT `2010` FROM S3Object", "LexerInvalidLiteral"),
        ("SELECT `2010T FROM S3Object", "LexerInvalidLiteral"),
        ("SELECT a IN 1 FROM S3Object", "ParseExpectedLeftParenValueConstructor"),
        ("SELECT 'a FROM S3Object", "LexerInvalidLiteral"),
        ("SELECT 12x FROM S3Object", "LexerInvalidLiteral"),
        ("SELECT a ! b FROM S3Object", "LexerInvalidOperator"),
        ("SELECT {a} FROM S3Object", "LexerInvalidChar"),
        ("SELECT 1 / 0 FROM S3Object", "EvaluatorInvalidArguments"),
        ("SELECT CAST(name AS INT) FROM S3Object", "CastFailed"),
        ("SELECT name FROM S3Object WHERE name", "CastFailed"),
        ("SELECT 1 FROM S3Object WHERE 5", "InvalidDataType"),
        ("SELECT 99999999999999999999 * 99999999999999999999 FROM S3Object", "IntegerOverflow"),
    ] {
        assert_eq!(code(expression), expected, "{expression}");
    }
    let long = format!("SELECT '{}' FROM S3Object", "x".repeat(256 * 1024));
    assert_eq!(code(&long), "ExpressionTooLong");
}

#[test]
fn records_before_a_fault_are_in_the_answer() {
    let ran = run(
        &request("SELECT CAST(s._1 AS INT) FROM S3Object s", Input::Csv(CsvInput::default())),
        b"1\n2\nx\n",
    );
    let (answer, failure) = ran.unwrap_err();
    assert_eq!((answer.as_str(), &*failure.code), ("1\n2\n", "CastFailed"));
    assert!(failure.message.contains("'x'"), "{}", failure.message);
}

#[test]
fn forms_of_csv() {
    let input = CsvInput {
        record_delimiter: "|;".into(),
        field_delimiter: "ö".into(),
        quote: "'".into(),
        escape: "\\".into(),
        comment: "-".into(),
        ..CsvInput::default()
    };
    let mut all = request("SELECT * FROM S3Object", Input::Csv(input.clone()));
    let data = "aöb|;-no|;|;'x\\'öy'ö|z|;lastö'\\\\'";
    assert_eq!(run(&all, data.as_bytes()).unwrap(), "a,b\nx'öy,|z\nlast,\\\n");
    all.output = Output::Csv(CsvOutput {
        record_delimiter: "!".into(),
        field_delimiter: ";".into(),
        quote: "'".into(),
        escape: "\\".into(),
        always_quotes: true,
    });
    assert_eq!(run(&all, data.as_bytes()).unwrap(), "'a';'b'!'x\\'öy';'|z'!'last';'\\\\'!");
    // Quoted record delimiters.
    let quoted = "1,\"a\n\"\"b\",5\"\n2,c,d\n\"3\",,\"\"\n".as_bytes();
    let mut several = CsvInput { quoted_record_delimiter: true, ..CsvInput::default() };
    let first =
        |input: &CsvInput| run(&request("SELECT s._1 FROM S3Object s", Input::Csv(input.clone())), quoted);
    assert_eq!(first(&several).unwrap(), "1\n2\n3\n");
    several.quoted_record_delimiter = false;
    let second = request("SELECT s._2 FROM S3Object s", Input::Csv(several));
    assert_eq!(run(&second, quoted).unwrap_err().1.code, "CSVUnescapedQuote");
    assert_eq!(run(&second, b"1,\"a\"b\n").unwrap_err().1.code, "CSVUnescapedQuote");
    assert_eq!(run(&second, b"1,\xff\n").unwrap_err().1.code, "InvalidTextEncoding");
    for wrong in [
        CsvInput { record_delimiter: String::new(), ..input.clone() },
        CsvInput { record_delimiter: "abc".into(), ..input.clone() },
        CsvInput { field_delimiter: ",,".into(), ..input.clone() },
        CsvInput { field_delimiter: ";".into(), ..input.clone() },
        CsvInput { quote: "ä".into(), ..input.clone() },
        CsvInput { quote: ";".into(), ..input },
    ] {
        let ran = run(&request("SELECT * FROM S3Object", Input::Csv(wrong)), b"");
        assert_eq!(ran.unwrap_err().1.code, "InvalidRequestParameter");
    }
}

const RULES: &str = r#"{ "Rules": [ {"id": "1"}, {"expr": "y > x"}, {"id": "2", "expr": "z = DEBUG"} ]}
{ "created": "June 27", "modified": "July 6" }"#;

fn json(expression: &str, data: &str) -> std::result::Result<String, Failure> {
    let mut request = request(expression, Input::JsonDocument);
    request.output = Output::Json("\n".to_owned());
    run(&request, data.as_bytes()).map_err(|(_, failure)| failure)
}

/// The examples of AWS' documentation.
#[test]
fn paths_of_json() {
    let ids = "{\"id\":\"1\"}\n{}\n{\"id\":\"2\"}\n{}\n";
    assert_eq!(json("SELECT id FROM S3Object[*].Rules[*].id", RULES).unwrap(), ids);
    let found = json("SELECT id FROM S3Object[*].Rules[*].id WHERE id IS NOT MISSING", RULES).unwrap();
    assert_eq!(found, "{\"id\":\"1\"}\n{\"id\":\"2\"}\n");
    let files = r#"{"dir_name":"important_docs","files":[{"name":"."},{"name":".aws"}],"owner":"a"}
                   {"dir_name":"other","files":[],"owner":{"b":1.50,"c":18446744073709551615}}"#;
    assert_eq!(
        json("SELECT d.dir_name, d.files FROM S3Object[*] d", files).unwrap(),
        "{\"dir_name\":\"important_docs\",\"files\":[{\"name\":\".\"},{\"name\":\".aws\"}]}\n{\"dir_name\":\"other\",\"files\":[]}\n"
    );
    assert_eq!(
        json("SELECT _1.dir_name, _1.OWNER.c AS c FROM S3Object[*] WHERE _1.files[1].name IS MISSING", files)
            .unwrap(),
        "{\"dir_name\":\"other\",\"c\":18446744073709551615}\n"
    );
    assert_eq!(
        json("SELECT s.files[1]['name'] FROM S3Object s LIMIT 1", files).unwrap(),
        "{\"name\":\".aws\"}\n"
    );
    assert_eq!(json("SELECT * FROM S3Object[*].files[0]", files).unwrap(), "{\"name\":\".\"}\n{}\n");
    assert_eq!(json("SELECT * FROM S3Object s", "[1,2] 3").unwrap(), "{\"_1\":[1,2]}\n{\"_1\":3}\n");
    assert_eq!(json("SELECT COUNT(*) FROM S3Object[*][*]", "[1,2] [3]").unwrap(), "{\"_1\":3}\n");
    assert_eq!(json("SELECT s.a FROM S3Object s", r#"{"A":1,"a":2}"#).unwrap(), "{\"a\":2}\n");
    assert_eq!(json("SELECT s.a FROM S3Object s", r#"{"A":1,"À":2}"#).unwrap(), "{\"a\":1}\n");
    assert_eq!(
        json("SELECT s.aa FROM S3Object s", r#"{"Aa":1,"aA":2}"#).unwrap_err().code,
        "AmbiguousFieldName"
    );
    assert_eq!(
        json("SELECT s.a, NULL, 'x\ny' FROM S3Object s", "{}").unwrap(),
        "{\"_2\":null,\"_3\":\"x\\ny\"}\n"
    );
    for wrong in ["{\"a\":", "{a}", "]", "{} x"] {
        assert_eq!(json("SELECT * FROM S3Object s", wrong).unwrap_err().code, "JSONParsingError", "{wrong}");
    }
}

#[test]
fn lines_of_json() {
    let mut lines = request("SELECT s.a, s.b FROM S3Object s WHERE s.a >= 2", Input::JsonLines);
    let data = "{\"a\":1}\n\n{\"a\":2,\"b\":\"x,\"}\r\n  \n{\"b\":[null],\"a\":3}";
    assert_eq!(run(&lines, data.as_bytes()).unwrap(), "2,\"x,\"\n3,[null]\n");
    lines.expression = "SELECT a FROM S3Object".to_owned();
    let (answer, failure) = run(&lines, b"{\"a\":1}\n{\"a\":\n2}\n").unwrap_err();
    assert_eq!((answer.as_str(), &*failure.code), ("1\n", "JSONParsingError"));
    assert!(failure.message.contains("byte 8"), "{}", failure.message);
}

#[test]
fn data_that_are_compressed_with_bzip2() {
    let mut encoder = BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(FISH.as_bytes()).unwrap();
    let mut data = encoder.finish().unwrap();
    data.extend(data.clone());
    let mut all = request("SELECT COUNT(*) FROM S3Object", with_header());
    all.compression = wire::Compression::Bzip2;
    assert_eq!(run(&all, &data).unwrap(), "9\n");
    assert_eq!(run(&all, &data[..data.len() - 9]).unwrap_err().1.code, "TruncatedInput");
    assert_eq!(run(&all, FISH.as_bytes()).unwrap_err().1.code, "InvalidCompressionFormat");
}

#[test]
fn compressed_data() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(FISH.as_bytes()).unwrap();
    let mut data = encoder.finish().unwrap();
    data.extend(data.clone());
    let mut all = request("SELECT COUNT(*) FROM S3Object", with_header());
    all.compression = wire::Compression::Gzip;
    // The second header is a record.
    assert_eq!(run(&all, &data).unwrap(), "9\n");
    assert_eq!(run(&all, &data[..data.len() - 9]).unwrap_err().1.code, "TruncatedInput");
    assert_eq!(run(&all, FISH.as_bytes()).unwrap_err().1.code, "InvalidCompressionFormat");
    all.range = Some(ScanRange { start: Some(1), end: None });
    assert_eq!(run(&all, &data).unwrap_err().1.code, "UnsupportedScanRangeInput");
}

/// Every pair of adjacent ranges reads each record once.
#[test]
fn ranges_split_an_object() {
    let crlf = CsvInput { record_delimiter: "\r\n".into(), ..CsvInput::default() };
    for (input, data) in [
        (with_header(), FISH.to_owned()),
        (Input::Csv(CsvInput::default()), FISH.to_owned()),
        (Input::Csv(crlf), FISH.replace('\n', "\r\n")),
        (Input::JsonLines, "{\"name\":1}\n{\"name\":22}\n\n{\"name\":333}".to_owned()),
    ] {
        let mut part = request("SELECT * FROM S3Object s", input);
        let whole = run(&part, data.as_bytes()).unwrap();
        for split in 1..data.len() as u64 {
            part.range = Some(ScanRange { start: Some(0), end: Some(split - 1) });
            let before = run(&part, data.as_bytes()).unwrap();
            part.range = Some(ScanRange { start: Some(split), end: None });
            let after = run(&part, data.as_bytes()).unwrap();
            assert_eq!(before + &after, whole, "{split}");
            part.range = Some(ScanRange { start: None, end: Some(data.len() as u64 - split) });
            assert_eq!(run(&part, data.as_bytes()).unwrap(), after);
        }
    }
    let mut part = request("SELECT s.name FROM S3Object s", with_header());
    part.range = Some(ScanRange { start: Some(30), end: Some(30) });
    assert_eq!(run(&part, FISH.as_bytes()).unwrap(), "");
    part.range = Some(ScanRange { start: Some(1_000), end: None });
    assert_eq!(run(&part, FISH.as_bytes()).unwrap(), "");
    for range in [(None, None), (Some(2), Some(1))] {
        part.range = Some(ScanRange { start: range.0, end: range.1 });
        assert_eq!(run(&part, FISH.as_bytes()).unwrap_err().1.code, "InvalidScanRange");
    }
    part.input = Input::JsonDocument;
    part.range = Some(ScanRange { start: Some(0), end: None });
    assert_eq!(run(&part, b"{}").unwrap_err().1.code, "UnsupportedScanRangeInput");
}

/// The permits of the class are the process's, so its tests take turns.
pub(super) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call of the class in a test that has its turn.
pub(super) fn call(data: &[u8], input: &str) -> Result<(super::wire::Head, String)> {
    let store = MemStore::new(benthic_embedded::Options::default().with_classes(crate::registry()));
    block_on(store.create_pool("p"))?;
    let pool = block_on(store.open_pool("p"))?;
    let object = ObjectId::new("o")?;
    block_on(pool.write_full(&object, Bytes::copy_from_slice(data)))?;
    let answer = block_on(pool.exec(&object, ClassCall::new("select", "run", input.to_owned())))?;
    let (head, start) = decode_answer(&answer).unwrap();
    Ok((head, String::from_utf8(answer[start..].to_vec()).unwrap()))
}

#[test]
fn the_class_answers_records_and_faults() {
    let _turn = turn();
    let (head, records) = call(FISH.as_bytes(), super::METHODS[0].examples[0]).unwrap();
    assert_eq!((records.as_str(), head.failure), ("sole\n\"eel, grey\"\n", None));
    let size_bytes = FISH.len() as u64;
    let totals = Totals { scanned_bytes: size_bytes, processed_bytes: size_bytes, returned_bytes: 17 };
    assert_eq!(head.totals, totals);
    let (head, records) = call(b"{}\n{\n", super::METHODS[0].examples[1]).unwrap();
    assert_eq!((records.as_str(), &*head.failure.unwrap().code), ("", "JSONParsingError"));
    let mut request = request("SELECT 1", with_header());
    request.range = Some(ScanRange { start: Some(20), end: None });
    let (head, _) = call(FISH.as_bytes(), &serde_json::to_string(&request).unwrap()).unwrap();
    assert_eq!(head.failure.unwrap().code, "ParseSelectMissingFrom");
    request.expression = "SELECT s.name FROM S3Object s".to_owned();
    let (_, records) = call(FISH.as_bytes(), &serde_json::to_string(&request).unwrap()).unwrap();
    assert_eq!(records, "crab\n\"eel, grey\"\ncod\n");
    for wrong in ["", "[]", "{}", r#"{"expression":"","input":{"csv":{"x":1}},"output":{"csv":{}}}"#] {
        assert_eq!(call(b"", wrong).unwrap_err().kind(), ErrorKind::InvalidArgument, "{wrong}");
    }
    // A larger answer than the class gives is the gateway's part.
    request.range = None;
    request.expression = format!("SELECT {} FROM S3Object s", vec!["s._1"; 1_000].join(","));
    let long = format!("{}\n", "x".repeat(900)).repeat(10);
    let error = call(long.as_bytes(), &serde_json::to_string(&request).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
}
