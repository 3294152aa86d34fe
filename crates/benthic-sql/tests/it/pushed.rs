//! `EXPLAIN` shows the operations that run beside the objects.

use crate::fixtures::{answer, memory_store, session};
use crate::slt::tables;
use arrow::util::pretty::pretty_format_batches;
use benthic_core::pushdown::Pushdown;
use benthic_sql::session::Settings;

/// Queries of the tables of the `.slt` files, the parts that run beside the objects, and those that
/// run only in the client.
const PUSHED: [(&str, &[&str], &[&str]); 20] = [
    ("SELECT id FROM t.series ORDER BY w DESC, id LIMIT 3", &["SortExec: TopK(fetch=3), expr=[w@"], &[]),
    (
        "SELECT id + v AS k FROM t.series ORDER BY k LIMIT 2",
        &["SortExec: TopK(fetch=2)", "id@0 + CAST(v@1 AS Int64)"],
        &[],
    ),
    ("SELECT * FROM t.series LIMIT 4", &["limit=4"], &[]),
    ("SELECT DISTINCT v, w FROM t.series", &["AggregateExec: mode=Partial, gby=[v@0 as v, w@1 as w]"], &[]),
    ("SELECT count(DISTINCT v) FROM t.series", &["AggregateExec: mode=Partial, gby=[v@0"], &[]),
    (
        "SELECT v % 2, count(*) FROM t.series GROUP BY CUBE (v % 2, w % 3)",
        &["mode=Partial, gby=[(", "(NULL as "],
        &[],
    ),
    (
        "SELECT v, w, sum(id) FROM t.series GROUP BY ROLLUP (v, w)",
        &["mode=Partial, gby=[(", "(NULL as "],
        &[],
    ),
    (
        "SELECT v, w, sum(id) FROM t.series GROUP BY GROUPING SETS ((v), (w), ())",
        &["mode=Partial, gby=[(", "(NULL as "],
        &[],
    ),
    (
        "SELECT count(*) FROM t.series GROUP BY CUBE (id % 2, id % 3, id % 5, id % 7, id % 11, id % 13)",
        &[],
        &["mode=Partial"],
    ),
    (
        "SELECT approx_distinct(s), approx_median(w), approx_percentile_cont(v, 0.9, 200) FROM t.series",
        &["approx_distinct(", "approx_median(", "approx_percentile_cont("],
        &[],
    ),
    (
        "SELECT v, approx_percentile_cont(0.9) WITHIN GROUP (ORDER BY w DESC) FROM t.series GROUP BY v",
        &["approx_percentile_cont("],
        &[],
    ),
    (
        "SELECT stddev(id), stddev_pop(id), var_pop(id), corr(id, w), covar_pop(id, w), covar_samp(id, w), \
         bool_and(id > 3), bool_or(v = 1), bit_and(id), bit_or(id), bit_xor(id) FROM t.series",
        &[
            "stddev(",
            "stddev_pop(",
            "var_pop(",
            "corr(",
            "covar_pop(",
            "covar_samp(",
            "bool_and(",
            "bit_xor(",
        ],
        &[],
    ),
    (
        "SELECT id FROM t.series WHERE v < 5 AND reverse(s) LIKE '1%' AND w > 100",
        &["FilterExec: v@1 < 5 AND w@2 > 100", "v@1 < 5"],
        &["reverse("],
    ),
    (
        "SELECT count(*) FROM t.series WHERE reverse(s) > '5' AND (v = 1 OR w IS NULL)",
        &["v@0 = 1 OR"],
        &["reverse("],
    ),
    // The second condition keeps the last one from dividing by zero. DataFusion moves a division
    // without a function to the front.
    (
        "SELECT id FROM t.series WHERE v < 5 AND reverse(s) LIKE '1%' AND abs(100 / id) > 3",
        &["FilterExec: v@1 < 5"],
        &["LIKE 1% AND abs(100 / "],
    ),
    // An object accepts 16 patterns. Those of the filter are in the scan, too.
    (
        "SELECT id FROM t.series WHERE s LIKE '%0%0' AND s LIKE '%0%1' AND s LIKE '%0%2' AND s LIKE '%0%3' AND \
         s LIKE '%0%4' AND s LIKE '%0%5' AND s LIKE '%0%6' AND s LIKE '%0%7' AND s LIKE '%0%8' AND \
         reverse(s) LIKE '1%'",
        &["LIKE %0%0", "LIKE %0%1", "LIKE %0%7"],
        &["LIKE %0%8", "reverse("],
    ),
    ("SELECT id FROM t.series WHERE reverse(s) LIKE '1%' AND initcap(s) <> 'Row 0001'", &[], &["reverse("]),
    (
        "SELECT id FROM t.nested WHERE array_has_any(list, [5, 7]) AND array_has_all(list, [0, 1])",
        &["FilterExec: (array_has(list@1, 5) OR array_has(list@1, 7)) AND array_has(list@1, 0) AND"],
        &[],
    ),
    // Lambdas in lambdas stay in the client.
    (
        "SELECT id FROM t.nested WHERE array_any_match(list, n -> array_any_match(list, n -> n + 4 = id)) AND id > 2",
        &["FilterExec: id@0 > 2"],
        &["array_any_match("],
    ),
    // Each object would have to return more rows than one is allowed to hold.
    ("SELECT id FROM t.series ORDER BY w LIMIT 9000", &[], &["SortExec"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_what_runs_beside_the_objects() {
    let store = memory_store();
    tables::load(&store).await;
    let always = Settings { pushdown: Pushdown::Always, ..Settings::default() };
    let mut wrong = Vec::new();
    for (sql, beside, here) in PUSHED {
        let (_, plan) = answer(&session(&store, always.clone()), &format!("EXPLAIN {sql}")).await.unwrap();
        let plan = pretty_format_batches(&plan).unwrap().to_string();
        let fragment: String = plan.lines().filter(|line| line.contains("FragmentExec")).collect();
        let is_beside = beside.iter().all(|part| fragment.contains(part));
        let is_here = here.iter().all(|part| plan.contains(part) && !fragment.contains(part));
        if !is_beside || !is_here {
            wrong.push(format!("{sql}\n{}", plan.replace("  ", "")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
