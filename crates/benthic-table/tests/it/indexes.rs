//! Building, maintaining and removing table indexes.

use crate::faulty::{FailedWrite, FaultyPool};
use crate::support::{
    append, create, current, definition, definition_of, entries, environment, ids, memory_pool, names,
    on_both_engines, referred, rows, try_append, try_rewrite, try_rewrite_all,
};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::DataType;
use benthic_core::{Environment, ErrorKind, Fetch, ObjectId, Pool, WriteOp, limits};
use benthic_index::{
    LookupResult, LookupStep, Probe, Probes, Ranges, ReadEntries, Search, TextQuery, directory_key,
    entry_keys, page_key,
};
use benthic_table::{
    Alter, Definition, FileEntry, FsckResult, INDEXES_MAX, Index, IndexBuildResult, IndexKind, LayoutChange,
    Operation, Rows, Snapshot, SnapshotSelector, Table, VacuumOptions, WriterOptions, drop_table, vacuum,
};
use bytes::Bytes;
use futures::TryStreamExt;
use futures::executor::block_on;
use std::collections::BTreeMap;
use std::sync::Arc;

fn object(table: &Table, entry: &FileEntry) -> ObjectId {
    entry.object.object_id(table.id()).unwrap()
}

fn read_entries(pool: &Arc<dyn Pool>, object: &ObjectId, keys: &[Bytes]) -> BTreeMap<Bytes, Bytes> {
    let (page, _) = block_on(pool.fetch(object, Fetch::omap_get(keys.to_vec()))).unwrap();
    page.entries.into_iter().collect()
}

fn build(snapshot: &Snapshot) -> Vec<IndexBuildResult> {
    block_on(snapshot.build_indexes(false).try_collect()).unwrap()
}

fn fsck(table: &Table, repair: bool) -> (Vec<String>, usize, usize) {
    let checked: Vec<FsckResult> = block_on(current(table).fsck(repair).try_collect()).unwrap();
    let findings = checked.iter().flat_map(|checked| &checked.findings).map(ToString::to_string).collect();
    let sum = |of: fn(&FsckResult) -> usize| checked.iter().map(of).sum();
    (findings, sum(|checked| checked.unindexed), sum(|checked| checked.repaired))
}

fn is_well(table: &Table) {
    assert_eq!(fsck(table, false), (Vec::new(), 0, 0));
}

/// Looks up rows of an object by the index's first column, a number. The result is empty if the
/// object has no index pages.
fn look_up(table: &Table, entry: &FileEntry, index: &Index, id: i64) -> LookupResult {
    let value: ArrayRef = Arc::new(Int64Array::from(vec![id]));
    look_up_all(table, entry, &Probe::new(index, &[Ranges::equal(&value).unwrap()]).unwrap().into())
}

/// Looks up rows of an object by a word of its texts.
fn look_up_word(table: &Table, entry: &FileEntry, index: &Index, word: &str) -> LookupResult {
    let query = TextQuery::new(Search::Words, word);
    look_up_all(table, entry, &Probe::words(index, &query).unwrap())
}

fn look_up_all(table: &Table, entry: &FileEntry, probes: &Probes) -> LookupResult {
    let mut known = ReadEntries::default();
    loop {
        match probes.look_up(&known).unwrap() {
            LookupStep::Done(found) => return found,
            LookupStep::Read(keys) => {
                let found = read_entries(table.pool(), &object(table, entry), &keys);
                known.add(keys, found.into_iter().collect());
            }
        }
    }
}

/// The number of objects in which the index finds the row with this id. No object may contain it
/// twice.
fn found_in(table: &Table, index: &Index, id: i64) -> usize {
    let found = entries(&current(table)).into_iter().filter(|entry| {
        let found = look_up(table, entry, index, id).rows.expect("the object has pages, and they are few");
        assert!(found.count() <= 1);
        !found.is_empty()
    });
    found.count()
}

#[test]
fn an_index_finds_rows_appended_before_and_after_it() {
    on_both_engines(|pool, other| {
        let table = create(&pool, "t", &definition(), &environment().0);
        append(&table, &rows(0..500));
        let index = block_on(table.add_index(&["id"])).unwrap();
        assert_eq!(block_on(table.add_index(&["id"])).unwrap(), index, "it is there already");
        let snapshot = append(&table, &rows(500..900));
        // The first object has no index pages yet; the second has all.
        let [first, second] = &entries(&snapshot)[..] else { panic!("two objects") };
        assert_eq!(look_up(&table, first, &index, 7), LookupResult::default());
        assert_eq!(
            look_up(&table, second, &index, 507).rows.unwrap().ranges(),
            std::slice::from_ref(&(7..8))
        );
        assert_eq!(fsck(&table, false), (Vec::new(), 1, 0));
        assert_eq!(build(&snapshot).iter().map(|built| built.built).sum::<usize>(), 1);
        assert_eq!(build(&snapshot).iter().map(|built| built.built).sum::<usize>(), 0, "all is there");
        // Another process finds the same rows.
        let there = block_on(Table::open(other, "t", environment().0)).unwrap();
        for id in [0, 7, 499, 500, 899] {
            assert_eq!((found_in(&table, &index, id), found_in(&there, &index, id)), (1, 1), "{id}");
        }
        assert_eq!(found_in(&table, &index, 900), 0);
        is_well(&there);
        // The data objects are unchanged.
        assert_eq!(ids(&snapshot), (0..900).collect::<Vec<_>>());
    });
}

#[test]
fn the_number_of_a_dropped_index_is_not_reused() {
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment().0);
    append(&table, &rows(0..500));
    let index = block_on(table.add_index(&["id"])).unwrap();
    build(&current(&table));
    let entry = entries(&current(&table))[0].clone();
    let keys = entry_keys(index.number);
    assert!(read_entries(&pool, &object(&table, &entry), &keys).len() > 1);
    assert_eq!(block_on(table.drop_index(&["id"])).unwrap(), index);
    block_on(current(&table).remove_pages(index.number).try_collect::<Vec<_>>()).unwrap();
    assert_eq!(read_entries(&pool, &object(&table, &entry), &keys), BTreeMap::new());
    let error = block_on(table.drop_index(&["id"])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let next = block_on(table.add_index(&["id"])).unwrap();
    assert!(next.number > index.number);
    // Indexes are removed with their table and with their snapshots.
    build(&current(&table));
    let options = VacuumOptions { keep_snapshots: 1, keep_ms: 0, intent_age_ms: 0 };
    block_on(vacuum(Arc::clone(&pool), "t", &options, &environment().0)).unwrap();
    is_well(&table);
    block_on(drop_table(Arc::clone(&pool), "t", false, &environment().0)).unwrap();
    assert!(names(&pool, &table.id().namespace()).is_empty());
}

#[test]
fn an_index_stays_correct_while_columns_change() {
    let pool = memory_pool();
    let schema = arrow::datatypes::Schema::new(vec![
        arrow::datatypes::Field::new("id", DataType::Int32, true),
        arrow::datatypes::Field::new("name", DataType::Utf8, true),
    ]);
    let definition = definition_of(&schema, 1024 * 1024);
    let table = create(&pool, "t", &definition, &environment().0);
    let index = block_on(table.add_index(&["id"])).unwrap();
    let some = |from: i32| {
        let numbers: ArrayRef = Arc::new(arrow::array::Int32Array::from_iter_values(from..from + 50));
        arrow::array::RecordBatch::try_from_iter_with_nullable([("id", numbers, true)]).unwrap()
    };
    append(&table, &some(0));
    let changes = [
        Alter::Rename { from: "id".to_owned(), to: "number".to_owned() },
        Alter::Widen { name: "number".to_owned(), data_type: DataType::Int64 },
        Alter::Add { name: "id".to_owned(), data_type: DataType::Utf8 },
    ];
    block_on(table.alter(&changes)).unwrap();
    let later: ArrayRef = Arc::new(Int64Array::from_iter_values(50..100));
    append(
        &table,
        &arrow::array::RecordBatch::try_from_iter_with_nullable([("number", later, true)]).unwrap(),
    );
    assert_eq!((found_in(&table, &index, 7), found_in(&table, &index, 57)), (1, 1));
    // An index over a column that the first object lacks.
    block_on(table.add_index(&["id", "number"])).unwrap();
    build(&current(&table));
    is_well(&table);
    for name in ["number", "id"] {
        let error = block_on(table.alter(&[Alter::Drop { name: name.to_owned() }])).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("benthic table index"), "{error}");
    }
    block_on(table.drop_index(&["id", "number"])).unwrap();
    block_on(table.alter(&[Alter::Drop { name: "id".to_owned() }])).unwrap();
    is_well(&table);
}

#[test]
fn invalid_indexes_are_refused_and_change_nothing() {
    let pool = memory_pool();
    let list = arrow::datatypes::Field::new("element", DataType::Int64, true);
    let columns = (0..10).map(|n| arrow::datatypes::Field::new(format!("c{n}"), DataType::Int64, true));
    let columns = columns.chain([arrow::datatypes::Field::new("list", DataType::List(Arc::new(list)), true)]);
    let schema = arrow::datatypes::Schema::new(columns.collect::<Vec<_>>());
    let table = create(&pool, "t", &Definition::new(&schema).unwrap(), &environment().0);
    let before = block_on(table.head()).unwrap();
    for (columns, kind, word) in [
        (&["c10"][..], ErrorKind::InvalidArgument, "did you mean \"c"),
        (&["C1"], ErrorKind::InvalidArgument, "did you mean \"c1\""),
        (&[], ErrorKind::InvalidArgument, "1 to 4 columns"),
        (&["c1", "c2", "c3", "c4", "c5"], ErrorKind::InvalidArgument, "1 to 4 columns"),
        (&["c1", "c2", "c1"], ErrorKind::InvalidArgument, "twice"),
        (&["c1", "list"], ErrorKind::Unsupported, "cannot be indexed"),
    ] {
        let error = block_on(table.add_index(columns)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(word) && error.to_string().contains("table=p/t"), "{error}");
        assert_eq!(block_on(table.head()).unwrap(), before);
    }
    for n in 0..INDEXES_MAX {
        block_on(table.add_index(&[format!("c{n}").as_str()])).unwrap();
    }
    let error = block_on(table.add_index(&["c9"])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}

#[test]
fn a_load_with_large_indexes_is_split_into_more_objects() {
    let pool = memory_pool();
    // Long strings with little entropy: the rows compress well, their keys less so.
    let texts = |n: u64| format!("{:0>64}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let column = |salt: u64| -> ArrayRef {
        Arc::new(arrow::array::StringArray::from_iter_values((0..150_000).map(|n| texts(n ^ salt))))
    };
    let batch =
        arrow::array::RecordBatch::try_from_iter([("a", column(1)), ("b", column(2)), ("c", column(3))]);
    let batch = batch.unwrap();
    let definition = definition_of(&batch.schema(), 64 * 1024 * 1024);
    let table = create(&pool, "t", &definition, &environment().0);
    for columns in [["a", "b", "c"], ["b", "a", "c"], ["c", "a", "b"], ["c", "b", "a"]] {
        block_on(table.add_index(&columns)).unwrap();
    }
    append(&table, &batch);
    assert!(entries(&current(&table)).len() > 1);
    is_well(&table);
}

#[test]
fn a_text_index_finds_words_and_is_checked() {
    on_both_engines(|pool, _| {
        let table = create(&pool, "t", &definition(), &environment().0);
        append(&table, &rows(0..500));
        let index = block_on(table.add_text_index("name")).unwrap();
        assert_eq!(block_on(table.add_text_index("name")).unwrap(), index, "it is there already");
        // An index of the column's values is another index.
        let values = block_on(table.add_index(&["name"])).unwrap();
        assert_ne!(values.number, index.number);
        append(&table, &rows(500..900));
        assert_eq!(fsck(&table, false), (Vec::new(), 2, 0));
        build(&current(&table));
        is_well(&table);
        let [first, second] = &entries(&current(&table))[..] else { panic!("two objects") };
        let found = |entry, word: &str| look_up_word(&table, entry, &index, word).rows;
        assert_eq!(found(first, "7").unwrap().ranges(), std::slice::from_ref(&(7..8)));
        assert_eq!(found(second, "507").unwrap().ranges(), std::slice::from_ref(&(7..8)));
        assert!(found(second, "7").unwrap().is_empty());
        assert_eq!(found(first, "row"), None, "too many rows");
        // fsck compares words with texts.
        let (one, other) = (object(&table, first), object(&table, second));
        let foreign = read_entries(&pool, &other, &entry_keys(index.number));
        block_on(pool.write(&one, WriteOp::new().omap_set(foreign))).unwrap();
        let (findings, _, repaired) = fsck(&table, true);
        assert_eq!((findings.len(), repaired), (1, 1), "{findings:?}");
        is_well(&table);
        let error = block_on(table.alter(&[Alter::Drop { name: "name".to_owned() }])).err().unwrap();
        assert!(error.to_string().contains("--drop"), "{error}");
        for (column, kind) in [("id", ErrorKind::Unsupported), ("nome", ErrorKind::InvalidArgument)] {
            assert_eq!(block_on(table.add_text_index(column)).unwrap_err().kind(), kind);
        }
        assert_eq!(block_on(table.drop_text_index("name")).unwrap(), index);
        block_on(current(&table).remove_pages(index.number).try_collect::<Vec<_>>()).unwrap();
        assert_eq!(read_entries(&pool, &one, &entry_keys(index.number)), BTreeMap::new());
        is_well(&table);
        assert_eq!(block_on(table.head()).unwrap().indexes, [values]);
    });
}

/// Compaction and rewrite write the pages of every index with the new objects, and a vacuum removes
/// those of the old objects with them.
#[test]
fn compaction_rewrite_and_vacuum_keep_indexes_of_words_and_values() {
    let pool = memory_pool();
    let (environment, clock) = environment();
    let table = create(&pool, "t", &definition(), &environment);
    append(&table, &rows(0..500));
    let words = block_on(table.add_text_index("name")).unwrap();
    let values = block_on(table.add_index(&["id"])).unwrap();
    let snapshot = append(&table, &rows(500..900));
    // One row is deleted, and the first object has no pages.
    let changed = block_on(async {
        let entry = entries_of(&snapshot).await.into_iter().find(|entry| entry.rows == 400).unwrap();
        let mut writer = snapshot.change(Operation::Delete, WriterOptions::default()).await.unwrap();
        writer.delete(&entry, &Rows::new(std::iter::once(7..8).collect(), 400)).unwrap();
        writer.finish().await.unwrap()
    });
    assert_eq!(fsck(&table, false), (Vec::new(), 2, 0));
    let old: Vec<ObjectId> = entries(&changed).iter().map(|entry| object(&table, entry)).collect();
    let check = |context: &str| {
        is_well(&table);
        let [entry] = &entries(&current(&table))[..] else { panic!("one object") };
        let batches: Vec<RecordBatch> = block_on(async {
            let snapshot = table.snapshot(SnapshotSelector::Current).await?;
            snapshot.read(entry, snapshot.schema()).await?.try_collect().await
        })
        .unwrap();
        let all = concat_batches(&batches[0].schema(), &batches).unwrap();
        let names = all.column(2).as_string::<i32>();
        assert_eq!(names.len(), 899, "{context}");
        for id in [0, 7, 499, 500, 507, 899] {
            let place = names.iter().position(|name| name == Some(&format!("row {id}")));
            let expected: Vec<std::ops::Range<u32>> =
                place.map(|place| place as u32..place as u32 + 1).into_iter().collect();
            let found = look_up_word(&table, entry, &words, &id.to_string()).rows.unwrap();
            assert_eq!(found.ranges(), expected, "{context} {id}");
            assert_eq!(
                look_up(&table, entry, &values, id).rows.unwrap().ranges(),
                expected,
                "{context} {id}"
            );
            assert_eq!(place.is_none(), id == 507, "the deleted row is gone");
        }
    };
    block_on(try_rewrite(&table, block_on(changed.to_compact(false, &WriterOptions::default())).unwrap()))
        .unwrap();
    check("compacted");
    let sort = Some(vec!["name".to_owned()]);
    block_on(table.set_layout(&LayoutChange { sort, ..LayoutChange::default() })).unwrap();
    assert_eq!(block_on(try_rewrite_all(&table)).unwrap(), 1);
    check("sorted by another column");
    let pages = |old: &ObjectId| block_on(pool.fetch(old, Fetch::omap_range(None, "", 1)));
    assert!(old.iter().any(|old| !pages(old).unwrap().0.entries.is_empty()));
    clock.advance_ms(1);
    let options = VacuumOptions { keep_snapshots: 1, keep_ms: 0, intent_age_ms: 0 };
    block_on(vacuum(Arc::clone(&pool), "t", &options, &environment)).unwrap();
    check("vacuumed");
    assert!(old.iter().all(|old| pages(old).unwrap_err().kind() == ErrorKind::NotFound));
    assert_eq!(names(&pool, &table.id().namespace()), referred(&table));
}

async fn entries_of(snapshot: &Snapshot) -> Vec<FileEntry> {
    snapshot.entries().try_collect().await.unwrap()
}

/// A second run completes an interrupted build, and lookups never miss a row in between.
#[test]
fn an_interrupted_build_can_be_continued() {
    for last in [FailedWrite::NotApplied, FailedWrite::Applied] {
        for operations in 0.. {
            let pool = memory_pool();
            let (environment, _) = environment();
            let table = create(&pool, "t", &definition(), &environment);
            (0..3).for_each(|part| drop(append(&table, &rows(part * 100..part * 100 + 100))));
            let faulty = FaultyPool::new(&pool, operations, last);
            let outcome = block_on(index_it(faulty.clone(), &environment));
            let head = block_on(table.head()).unwrap();
            for index in &head.indexes {
                for id in [0, 150, 299] {
                    let look_up = |entry: &FileEntry| match index.kind {
                        IndexKind::Values | IndexKind::Elements => look_up(&table, entry, index, id),
                        IndexKind::Words => look_up_word(&table, entry, index, &id.to_string()),
                    };
                    let there = entries(&current(&table))
                        .into_iter()
                        .filter(|entry| look_up(entry).rows.is_none_or(|rows| !rows.is_empty()));
                    assert!(there.count() > 0, "operations={operations} {outcome:?}");
                }
            }
            assert_eq!(fsck(&table, false).0, Vec::<String>::new(), "operations={operations}");
            block_on(index_it(Arc::clone(&pool), &environment)).unwrap();
            is_well(&table);
            assert_eq!(found_in(&table, &block_on(table.head()).unwrap().indexes[0], 150), 1);
            block_on(try_append(&table, &[rows(300..310)], WriterOptions::default())).unwrap();
            if faulty.is_well() {
                outcome.unwrap();
                assert!(operations > 8, "operations={operations}");
                break;
            }
        }
    }
}

async fn index_it(pool: Arc<dyn Pool>, environment: &Environment) -> benthic_core::Result<()> {
    let table = Table::open(pool, "t", environment.clone()).await?;
    table.add_index(&["id"]).await?;
    table.add_text_index("name").await?;
    let snapshot = table.snapshot(benthic_table::SnapshotSelector::Current).await?;
    snapshot.build_indexes(false).try_collect::<Vec<_>>().await.map(drop)
}

#[test]
fn fsck_finds_damage_and_repairs_indexes() {
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment().0);
    let index = block_on(table.add_index(&["id"])).unwrap();
    append(&table, &rows(0..20_000));
    append(&table, &rows(20_000..20_100));
    is_well(&table);
    let [first, second] = &entries(&current(&table))[..] else { panic!("two objects") };
    let (one, other) = (object(&table, first), object(&table, second));
    let good = read_entries(&pool, &one, &entry_keys(index.number));
    assert!(good.len() > 2, "several pages: {}", good.len());
    let page = page_key(index.number, 1);
    let flipped = {
        let mut value = good[&page].to_vec();
        value[20] ^= 1;
        Bytes::from(value)
    };
    // Valid index pages of other rows.
    let foreign = read_entries(&pool, &other, &entry_keys(index.number));
    let write = |op: WriteOp| block_on(pool.write(&one, op)).map(|_| ()).unwrap();
    let harms = [
        WriteOp::new().omap_set([(page.clone(), flipped)]),
        WriteOp::new().omap_remove([page.clone()]),
        WriteOp::new().omap_set(foreign),
        WriteOp::new().omap_set([(directory_key(index.number), Bytes::from("nonsense"))]),
    ];
    for harm in harms {
        write(harm);
        let (findings, _, repaired) = fsck(&table, false);
        assert!(findings.len() == 1 && repaired == 0, "{findings:?}");
        let named = format!("object={}", first.object);
        assert!(findings[0].contains(&named) && findings[0].contains("table=p/t"), "{findings:?}");
        let (findings, _, repaired) = fsck(&table, true);
        assert!(findings.len() == 1 && repaired == 1, "{findings:?}");
        is_well(&table);
        assert_eq!(read_entries(&pool, &one, &entry_keys(index.number)), good);
    }
}

#[test]
fn fsck_goes_on_after_index_pages_that_are_too_large_to_be_read() {
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment().0);
    let index = block_on(table.add_index(&["id"])).unwrap();
    for part in 0..3 {
        append(&table, &rows(part * 100..part * 100 + 100));
    }
    let found = entries(&current(&table));
    let keys = entry_keys(index.number);
    let good: Vec<_> = found.iter().map(|entry| read_entries(&pool, &object(&table, entry), &keys)).collect();
    let value = Bytes::from(vec![0; limits::OMAP_VALUE_BYTES_MAX]);
    let too_many = limits::OPERATION_BYTES_MAX / value.len() as u64 + 1;
    for number in 1..=u16::try_from(too_many).unwrap() {
        let op = WriteOp::new().omap_set([(page_key(index.number, number), value.clone())]);
        block_on(pool.write(&object(&table, &found[0]), op)).unwrap();
    }
    let op = WriteOp::new().omap_remove([page_key(index.number, 0)]);
    block_on(pool.write(&object(&table, &found[2]), op)).unwrap();
    let (findings, _, repaired) = fsck(&table, false);
    assert!(findings.len() == 2 && repaired == 0, "{findings:?}");
    let named = format!("object={}", found[0].object);
    assert!(findings.iter().any(|told| told.contains("too large") && told.contains(&named)), "{findings:?}");
    let (_, _, repaired) = fsck(&table, true);
    assert_eq!(repaired, 2);
    is_well(&table);
    for (entry, good) in found.iter().zip(good) {
        assert_eq!(read_entries(&pool, &object(&table, entry), &keys), good);
    }
}

#[test]
fn fsck_finds_objects_that_differ_from_their_lists() {
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment().0);
    for part in 0..3 {
        append(&table, &rows(part * 100..part * 100 + 100));
    }
    is_well(&table);
    let found: Vec<ObjectId> = entries(&current(&table)).iter().map(|entry| object(&table, entry)).collect();
    let read = |object: &ObjectId| block_on(pool.read_range(object, 0, 1 << 20)).unwrap();
    let (one, other) = (read(&found[0]), read(&found[1]));
    // Valid Parquet files with the same number of rows, swapped.
    for (place, data, word) in [(1, one, "value"), (0, other.slice(..other.len() / 2), "size")] {
        let before = read(&found[place]);
        block_on(pool.write_full(&found[place], data)).unwrap();
        let (findings, ..) = fsck(&table, true);
        assert!(
            findings.len() == 1 && (findings[0].contains(word) || findings[0].contains("size")),
            "{findings:?}"
        );
        block_on(pool.write_full(&found[place], before)).unwrap();
        is_well(&table);
    }
    block_on(pool.remove(&found[2])).unwrap();
    let (findings, ..) = fsck(&table, false);
    assert!(findings.len() == 1 && findings[0].contains("lost"), "{findings:?}");
    // A missing file list, and with it the statistics of its objects.
    let list = current(&table).lists()[0].object.object_id(table.id()).unwrap();
    block_on(pool.remove(&list)).unwrap();
    let (findings, ..) = fsck(&table, false);
    assert!(findings.iter().any(|finding| finding.contains("object=l/")), "{findings:?}");
}
