//! Searches for words in a table of generated documents, with and without a text index.

use crate::Args;
use crate::rows::ours;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Outcome, pool, seconds, start};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Environment, Fetch, Store};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_index::entry_keys;
use benthic_program::noise::Noise;
use benthic_sql::session::{Settings, SqlSession};
use benthic_table::{Definition, Snapshot, SnapshotSelector, Table, WriterOptions};
use futures::TryStreamExt;
use std::ops::Range;
use std::sync::Arc;

const DOCUMENTS: u64 = 100_000;
const WORDS_OF_A_DOCUMENT: usize = 400;
/// Number of different words. The share of a word is in inverse proportion to its rank, as in
/// texts of people.
const VOCABULARY: f64 = 500_000.0;
const POOL: &str = "texts";
const BATCH: u64 = 5_000;

pub async fn run(args: &Args) -> Outcome<Section> {
    let documents = if args.quick { DOCUMENTS / 50 } else { DOCUMENTS };
    let work = tempfile::Builder::new().prefix("benthic-bench-").tempdir()?;
    let store: Arc<dyn Store> = EmbeddedStore::open(&work.path().join("store"), true, Options::default())?;
    let pool = pool(&*store, POOL).await?;
    let definition = Definition::new(&batch(0..1)?.schema())?;
    let table = Table::create(pool, "docs", &definition, Environment::default()).await?;
    let mut writer = table.writer(WriterOptions::default()).await?;
    let mut text_bytes = 0;
    for start in (0..documents).step_by(BATCH as usize) {
        let batch = batch(start..documents.min(start + BATCH))?;
        text_bytes += batch.column(1).get_array_memory_size();
        writer.write(&batch).await?;
    }
    writer.finish().await?;
    let index = table.add_text_index("body").await?;
    let snapshot = table.snapshot(SnapshotSelector::Current).await?;
    let mut built_s = Vec::new();
    for _ in 0..args.rounds.min(3) {
        let stopwatch = start();
        snapshot.build_indexes(true).try_collect::<Vec<_>>().await?;
        built_s.push(seconds(stopwatch));
    }
    let index_mib = mib(index_bytes(&snapshot, index.number).await?);
    let mut rows = vec![
        Row::alone("build of the index", "s", built_s, Aim::None),
        Row::compared("bytes: index, data", "MiB", &[index_mib], &[mib(snapshot.data_bytes())], Aim::None),
    ];
    let session = |index| {
        let settings = Settings { index, pushdown: Pushdown::Never, ..Settings::default() };
        SqlSession::new(Arc::clone(&store), settings)
    };
    let (with, without) = (session(true), session(false));
    for (what, condition) in [
        ("a rare word", format!("contains_words(body, '{}')", word(300_007))),
        ("two words", format!("contains_words(body, '{} {}')", word(701), word(802))),
        ("a phrase", format!("contains_phrase(body, '{} {}')", word(20), word(3_000))),
        ("a prefix", format!("contains_prefix(body, '{}')", &word(40_009)[..5])),
        ("a common word", format!("contains_words(body, '{}')", word(1))),
    ] {
        let sql = format!("SELECT id FROM {POOL}.docs WHERE {condition}");
        let (mut with_ms, mut without_ms, mut found) = (Vec::new(), Vec::new(), 0);
        for round in 0..=args.rounds {
            let (by_index_s, rows) = ours(&with, &sql).await?;
            let (by_scan_s, same) = ours(&without, &sql).await?;
            if rows != same {
                return Err(format!("{rows} rows with the index, {same} without: {sql}").into());
            }
            found = rows;
            if round > 0 {
                with_ms.push(by_index_s * 1_000.0);
                without_ms.push(by_scan_s * 1_000.0);
            }
        }
        rows.push(Row::compared(format!("{what}, {found} rows"), "ms", &with_ms, &without_ms, Aim::None));
    }
    Ok(Section {
        title: "Searches for words",
        note: format!(
            "{documents} documents of {WORDS_OF_A_DOCUMENT} words, {:.0} MiB of text in {} objects, embedded; queries with the \
             text index against the same ones without it.",
            mib(text_bytes as u64),
            snapshot.objects()
        ),
        rows,
    })
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}

/// Total size of the pages of an index.
async fn index_bytes(snapshot: &Snapshot, index: u32) -> Outcome<u64> {
    let table = snapshot.table();
    let (mut bytes, mut objects) = (0, snapshot.entries());
    while let Some(entry) = objects.try_next().await? {
        let object = entry.object.object_id(table.id())?;
        let (page, _) = table.pool().fetch(&object, Fetch::omap_get(entry_keys(index))).await?;
        bytes += page.entries.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
    }
    Ok(bytes)
}

fn batch(ids: Range<u64>) -> Outcome<RecordBatch> {
    let bodies: ArrayRef = Arc::new(StringArray::from_iter_values(ids.clone().map(body)));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.map(|id| id as i64)));
    Ok(RecordBatch::try_from_iter([("id", ids), ("body", bodies)])?)
}

fn body(id: u64) -> String {
    let mut noise = Noise::new(id);
    let mut text = String::new();
    for _ in 0..WORDS_OF_A_DOCUMENT {
        let unit = noise.below(1 << 53) as f64 / (1_u64 << 53) as f64;
        text += &word(VOCABULARY.powf(unit) as u64);
        text.push(' ');
    }
    text
}

/// The word of a rank. Frequent words are short.
fn word(rank: u64) -> String {
    let mut noise = Noise::new(rank);
    let (mut word, mut rest) = (String::new(), rank);
    loop {
        word.push(char::from(b'a' + noise.below(26) as u8));
        word.push(char::from(b"aeiou"[(rest % 5) as usize]));
        rest /= 13;
        if rest == 0 {
            return word;
        }
    }
}
