//! bench.

use crate::support::{Home, keys};

#[test]
fn a_write_benchmark_measures_and_cleans_up() {
    let home = Home::with_pool();
    let args = ["bench", "write", "p", "--count", "40", "--size", "4KiB", "--in-flight", "4"];
    let result = home.json(&args).remove(0);
    assert_eq!(
        keys(&result),
        [
            "bench",
            "buffered",
            "bytes",
            "errors",
            "in_flight",
            "latency_ms_avg",
            "latency_ms_max",
            "latency_ms_p50",
            "latency_ms_p95",
            "latency_ms_p99",
            "mib_per_s",
            "operations",
            "operations_per_s",
            "pool",
            "seconds",
            "size_bytes"
        ]
    );
    assert_eq!((result["operations"].as_u64(), result["bytes"].as_u64()), (Some(40), Some(40 * 4096)));
    assert_eq!(result["errors"], 0);
    let ms = |name: &str| result[format!("latency_ms_{name}")].as_f64().unwrap();
    assert!(0.0 < ms("p50") && ms("p50") <= ms("p95") && ms("p95") <= ms("p99") && ms("p99") <= ms("max"));
    assert_eq!(home.ok(&["ls", "p", "--all-namespaces"]), "");
    let text = home.ok(&["bench", "write", "p", "--count", "3", "--size", "0", "--buffered"]);
    assert!(text.contains("3 operations of 0 B") && text.contains("p99"), "{text}");
}

#[test]
fn reads_prepare_the_objects_that_they_need() {
    let home = Home::with_pool();
    for what in ["seq", "rand"] {
        // A pool of its own.
        home.ok(&["pool", "create", what]);
        let call = ["bench", what, what, "--count", "20", "--size", "4KiB"];
        let text = home.ok(&call);
        assert!(text.starts_with("the pool has no kept objects; preparing 20 objects of 4.0 KiB"), "{text}");
        assert!(text.contains(&format!("{what}: 20 operations of 4.0 KiB")), "{text}");
        assert_eq!(home.ok(&["ls", what, "--all-namespaces"]), "");
        let result = home.json(&[&call[..], &["--keep"]].concat()).remove(0);
        assert_eq!((result["operations"].as_u64(), result["bytes"].as_u64()), (Some(20), Some(20 * 4_096)));
        assert_eq!(home.ok(&["ls", &format!("{what}:benthic-bench")]).lines().count(), 20);
        assert!(home.ok(&call).starts_with(&format!("{what}: ")), "the kept objects are enough");
        let error = home.fails(3, &[&call[..], &["--label", "none"]].concat());
        assert!(error.contains("nothing to read") && error.contains("--keep --label none`"), "{error}");
    }
    home.fails(11, &["bench", "rand", "p", "--size", "65MiB"]);
}

#[test]
fn reads_use_what_a_write_kept() {
    let home = Home::with_pool();
    home.ok(&["bench", "write", "p", "--count", "10", "--size", "10000", "--keep"]);
    assert_eq!(home.ok(&["ls", "p:benthic-bench"]).lines().count(), 10);
    // A run without `--keep` removes its own objects and leaves kept objects alone.
    home.ok(&["bench", "write", "p", "--count", "3", "--size", "10000"]);
    // Reads each object once, although there is time for more.
    let result = home.json(&["bench", "seq", "p", "--seconds", "60"]).remove(0);
    assert_eq!((result["operations"].as_u64(), result["size_bytes"].as_u64()), (Some(10), Some(10_000)));
    assert_eq!(home.json(&["bench", "rand", "p", "--count", "50"])[0]["operations"], 50);
    // An object of the wrong length is an error, not a fast read.
    home.file("f", "short");
    home.ok(&["put", "p:benthic-bench/10000-kept-0000000003", "f"]);
    let run = home.run(&["--json", "bench", "seq", "p"]);
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stderr).contains("another length"));
}

#[test]
fn a_method_is_measured_beside_temporary_objects() {
    let home = Home::with_pool();
    let args = ["bench", "exec", "p", "--count", "30", "--size", "64KiB", "--in-flight", "3"];
    let result = home.json(&args).remove(0);
    assert_eq!((result["operations"].as_u64(), result["bytes"].as_u64()), (Some(30), Some(30 * 65_536)));
    assert_eq!(home.ok(&["ls", "p", "--all-namespaces"]), "");
    assert!(home.fails(7, &["bench", "exec", "p", "--size", "1", "--method", "mdd5"]).contains("\"md5\""));
    assert_eq!(home.ok(&["ls", "p", "--all-namespaces"]), "");
}

#[test]
fn time_ends_a_benchmark() {
    let home = Home::with_pool();
    let result = home.json(&["bench", "write", "p", "--seconds", "1", "--size", "1KiB"]).remove(0);
    let seconds = result["seconds"].as_f64().unwrap();
    assert!((1.0..5.0).contains(&seconds), "{seconds}");
    assert!(result["operations"].as_u64().unwrap() > 0);
}

#[test]
fn contradictory_benchmarks_are_refused() {
    let home = Home::with_pool();
    home.fails(11, &["bench", "write", "p", "--size", "65MiB"]);
    home.fails(3, &["bench", "write", "other"]);
    home.fails(2, &["bench", "write", "p", "--in-flight", "0"]);
    home.fails(2, &["bench", "rand", "p", "--seconds", "0"]);
    home.fails(2, &["bench", "write", "p", "--count", "1", "--seconds", "1"]);
    home.fails(2, &["bench", "write", "p", "--size", "4kb"]);
    home.ok(&["bench", "write", "--create-pool", "made", "--count", "1", "--size", "1"]);
    assert_eq!(home.ok(&["pool", "ls"]), "made\np\n");
}
