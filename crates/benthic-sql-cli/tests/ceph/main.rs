//! The program on a real cluster, as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../benthic-sql/tests/it/data.rs"]
mod data;
#[path = "../../../benthic-sql/tests/it/text_class.rs"]
mod text_class;

use benthic_core::{ErrorKind, Store};
use benthic_rados::{Options, RadosStore};
use benthic_testkit::cluster::shared_conf;
use benthic_wasm::Limits;
use data::{lineitem, parquet};
use futures::executor::block_on;
use parquet::basic::Compression;
use std::collections::BTreeMap;
use std::process::Command;

const POOL: &str = "benthic-sql-cli-test";

#[test]
fn a_query_runs_in_the_osds() {
    let conf = shared_conf();
    for library in ["libcls_table_1.so", "libcls_wasm_1.so"] {
        let library = std::env::current_exe().unwrap().with_file_name(library);
        benthic_ceph::classes::install(&library, &conf.with_file_name("classes")).unwrap();
    }
    let store = RadosStore::connect(Some(&conf), None, Options::default()).unwrap();
    match block_on(store.create_pool(POOL)) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{error}"),
        _ => {}
    }
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("items.parquet"), parquet(&lineitem(60_000), Compression::SNAPPY))
        .unwrap();
    let uri = format!("ceph:?conf={}", conf.display());
    let run = |args: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_benthic-sql"));
        program.args(["--store", &uri]).args(args).current_dir(home.path()).output().unwrap()
    };
    let table = format!("{POOL}/items");
    // Remove the table of a killed run.
    run(&["table", "drop", "--force", &table, "--yes", &table]);
    let created = run(&["table", "create", &table, "items.parquet", "--object-size", "1MiB"]);
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let explained = |sql: &str| {
        let output = run(&["sql", "--pushdown", "always", &format!("EXPLAIN ANALYZE {sql}")]);
        let explained = String::from_utf8(output.stdout).unwrap();
        let counts = |name: &str| {
            let mut values = explained.split(name).skip(1).map(|rest| rest.split([',', ']']).next());
            values.any(|value| value.is_some_and(|value| value != "0"))
        };
        assert!(output.status.success() && counts("objects_pushed="), "{explained}");
        assert!(!counts("refused_unsupported=") && !counts("objects_pulled="), "{explained}");
    };
    explained(&format!("SELECT flag, sum(price) FROM \"{POOL}\".items WHERE id >= 30000 GROUP BY flag"));

    let pool = block_on(store.open_pool(POOL)).unwrap();
    block_on(text_class::deploy(&*pool, 1, Limits::default()));
    let calls_in_osds = || {
        let osds = (0..100).map(|number| format!("o{number}"));
        let mut counted = BTreeMap::new();
        for object in osds {
            let library = block_on(store.calls_at(POOL, &object, "wasm_1")).unwrap().unwrap();
            let of_class = library.classes.iter().filter(|class| class.name == "texts");
            let calls = of_class.flat_map(|class| &class.methods).map(|method| method.calls).sum::<u64>();
            counted.insert(library.process, calls);
        }
        counted.into_values().sum::<u64>()
    };
    let before = calls_in_osds();
    let upper = |text: &str| format!("wasm('texts.upper', {text})");
    let call = upper("flag");
    explained(&format!("SELECT {call}, sum(price) FROM \"{POOL}\".items WHERE id >= 30000 GROUP BY {call}"));
    assert_eq!(calls_in_osds() - before, 30_000);
    // The same rows and the same exit status as in the client; errors name the method.
    for sql in [
        format!(
            "SELECT id, {call} AS flag FROM \"{POOL}\".items WHERE {} = 'R' ORDER BY id",
            upper("lower(flag)")
        ),
        format!("SELECT wasm('texts.traps', flag) FROM \"{POOL}\".items"),
        format!("SELECT wasm('texts.reads', flag) FROM \"{POOL}\".items"),
    ] {
        let printed = |pushdown: &str| {
            let output = run(&["sql", "--output", "csv", "--pushdown", pushdown, &sql]);
            (output.status.code(), output.stdout, String::from_utf8(output.stderr).unwrap())
        };
        let (there, here) = (printed("always"), printed("never"));
        assert_eq!((there.0, &there.1), (here.0, &here.1), "{}", there.2);
        if here.0 != Some(0) {
            let method = sql.split('\'').nth(1).unwrap().split('.').nth(1).unwrap();
            assert!(there.2.contains(&format!("method={method}")), "{}", there.2);
        }
    }
    assert!(run(&["table", "drop", &table, "--yes", &table]).status.success());
}
