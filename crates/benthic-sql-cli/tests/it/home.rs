//! A directory of its own for each test, with a store that has the pool `lake`, and the program run in it.

use arrow::array::RecordBatch;
use benthic_core::{Environment, Store};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_table::{At, Table};
use futures::TryStreamExt;
use futures::executor::block_on;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

pub struct Home(TempDir);

impl Home {
    pub fn new() -> Home {
        let home = Home(TempDir::new().unwrap());
        home.with_store(async |store| store.create_pool("lake").await.unwrap());
        home
    }

    /// Opens the store in this process.
    pub fn with_store<T>(&self, work: impl AsyncFnOnce(&EmbeddedStore) -> T) -> T {
        let store = EmbeddedStore::open(&self.path("benthic-data"), true, Options::default()).unwrap();
        let done = block_on(work(&store));
        store.close().unwrap();
        done
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    /// Runs `benthic-sql table ARGS`, which is what `benthic table ARGS` becomes.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_benthic-sql"));
        command.arg("table").args(args).current_dir(self.dir());
        command.env_remove("BENTHIC_STORE").stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs with input.
    pub fn pipe(&self, args: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            // A program that refuses its input closes the pipe.
            scope.spawn(move || drop(stdin.write_all(input)));
            child.wait_with_output().unwrap()
        })
    }

    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        printed(&self.run(args))
    }

    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Vec<Value> {
        let mut with_json = vec!["--json"];
        with_json.extend(args);
        let text = self.ok(&with_json);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Runs what must fail with this exit status, and returns what it printed to stderr.
    #[track_caller]
    pub fn fails(&self, status: i32, args: &[&str]) -> String {
        let run = self.run(args);
        let error = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(status), "{args:?}: {error}");
        error
    }

    /// All rows of a table, as JSON, in the order of their text.
    pub fn rows(&self, table: &str) -> Vec<String> {
        let mut rows: Vec<String> = self.batches(table).iter().flat_map(json_rows).collect();
        rows.sort_unstable();
        rows
    }

    pub fn batches(&self, table: &str) -> Vec<RecordBatch> {
        self.with_store(async |store| {
            let pool = store.open_pool("lake").await.unwrap();
            let table = Table::open(pool, table, Environment::default()).await.unwrap();
            let snapshot = table.snapshot(At::Current).await.unwrap();
            let mut batches = Vec::new();
            for entry in snapshot.entries().try_collect::<Vec<_>>().await.unwrap() {
                let rows = snapshot.read(&entry, snapshot.schema()).await.unwrap();
                batches.extend(rows.try_collect::<Vec<_>>().await.unwrap());
            }
            batches
        })
    }

    /// The objects of tables that are in the pool, by namespace and name.
    pub fn objects(&self) -> Vec<String> {
        self.with_store(async |store| {
            let pool = store.open_pool("lake").await.unwrap();
            let all = benthic_core::Namespaces::All;
            let request =
                benthic_core::ListRequest { namespaces: all, ..benthic_core::ListRequest::default() };
            let page = pool.list(request).await.unwrap();
            assert!(page.next.is_none(), "one page is enough for a test");
            page.objects.iter().map(ToString::to_string).collect()
        })
    }

    /// The lines of `benthic table show` that are columns.
    #[track_caller]
    pub fn columns(&self, table: &str) -> Vec<String> {
        let shown = self.json(&["show", table]).remove(0);
        let column = |column: &Value| {
            let not_null = if column["nullable"] == true { "" } else { " not null" };
            format!("{} {}{not_null}", column["name"].as_str().unwrap(), column["type"].as_str().unwrap())
        };
        shown["columns"].as_array().unwrap().iter().map(column).collect()
    }
}

#[track_caller]
pub fn printed(run: &Output) -> String {
    assert!(run.status.success(), "{}: {}", run.status, String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout.clone()).unwrap()
}

fn json_rows(batch: &RecordBatch) -> Vec<String> {
    let mut text = Vec::new();
    let mut writer = arrow::json::LineDelimitedWriter::new(&mut text);
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}
