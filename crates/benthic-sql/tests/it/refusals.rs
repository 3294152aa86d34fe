//! A fragment that is refused beside the object runs in the client. An error has the same words
//! wherever it occurs.

use crate::data::{lineitem, parquet};
use crate::support::{
    ALL, address, explained, explained_when_free, memory, metric, open, put, query, rows, settings,
};
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Class, ErrorKind, Method, MethodContext, MethodFlags, MethodResult, Pool, Result};
use benthic_fragment::Table;
use benthic_fragment::fragment::{Reply, Status};
use benthic_sql::errors::from_datafusion;
use benthic_sql::session;
use bytes::Bytes;
use futures::TryStreamExt;
use parquet::basic::Compression;
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const COUNT: &str = "SELECT mode, count(*), sum(quantity) FROM object WHERE quantity > 30 GROUP BY mode";

/// A class that replaces the real one and has other methods.
struct OtherTable(&'static [Method]);

impl Class for OtherTable {
    fn name(&self) -> &'static str {
        "table"
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        ""
    }

    fn methods(&self) -> &'static [Method] {
        self.0
    }
}

type Scan = fn(&mut MethodContext<'_>, &[u8]) -> Result<Vec<u8>>;

const fn scan_by(run: Scan) -> Method {
    Method {
        name: "scan",
        flags: MethodFlags::READ,
        run,
        result: MethodResult::Output,
        summary: "",
        input: "",
        output: "",
        examples: &[],
    }
}

/// A class that always replies with this status.
const fn says<const STATUS: i32>() -> OtherTable {
    OtherTable(const { &[scan_by(reply_with::<STATUS>)] })
}

fn reply_with<const STATUS: i32>(_: &mut MethodContext<'_>, _: &[u8]) -> Result<Vec<u8>> {
    let status = Status::try_from(STATUS).unwrap();
    Ok(Reply::without_rows(status, "for the test").encode_to_vec())
}

const BUSY: u64 = 20;

static BUSY_LEFT: AtomicU64 = AtomicU64::new(BUSY);

/// The real class, except that it is busy for the first calls.
const BUSY_AT_FIRST: OtherTable = OtherTable(&[scan_by(busy_at_first)]);

fn busy_at_first(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let one_less = |left: u64| left.checked_sub(1);
    if BUSY_LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
        return Ok(Reply::without_rows(Status::Busy, "for the test").encode_to_vec());
    }
    let scan = Table.methods().iter().find(|method| method.name == "scan").unwrap();
    (scan.run)(context, input)
}

/// Runs [`COUNT`] where the class refuses it, and checks that EXPLAIN ANALYZE shows the reason.
async fn is_pulled(pool: Arc<dyn Pool>, object: Bytes, reason: &str) {
    put(&pool, "object", object).await;
    let expected = rows(&query(&pool, "object", Pushdown::Never, COUNT).await.unwrap());
    assert!(expected.len() > 5);
    for pushdown in [Pushdown::Always, Pushdown::Auto] {
        assert_eq!(rows(&query(&pool, "object", pushdown, COUNT).await.unwrap()), expected);
        let explained = explained_when_free(&pool, "object", pushdown, COUNT).await;
        let counts = ["objects_pushed", "objects_pulled", reason].map(|name| metric(&explained, name));
        assert_eq!(counts, [0, 1, 1], "{explained}");
    }
}

fn snappy() -> Bytes {
    parquet(&lineitem(10_000), Compression::SNAPPY)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_class_all_runs_here() {
    is_pulled(memory(None::<Table>).await, snappy(), "refused_unsupported").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_stays_busy_is_spared() {
    let pool = memory(Some(says::<{ Status::Busy as i32 }>())).await;
    put(&pool, "object", snappy()).await;
    let expected = rows(&query(&pool, "object", Pushdown::Never, COUNT).await.unwrap());
    assert_eq!(rows(&query(&pool, "object", Pushdown::Auto, COUNT).await.unwrap()), expected);
    let explained = explained(&pool, "object", Pushdown::Auto, COUNT).await;
    assert_eq!(
        ["objects_pushed", "objects_pulled"].map(|name| metric(&explained, name)),
        [0, 1],
        "{explained}"
    );
    assert!(metric(&explained, "refused_busy") > 0, "{explained}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_busy_for_a_while_is_waited_for() {
    let pool = memory(Some(BUSY_AT_FIRST)).await;
    put(&pool, "object", snappy()).await;
    let expected = rows(&query(&pool, "object", Pushdown::Never, COUNT).await.unwrap());
    assert_eq!(BUSY_LEFT.load(Ordering::Relaxed), BUSY);
    let analysed = explained(&pool, "object", Pushdown::Always, COUNT).await;
    assert_eq!(
        ["objects_pushed", "objects_pulled"].map(|name| metric(&analysed, name)),
        [1, 0],
        "{analysed}"
    );
    assert!(metric(&analysed, "refused_busy") >= BUSY, "{analysed}");
    assert_eq!(rows(&query(&pool, "object", Pushdown::Always, COUNT).await.unwrap()), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_is_pulled() {
    is_pulled(memory(Some(says::<{ Status::TooLarge as i32 }>())).await, snappy(), "refused_too_large").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fragment_that_fails_there_only_runs_here() {
    is_pulled(memory(Some(says::<{ Status::Failed as i32 }>())).await, snappy(), "refused_failed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_without_its_rows_is_no_answer() {
    let pool = memory(Some(says::<{ Status::Ok as i32 }>())).await;
    put(&pool, "object", snappy()).await;
    assert!(query(&pool, "object", Pushdown::Always, COUNT).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_the_class_does_not_read_is_pulled() {
    let brotli = parquet(&lineitem(10_000), Compression::BROTLI(Default::default()));
    is_pulled(memory(Some(Table)).await, brotli, "refused_unsupported").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_over_the_cap_is_pulled() {
    let texts = StringArray::from_iter_values((0..40_000).map(|row| format!("{row:0500}")));
    let batch = RecordBatch::try_from_iter([("text", Arc::new(texts) as ArrayRef)]).unwrap();
    let pool = memory(Some(Table)).await;
    put(&pool, "object", parquet(&batch, Compression::SNAPPY)).await;
    let sql = "SELECT text FROM object WHERE text <> ''";
    let explained = explained_when_free(&pool, "object", Pushdown::Always, sql).await;
    assert_eq!(metric(&explained, "refused_too_large"), 1, "{explained}");
    let never = rows(&query(&pool, "object", Pushdown::Never, sql).await.unwrap());
    assert!(
        never == rows(&query(&pool, "object", Pushdown::Always, sql).await.unwrap()) && never.len() == 40_000
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_fails_on_a_row_says_the_same_both_ways() {
    let pool = memory(Some(Table)).await;
    put(&pool, "object", snappy()).await;
    for pushdown in ALL {
        let sql = "SELECT sum(100 / (part - 17)) FROM object WHERE part > 0";
        let error = query(&pool, "object", pushdown, sql).await.unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidArgument, "Divide by zero error"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_told_and_never_answered() {
    let pool = memory(Some(Table)).await;
    let mut damaged = snappy().to_vec();
    let len = damaged.len();
    damaged[1_000..len / 2].fill(0xff);
    put(&pool, "object", Bytes::from(damaged)).await;
    for pushdown in ALL {
        let error = query(&pool, "object", pushdown, COUNT).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{pushdown:?} {error}");
    }
    let whole = snappy();
    for (name, data) in [
        ("empty", Bytes::new()),
        ("short", whole.slice(..8)),
        ("text", Bytes::from_static(b"l_orderkey,l_partkey\n1,2\n3,4\n5,6\n")),
        ("cut", whole.slice(..whole.len() - 100)),
        ("headless", whole.slice(whole.len() - 300..)),
    ] {
        put(&pool, name, data).await;
        let error = open(&pool, name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}: {error}");
        assert!(error.to_string().contains(&format!("object={}", address(name))), "{name}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_replaced_while_the_query_runs_is_no_mix() {
    let pool = memory(Some(Table)).await;
    for pushdown in ALL {
        put(&pool, "object", snappy()).await;
        let objects = open(&pool, "object").await.unwrap();
        put(&pool, "object", parquet(&lineitem(5_000), Compression::SNAPPY)).await;
        let rows = session::query(objects, &settings(pushdown), COUNT).await.unwrap();
        let error = from_datafusion(&rows.try_collect::<Vec<_>>().await.unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Conflict, "{pushdown:?} {error}");
        assert!(error.to_string().contains("/object"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_object_is_not_found() {
    let pool = memory(Some(Table)).await;
    assert_eq!(open(&pool, "object").await.unwrap_err().kind(), ErrorKind::NotFound);
}
