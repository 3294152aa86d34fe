use super::sum;
use benthic_core::{ClassCalls, LibraryCalls, MethodCalls};

fn answer(process: &str, version: &str, calls: u64) -> LibraryCalls {
    let method = |name: &str, calls| MethodCalls {
        name: name.to_owned(),
        calls,
        fuel: 10 * calls,
        ..MethodCalls::default()
    };
    let class = ClassCalls {
        name: "words".to_owned(),
        version: Some(version.to_owned()),
        methods: vec![method("count", calls), method("never", 0)],
    };
    LibraryCalls {
        library: "wasm_1".to_owned(),
        build: "1".to_owned(),
        process: process.to_owned(),
        loaded_unix_s: 1,
        loaded_ms_ago: 1,
        classes: vec![class],
    }
}

#[test]
fn each_process_counts_once_and_each_version_apart() {
    let sums = sum(vec![answer("a", "1", 3), answer("b", "1", 4), answer("a", "1", 3), answer("c", "2", 1)]);
    let rows: Vec<_> = sums
        .iter()
        .map(|(counted, sum)| (counted.version.as_deref().unwrap_or_default(), sum.calls, sum.fuel))
        .collect();
    assert_eq!(rows, [("1", 7, 70), ("2", 1, 10)]);
}
