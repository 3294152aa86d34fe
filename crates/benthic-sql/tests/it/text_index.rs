//! Random documents and searches, alone and together with other conditions: every way gives the
//! rows of an obvious search, before and after rows were deleted and compacted.

use crate::fixtures::{answer, build_indexes, create, memory_store, options, pool, session, ways};
use crate::support::{metric, rows};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use benthic_core::Store;
use benthic_core::pushdown::Pushdown;
use benthic_embedded::EmbeddedStore;
use benthic_program::noise::Noise;
use benthic_sql::session::Settings;
use benthic_table::{Definition, Table, WriterOptions};
use benthic_testkit::seed;
use std::sync::Arc;

const CASES: u64 = 2;
const CASES_LONG: u64 = 200;
const OBJECTS: usize = 4;
const OBJECT_ROWS: usize = 150;
const QUERIES: usize = 12;
/// Letters of the words. With few letters, words repeat and share beginnings.
const LETTERS: &[u8] = b"abc";

struct Row {
    id: i64,
    label: String,
    body: Option<String>,
}

/// A word; short ones are common.
fn word(noise: &mut Noise) -> String {
    let letters_max = 1 + noise.below(5);
    let letters = 1 + noise.below(letters_max);
    (0..letters).map(|_| char::from(LETTERS[noise.below(LETTERS.len() as u64) as usize])).collect()
}

fn text(noise: &mut Noise) -> String {
    let mut text = String::new();
    for _ in 0..noise.below(12) {
        let word = word(noise);
        text += &if noise.below(4) == 0 { word.to_uppercase() } else { word };
        text += [" ", ", ", "; ", "-", " (", "! "][noise.below(6) as usize];
    }
    text
}

fn words(text: &str) -> Vec<String> {
    text.split(|char: char| !char.is_alphabetic())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Whether a row matches, by an obvious search. Nothing matches null.
type Condition = Box<dyn Fn(&Row) -> bool>;
/// Whether the words of a text match those of a query.
type Search = fn(&[String], &[String]) -> bool;

fn search(noise: &mut Noise) -> (String, Condition) {
    let query = (0..1 + noise.below(3)).map(|_| word(noise)).collect::<Vec<_>>().join(" ");
    let wanted = words(&query);
    let (name, holds): (_, Search) = match noise.below(3) {
        0 => ("contains_words", |text, wanted| wanted.iter().all(|word| text.contains(word))),
        1 => ("contains_phrase", |text, wanted| text.windows(wanted.len()).any(|part| part == wanted)),
        _ => ("contains_prefix", |text, wanted| {
            wanted.iter().all(|start| text.iter().any(|word| word.starts_with(start)))
        }),
    };
    let matches = move |row: &Row| row.body.as_ref().is_some_and(|body| holds(&words(body), &wanted));
    (format!("{name}(body, '{query}')"), Box::new(matches))
}

fn condition(noise: &mut Noise, depth: u64) -> (String, Condition) {
    match noise.below(if depth == 0 { 4 } else { 7 }) {
        0 => {
            let label = format!("label {}", noise.below(5));
            (format!("label = '{label}'"), Box::new(move |row| row.label == label))
        }
        1 => {
            let id = noise.below((OBJECTS * OBJECT_ROWS) as u64) as i64;
            (
                format!("id BETWEEN {id} AND {}", id + 20),
                Box::new(move |row| (id..=id + 20).contains(&row.id)),
            )
        }
        2 | 3 => search(noise),
        choice => {
            let ((one, first), (other, second)) = (condition(noise, depth - 1), condition(noise, depth - 1));
            match choice {
                4 => (format!("({one} OR {other})"), Box::new(move |row| first(row) || second(row))),
                _ => (format!("({one} AND {other})"), Box::new(move |row| first(row) && second(row))),
            }
        }
    }
}

fn batch(rows: &[Row]) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.id)));
    let labels: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.label.clone())));
    let bodies: ArrayRef = Arc::new(StringArray::from_iter(rows.iter().map(|row| row.body.clone())));
    RecordBatch::try_from_iter_with_nullable([
        ("id", ids, true),
        ("label", labels, true),
        ("body", bodies, true),
    ])
    .unwrap()
}

async fn append(table: &Table, rows: &[Row]) {
    let mut writer = table.writer(WriterOptions::default()).await.unwrap();
    writer.write(&batch(rows)).await.unwrap();
    writer.finish().await.unwrap();
}

/// Asks random queries in all ways. Returns how many lookups in several indexes there were.
async fn ask(store: &Arc<dyn Store>, noise: &mut Noise, rows_of_table: &[Row], seed: u64) -> usize {
    let mut combined = 0;
    for _ in 0..QUERIES {
        let (sql, holds) = condition(noise, 2);
        let sql = format!("SELECT id FROM p.docs WHERE {sql}");
        let matching = rows_of_table.iter().filter(|row| holds(row));
        let mut expected: Vec<String> = matching.map(|row| row.id.to_string()).collect();
        expected.sort_unstable();
        for (way, settings) in ways() {
            let session = session(store, settings);
            let mut found = rows(&answer(&session, &sql).await.unwrap().1);
            found.sort_unstable();
            assert_eq!(found, expected, "{}={seed} {way}: {sql}", seed::VARIABLE);
        }
        let plan =
            rows(&answer(&session(store, Settings::default()), &format!("EXPLAIN {sql}")).await.unwrap().1);
        combined += usize::from(plan.iter().any(|line| line.contains(" and ") || line.contains(" or ")));
    }
    combined
}

async fn case(store: &Arc<dyn Store>, seed: u64) {
    let noise = &mut Noise::new(seed);
    let pool = pool(store, "p").await;
    let mut all: Vec<Row> = (0..(OBJECTS * OBJECT_ROWS) as i64)
        .map(|id| Row {
            id,
            label: format!("label {}", noise.below(5)),
            body: (noise.below(15) > 0).then(|| text(noise)),
        })
        .collect();
    let table = create(&pool, "docs", &Definition::new(&batch(&all).schema()).unwrap()).await;
    for (object, part) in all.chunks(OBJECT_ROWS).enumerate() {
        append(&table, part).await;
        if object == 1 {
            table.add_text_index("body").await.unwrap();
            table.add_index(&["label"]).await.unwrap();
            table.add_index(&["id"]).await.unwrap();
        }
    }
    // Half of the objects have no pages yet.
    ask(store, noise, &all, seed).await;
    build_indexes(&table).await;
    let combined = ask(store, noise, &all, seed).await;
    assert!(combined > 0, "{}={seed}: no query used several indexes", seed::VARIABLE);
    // Rows change: some objects get deletion vectors, others are rewritten.
    let changes = Settings { changes: true, ..Settings::default() };
    for (sql, keeps) in [
        (
            "DELETE FROM p.docs WHERE contains_words(body, 'ab')",
            (|row| row.body.as_ref().is_none_or(|body| !words(body).contains(&"ab".to_owned())))
                as fn(&Row) -> bool,
        ),
        ("DELETE FROM p.docs WHERE id < 100", |row| row.id >= 100),
    ] {
        answer(&session(store, changes.clone()), sql).await.unwrap();
        all.retain(keeps);
        ask(store, noise, &all, seed).await;
    }
    answer(&session(store, changes), "UPDATE p.docs SET body = 'cab CAB' WHERE id % 7 = 0").await.unwrap();
    for row in all.iter_mut().filter(|row| row.id % 7 == 0) {
        row.body = Some("cab CAB".to_owned());
    }
    ask(store, noise, &all, seed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_searches_have_the_same_rows_in_all_ways() {
    let store = memory_store();
    for seed in seed::many(if seed::is_long() { CASES_LONG } else { CASES }) {
        case(&store, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_searches_have_the_same_rows_in_a_directory() {
    let dir = tempfile::TempDir::new().unwrap();
    let store: Arc<dyn Store> = EmbeddedStore::open(dir.path(), true, options()).unwrap();
    for seed in seed::many(1) {
        case(&store, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_are_combined_before_rows_are_read() {
    let store = memory_store();
    let pool = pool(&store, "p").await;
    let all: Vec<Row> = (0..2_000)
        .map(|id| Row {
            id,
            label: format!("label {}", id % 3),
            body: Some(format!("report {id} of station{} in sector{}", id % 50, id % 9)),
        })
        .collect();
    let table = create(&pool, "docs", &Definition::new(&batch(&all).schema()).unwrap()).await;
    table.add_text_index("body").await.unwrap();
    table.add_index(&["label"]).await.unwrap();
    table.add_index(&["id"]).await.unwrap();
    append(&table, &all).await;
    for (condition, index, by_index, found) in [
        ("contains_words(body, 'station7')", "text(body)", 40, 40),
        ("contains_words(body, 'station7 sector4')", "text(body)", 5, 5),
        ("contains_phrase(body, 'station7 in sector4')", "text(body)", 5, 5),
        // The index does not know the order of words.
        ("contains_phrase(body, 'sector4 station7')", "text(body)", 5, 0),
        ("contains_words(body, 'REPORT 1234')", "text(body)", 1, 1),
        ("contains_prefix(body, 'station4')", "text(body)", 0, 440),
        ("contains_prefix(body, 'station49')", "text(body)", 40, 40),
        ("contains_words(body, 'station7') AND label = 'label 1'", "(label) and text(body)", 14, 14),
        ("contains_words(body, 'station7') OR id = 900", "text(body) or (id)", 41, 41),
        (
            "(contains_words(body, 'station7') OR contains_words(body, 'station8')) AND label = 'label 1'",
            "(label) and [text(body)]",
            27,
            27,
        ),
        ("contains_words(body, 'absent')", "text(body)", 0, 0),
        // Too many rows: the object is read whole. The manifest knows labels, but not words.
        ("contains_words(body, 'report')", "text(body)", 0, 2_000),
        ("label = 'label 1'", "(label)", 0, 667),
    ] {
        let sql = format!("SELECT id FROM p.docs WHERE {condition}");
        for pushdown in [Pushdown::Never, Pushdown::Always] {
            let session = session(&store, Settings { pushdown, ..Settings::default() });
            assert_eq!(rows(&answer(&session, &sql).await.unwrap().1).len(), found, "{condition}");
            let plan = rows(&answer(&session, &format!("EXPLAIN ANALYZE {sql}")).await.unwrap().1).join("\n");
            let shown = if index == "(label)" { "index_not_used" } else { "index" };
            assert!(plan.contains(&format!("{shown}={index}, ")), "{condition}\n{plan}");
            assert_eq!(metric(&plan, "rows_by_index"), by_index, "{condition}\n{plan}");
            // A filter that calls a search runs beside the object.
            if pushdown == Pushdown::Always {
                assert_eq!(metric(&plan, "objects_pushed"), 1, "{condition}\n{plan}");
            }
        }
    }
}
