//! The computed files of a table.

use arrow::array::{ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use benthic_catalog::iceberg::avro::{self, Record};
use benthic_catalog::iceberg::keys::{Content, File, FormatVersion, Key};
use benthic_catalog::iceberg::view::{Located, TableView, Views};
use benthic_core::{Environment, ErrorKind, ManualClock, Random, Result, Store};
use benthic_embedded::{MemStore, Options};
use benthic_table::{
    Definition, LayoutChange, Operation, Rows, SnapshotSelector, Table, VacuumOptions, WriterOptions, vacuum,
};
use benthic_testkit::random::Rng;
use bytes::Bytes;
use futures::TryStreamExt;
use futures::executor::block_on;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct SequenceRandom(Mutex<Rng>);

impl Random for SequenceRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(&self.0.lock().unwrap().bytes(bytes.len()));
        Ok(())
    }
}

/// A store with a table of two snapshots with rows, the second with deleted ones. It is the same in
/// every run.
fn store() -> (Arc<MemStore>, Environment, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let environment = Environment { clock: clock.clone(), random: Arc::new(SequenceRandom::default()) };
    let store = MemStore::new(Options::default());
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..1_000))),
        ("name", Arc::new(StringArray::from_iter_values((0..1_000).map(|id| format!("row {id}"))))),
        (
            "value",
            Arc::new(Float64Array::from_iter((0..1_000).map(|id| (id % 3 != 0).then_some(f64::from(id))))),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    block_on(async {
        store.create_pool("p").await.unwrap();
        let pool = store.open_pool("p").await.unwrap();
        let definition = Definition::new(&batch.schema()).unwrap();
        let table = Table::create(pool, "t", &definition, environment.clone()).await.unwrap();
        let mut writer = table.writer(WriterOptions::default()).await.unwrap();
        writer.write(&batch).await.unwrap();
        let snapshot = writer.finish().await.unwrap();
        let entry = snapshot.entries().try_next().await.unwrap().unwrap();
        let mut change = snapshot.change(Operation::Delete, WriterOptions::default()).await.unwrap();
        change.delete(&entry, &Rows::new(vec![3..5, 900..901], 1_000)).unwrap();
        change.finish().await.unwrap();
    });
    (store, environment, clock)
}

fn view(store: &MemStore) -> TableView {
    block_on(TableView::open(store, "p", "t")).unwrap()
}

fn read(views: &Views, key: &Key) -> Result<Bytes> {
    block_on(async {
        match views.locate(key).await? {
            Located::Computed(bytes) => Ok(bytes),
            Located::Stored { pool, object, stored_bytes, tail, .. } => {
                let stored = pool.read_range(&object, 0, stored_bytes).await?;
                Ok([stored, tail].concat().into())
            }
        }
    })
}

fn records(file: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    avro::read(file, |record| {
        records.push(record);
        Ok(())
    })
    .unwrap();
    records
}

/// Clients may read parts of one file from several servers. So all builds must compute the same
/// bytes for one key. If a change or a new version of a library makes this test fail, give the
/// changed files other keys.
#[test]
fn the_bytes_of_a_file_never_change() {
    let mut hashes = Vec::new();
    for _ in 0..2 {
        let (store, ..) = store();
        let (view, views) = (view(&store), Views::new(store));
        let files = block_on(view.files()).unwrap();
        let computed = files.iter().filter(|file| !matches!(file, File::Data(_) | File::Nested(_)));
        let mut all = blake3::Hasher::new();
        for file in computed {
            all.update(&read(&views, &view.key(*file)).unwrap());
        }
        hashes.push((files.len(), all.finalize().to_hex().to_string()));
    }
    assert_eq!(hashes[0], hashes[1]);
    assert_eq!(
        hashes[0],
        (13, "27711654313d56a5df8b8ac9d4bec2763243438b40e318f59d11bcac0bc33068".to_owned())
    );
}

/// Iceberg's readers need ids of the fields within columns, in the data objects too.
#[test]
fn data_objects_with_nested_columns_are_shown_with_ids() {
    let store = MemStore::new(Options::default());
    let lists = (0..1_000).map(|row| (row % 7 > 0).then(|| (0..row % 5).map(Some).collect::<Vec<_>>()));
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
    let columns: [(&str, ArrayRef); 2] =
        [("id", Arc::new(Int64Array::from_iter_values(0..1_000))), ("tags", Arc::new(lists))];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)));
    let batch = batch.unwrap();
    block_on(async {
        store.create_pool("p").await.unwrap();
        let pool = store.open_pool("p").await.unwrap();
        let definition = Definition::new(&batch.schema()).unwrap();
        let table = Table::create(pool, "t", &definition, Environment::default()).await.unwrap();
        let mut writer = table.writer(WriterOptions::default()).await.unwrap();
        writer.write(&batch).await.unwrap();
        writer.finish().await.unwrap();
    });
    let view = view(&store);
    let (views, files) = (Views::new(store), block_on(view.files()).unwrap());
    let element = (1 << 24) + (2 << 10);
    let (_, metadata) = view.metadata(FormatVersion::V2).unwrap();
    assert_eq!(metadata["last-column-id"], element);
    assert_eq!(metadata["schemas"][0]["fields"][1]["type"]["element-id"], element);
    let shown: Vec<&File> = files.iter().filter(|file| matches!(file, File::Nested(_))).collect();
    let [File::Nested(object)] = shown[..] else { panic!("{files:?}") };
    let bytes = read(&views, &view.key(File::Nested(*object))).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).unwrap();
    let tags = &reader.parquet_schema().root_schema().get_fields()[1];
    assert_eq!(tags.get_fields()[0].get_fields()[0].get_basic_info().id(), element);
    let rows: usize = reader.build().unwrap().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows, 1_000);
    // The manifest has the size with the ids.
    let manifest = files.iter().find(|file| matches!(file, File::Manifest { content: Content::Data, .. }));
    let manifest = records(&read(&views, &view.key(*manifest.unwrap())).unwrap());
    let data = manifest[0].record("data_file").unwrap();
    assert_eq!(data.number("file_size_in_bytes").unwrap(), Some(bytes.len() as i64));
    assert_eq!(data.text("file_path").unwrap(), view.key(File::Nested(*object)).uri());
}

/// Clients of format version 3 find deleted rows as a deletion vector.
#[test]
fn format_version_3_has_deletion_vectors() {
    let (store, ..) = store();
    let (view, views) = (view(&store), Views::new(store));
    let (key, metadata) = view.metadata(FormatVersion::V3).unwrap();
    assert_eq!(read(&views, &key).unwrap(), metadata.to_string());
    assert_eq!(metadata["format-version"], 3);
    assert_eq!(metadata["next-row-id"], 0);
    let file = |uri: &str| records(&read(&views, &Key::of_uri(uri).unwrap()).unwrap());
    let newest = metadata["snapshots"].as_array().unwrap().last().unwrap();
    let listed = file(newest["manifest-list"].as_str().unwrap());
    let of = |content| {
        let found = listed.iter().find(|manifest| manifest.number("content").unwrap() == Some(content));
        file(found.unwrap().text("manifest_path").unwrap())
    };
    let (data, deletes) = (of(0), of(1));
    let (data, file) = (data[0].record("data_file").unwrap(), deletes[0].record("data_file").unwrap());
    assert_eq!((deletes.len(), file.text("file_format").unwrap()), (1, "PUFFIN"));
    assert_eq!(file.text("referenced_data_file").unwrap(), data.text("file_path").unwrap());
    assert_eq!(file.number("record_count").unwrap(), Some(3));
    let vector = read(&views, &Key::of_uri(file.text("file_path").unwrap()).unwrap()).unwrap();
    let number = |name: &'static str| file.number(name).unwrap().unwrap() as usize;
    assert_eq!(number("file_size_in_bytes"), vector.len());
    let blob = &vector[number("content_offset")..][..number("content_size_in_bytes")];
    assert_eq!(blob[4..8], [0xd1, 0xd3, 0x39, 0x64]);
    assert_eq!(u32::from_be_bytes(blob[..4].try_into().unwrap()) as usize, blob.len() - 8);
}

#[test]
fn the_files_of_a_vacuumed_snapshot_are_gone() {
    let (store, environment, clock) = store();
    let (before, views) = (view(&store), Views::new(store.clone()));
    let files = block_on(before.files()).unwrap();
    clock.advance_ms(1_000_000);
    let options = VacuumOptions { keep_snapshots: 1, keep_ms: 0, intent_age_ms: 1 };
    block_on(async {
        let pool = store.open_pool("p").await.unwrap();
        vacuum(pool, "t", &options, &environment).await.unwrap();
    });
    let left = block_on(view(&store).files()).unwrap();
    assert!(left.len() < files.len());
    for file in files {
        let outcome = read(&views, &before.key(file));
        match left.contains(&file) {
            true => assert!(outcome.is_ok(), "{file}"),
            false => assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NotFound, "{file}"),
        }
    }
}

#[test]
fn files_of_other_tables_and_lists_are_missing() {
    let (store, ..) = store();
    let (view, views) = (view(&store), Views::new(store));
    let files = block_on(view.files()).unwrap();
    let mut other = view.folder.clone();
    other.id.0 ^= 1;
    for file in files {
        let error = read(&views, &Key { folder: other.clone(), file }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{file}");
    }
    let snapshot = block_on(async {
        let pool = views.store().open_pool("p").await.unwrap();
        Table::open_snapshot(pool, "t", SnapshotSelector::Current, Environment::default()).await.unwrap()
    });
    assert_eq!(snapshot.rows(), 997);
}

/// Iceberg has no column groups. Snapshots with groups are hidden, and a table is shown again when
/// its groups are joined.
#[test]
fn a_table_with_column_groups_is_refused_until_they_are_joined() {
    let (store, environment, _) = store();
    let pool = block_on(store.open_pool("p")).unwrap();
    let table = block_on(Table::open(pool, "t", environment)).unwrap();
    let before = block_on(view(&store).files()).unwrap();
    let (plain, _) = view(&store).metadata(FormatVersion::V2).unwrap();
    let rewrite = |groups: Vec<Vec<String>>| {
        let change = LayoutChange { groups: Some(groups), ..LayoutChange::default() };
        block_on(table.set_layout(&change)).unwrap();
        assert!(
            view(&store).metadata(FormatVersion::V2).is_err(),
            "new objects have groups, or the newest ones"
        );
        block_on(async {
            let snapshot = table.snapshot(SnapshotSelector::Current).await.unwrap();
            for group in snapshot.to_rewrite(snapshot.layout()).await.unwrap() {
                table.rewrite(&group, &WriterOptions::default(), &mut async |_| Ok(())).await.unwrap();
            }
        });
    };
    rewrite(vec![vec!["name".to_owned()]]);
    let refused = view(&store);
    let error = refused.metadata(FormatVersion::V2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("benthic table rewrite POOL/TABLE --one-group"), "{error}");
    let views = Views::new(store.clone());
    let id = refused.head.snapshots.last().unwrap().id;
    let format = FormatVersion::V2;
    for file in [File::Metadata { snapshot: id, format }, File::ManifestList { snapshot: id, format }] {
        assert_eq!(read(&views, &refused.key(file)).unwrap_err().kind(), ErrorKind::Unsupported);
    }
    // The files of the snapshots before stay, but nothing names a current one.
    let files = block_on(refused.files()).unwrap();
    let hint = |file: &File| matches!(file, File::VersionHint);
    assert_eq!(files, before.into_iter().filter(|file| !hint(file)).collect::<Vec<_>>());
    read(&views, &plain).unwrap();
    rewrite(Vec::new());
    let joined = view(&store);
    let (_, metadata) = joined.metadata(FormatVersion::V2).unwrap();
    let shown = metadata["snapshots"].as_array().unwrap();
    let ids: Vec<u64> = shown.iter().map(|snapshot| snapshot["snapshot-id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [1, 2, 3, id + 1]);
    assert_eq!(shown[3]["parent-snapshot-id"], 3);
    for file in block_on(joined.files()).unwrap() {
        read(&Views::new(store.clone()), &joined.key(file)).unwrap();
    }
}
