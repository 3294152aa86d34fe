//! Changes of the layout: codecs, sizes, sort order, and the rewrite of existing objects.

#![allow(clippy::single_range_in_vec_init, reason = "a set of rows is a list of ranges, also of one")]

use crate::support::{
    DAY_MS, append, create, current, definition, definition_of, entries, environment, findings, ids,
    memory_pool, names, on_both_engines, read, referred, rows, schema, try_append, try_rewrite,
    try_rewrite_all,
};
use arrow::array::{AsArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{lexsort_to_indices, take_record_batch};
use arrow::datatypes::{DataType, Int64Type};
use benthic_core::{Environment, Error, ErrorKind, Result};
use benthic_table::{
    Alter, Codec, Definition, FileEntry, LayoutChange, Operation, Partitioning, RowStream, Rows, Snapshot,
    SnapshotSelector, Table, VacuumOptions, WriterOptions, drop_table, vacuum,
};
use benthic_testkit::random::Rng;
use futures::executor::block_on;
use futures::stream::{self, StreamExt, TryStreamExt};
use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const MIB: u64 = 1024 * 1024;

fn footer(table: &Table, entry: &FileEntry) -> ParquetMetaData {
    let object = entry.object.object_id(table.id()).unwrap();
    let bytes = block_on(table.pool().read_range(&object, 0, entry.bytes)).unwrap();
    SerializedFileReader::new(bytes).unwrap().metadata().clone()
}

fn codecs(table: &Table) -> Vec<Compression> {
    let mut found = Vec::new();
    for entry in entries(&current(table)) {
        for group in footer(table, &entry).row_groups() {
            found.extend(group.columns().iter().map(|chunk| chunk.compression()));
        }
    }
    found.dedup();
    found
}

fn set(table: &Table, change: LayoutChange) {
    block_on(table.set_layout(&change)).unwrap();
}

fn by(columns: &[&str]) -> LayoutChange {
    let sort = columns.iter().map(|column| (*column).to_owned()).collect();
    LayoutChange { sort: Some(sort), ..LayoutChange::default() }
}

fn codec(codec: Codec) -> LayoutChange {
    LayoutChange { codec: Some(codec), ..LayoutChange::default() }
}

/// All rows of a snapshot, sorted by `id`.
fn all_rows(snapshot: &Snapshot) -> RecordBatch {
    let rows = read(snapshot);
    let by_id = arrow::compute::SortColumn { values: rows.column(0).clone(), options: None };
    take_record_batch(&rows, &lexsort_to_indices(&[by_id], None).unwrap()).unwrap()
}

/// Deletes the first rows of the largest object.
async fn delete(table: &Table, rows: u32) -> Result<Snapshot> {
    let snapshot = table.snapshot(SnapshotSelector::Current).await?;
    let entries: Vec<FileEntry> = snapshot.entries().try_collect().await?;
    let entry = entries.iter().max_by_key(|entry| entry.rows).unwrap();
    let mut writer = snapshot.change(Operation::Delete, WriterOptions::default()).await?;
    writer.delete(entry, &Rows::new(vec![0..rows], entry.rows as u32))?;
    writer.finish().await
}

#[test]
fn every_codec_keeps_the_rows_and_old_snapshots_keep_their_objects() {
    let codecs_in_turn = [
        (Codec::Zstd { level: 9 }, "zstd:9"),
        (Codec::Lz4, "lz4"),
        (Codec::None, "none"),
        (Codec::Zstd { level: 1 }, "zstd:1"),
        (Codec::Snappy, "snappy"),
    ];
    on_both_engines(|pool, other| {
        let (environment, clock) = environment();
        let partitioning = Partitioning::Hash { field: 1, buckets: 2 };
        let table = create(&pool, "t", &Definition { partitioning, ..definition() }, &environment);
        append(&table, &rows(0..20_000));
        append(&table, &rows(20_000..20_500));
        let before = block_on(delete(&table, 7)).unwrap();
        block_on(table.tag("before", SnapshotSelector::Current)).unwrap();
        let expected = all_rows(&before);
        for (next, text) in codecs_in_turn {
            set(&table, codec(next));
            let objects = current(&table).objects() as usize;
            assert_eq!(block_on(try_rewrite_all(&table)).unwrap(), objects);
            assert_eq!(all_rows(&current(&table)), expected, "{text}");
            assert_eq!(findings(&current(&table)), [""; 0]);
            let [found] = codecs(&table)[..] else { panic!("one codec") };
            let same = matches!(
                (found, next),
                (Compression::ZSTD(_), Codec::Zstd { .. })
                    | (Compression::LZ4_RAW, Codec::Lz4)
                    | (Compression::UNCOMPRESSED, Codec::None)
                    | (Compression::SNAPPY, Codec::Snappy)
            );
            assert!(same, "{found:?} {text}");
            assert_eq!(block_on(table.head()).unwrap().layout.codec.to_string(), text);
            // Rows that are added later have the codec too, and a compaction keeps it.
            append(&table, &rows(30_000..30_010));
            assert_eq!(codecs(&table), [found]);
            assert!(entries(&current(&table)).iter().all(|entry| entry.deleted.is_none()));
            block_on(table.rollback(SnapshotSelector::Id(current(&table).id() - 1))).unwrap();
            // Nothing is left to do. Another level is another layout.
            assert_eq!(block_on(try_rewrite_all(&table)).unwrap(), 0);
        }
        assert_eq!(current(&table).operation(), Operation::Rollback);
        // The tagged snapshot still has its objects, here and in another process, until it is
        // vacuumed.
        let there = block_on(Table::open(other, "t", environment.clone())).unwrap();
        let tagged = || block_on(there.snapshot(SnapshotSelector::Tag("before".to_owned()))).unwrap();
        clock.advance_ms(1);
        let options = VacuumOptions { keep_snapshots: 1, keep_ms: 0, intent_age_ms: 0 };
        block_on(vacuum(pool.clone(), "t", &options, &environment)).unwrap();
        assert_eq!((all_rows(&tagged()), tagged().objects()), (expected.clone(), before.objects()));
        block_on(table.untag("before")).unwrap();
        block_on(vacuum(pool.clone(), "t", &options, &environment)).unwrap();
        assert_eq!(names(&pool, &table.id().namespace()), referred(&table));
        assert_eq!(all_rows(&current(&there)), expected);
    });
}

#[test]
fn sizes_change_in_both_directions() {
    let table = create(&memory_pool(), "t", &definition(), &environment().0);
    append(&table, &rows(0..400_000));
    let expected = all_rows(&current(&table));
    let largest_group = |entry: &FileEntry| {
        footer(&table, entry).row_groups().iter().map(|group| group.num_rows()).max().unwrap()
    };
    let small = current(&table);
    assert!(small.objects() > 2);
    for (object_bytes, row_group_bytes, objects, groups) in
        [(64 * MIB, 64 * MIB, 1..=1, 400_000..=400_000), (MIB, MIB, 2..=20, 1..=16 * 1024)]
    {
        let (object_bytes, row_group_bytes) = (Some(object_bytes), Some(row_group_bytes));
        set(&table, LayoutChange { object_bytes, row_group_bytes, ..LayoutChange::default() });
        block_on(try_rewrite_all(&table)).unwrap();
        let now = current(&table);
        assert!(objects.contains(&now.objects()), "{}", now.objects());
        assert!(entries(&now).iter().all(|entry| groups.contains(&largest_group(entry))));
        assert_eq!((all_rows(&now), findings(&now)), (expected.clone(), Vec::new()));
    }
    let wrong = LayoutChange { row_group_bytes: Some(1), ..LayoutChange::default() };
    assert_eq!(block_on(table.set_layout(&wrong)).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// The ids in the order in which objects have them.
fn stored(table: &Table) -> Vec<Vec<i64>> {
    let snapshot = current(table);
    let of = |entry: &FileEntry| {
        let rows = block_on(async { snapshot.read(entry, snapshot.schema()).await?.try_collect().await });
        let batches: Vec<RecordBatch> = rows.unwrap();
        batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
            .collect()
    };
    entries(&snapshot).iter().map(of).collect()
}

#[test]
fn objects_are_sorted_as_the_table_says_and_otherwise_keep_their_order() {
    let table = create(&memory_pool(), "t", &definition(), &environment().0);
    let mut random = Rng(5);
    let mut order: Vec<u32> = (0..1_000).collect();
    for place in (1..order.len()).rev() {
        order.swap(place, random.below(place + 1));
    }
    append(&table, &take_record_batch(&rows(0..1_000), &UInt32Array::from(order.clone())).unwrap());
    let shuffled: Vec<i64> = order.iter().map(|id| i64::from(*id)).collect();
    // Without a sort order, rows keep theirs, also when objects are joined.
    append(&table, &rows(2_000..2_010));
    set(&table, codec(Codec::Lz4));
    block_on(try_rewrite_all(&table)).unwrap();
    assert_eq!(stored(&table), [[shuffled, (2_000..2_010).collect()].concat()]);
    set(&table, by(&["price", "id"]));
    assert_eq!(block_on(try_rewrite_all(&table)).unwrap(), 1);
    let nulls_first = |id: &i64| (id % 7 != 0, *id);
    let is_sorted = |ids: &Vec<i64>| {
        let (nulls, values): (Vec<i64>, Vec<i64>) = ids.iter().partition(|id| **id % 7 == 0);
        *ids == [nulls, values].concat() && ids.is_sorted_by_key(nulls_first)
    };
    assert!(stored(&table).iter().all(is_sorted));
    let sorted = footer(&table, &entries(&current(&table))[0]).row_group(0).sorting_columns().cloned();
    assert_eq!(sorted.unwrap().iter().map(|column| column.column_idx).collect::<Vec<_>>(), [1, 0]);
    // Appends and compactions sort too.
    append(&table, &take_record_batch(&rows(5_000..5_010), &UInt32Array::from(vec![9, 3, 8, 1])).unwrap());
    assert!(stored(&table).len() == 2 && stored(&table).iter().all(is_sorted));
    block_on(try_rewrite(
        &table,
        block_on(current(&table).to_compact(false, &WriterOptions::default())).unwrap(),
    ))
    .unwrap();
    assert!(stored(&table).len() == 1 && stored(&table).iter().all(is_sorted));
    // Back to no order: the rows stay as they are, and the footer promises nothing.
    let before = stored(&table);
    set(&table, by(&[]));
    assert_eq!(block_on(try_rewrite_all(&table)).unwrap(), 1);
    assert_eq!(stored(&table), before);
    assert_eq!(footer(&table, &entries(&current(&table))[0]).row_group(0).sorting_columns(), None);
}

#[test]
fn a_sort_column_is_neither_dropped_nor_rolled_back() {
    let table = create(&memory_pool(), "t", &definition(), &environment().0);
    append(&table, &rows(0..10));
    let add = Alter::Add { name: "extra".to_owned(), data_type: DataType::Int32 };
    block_on(table.alter(&[add])).unwrap();
    set(&table, by(&["extra"]));
    let drop = || block_on(table.alter(&[Alter::Drop { name: "extra".to_owned() }]));
    let error = drop().err().unwrap();
    assert!(
        error.kind() == ErrorKind::InvalidArgument && error.to_string().contains("--unsorted"),
        "{error}"
    );
    let error = block_on(table.rollback(SnapshotSelector::Id(2))).err().unwrap();
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("--unsorted"), "{error}");
    let missing = block_on(table.set_layout(&by(&["extr"]))).unwrap_err();
    assert!(missing.to_string().contains("did you mean \"extra\""), "{missing}");
    set(&table, by(&[]));
    drop().unwrap();
    block_on(table.rollback(SnapshotSelector::Id(2))).unwrap();
    assert_eq!(ids(&current(&table)), (0..10).collect::<Vec<_>>());
}

#[test]
fn appends_deletes_and_new_columns_during_a_rewrite_are_kept() {
    let table = create(&memory_pool(), "t", &definition(), &environment().0);
    append(&table, &rows(0..1_000));
    set(&table, codec(Codec::Zstd { level: 1 }));
    let groups = block_on(current(&table).to_rewrite(current(&table).layout())).unwrap();
    let mut calls = 0;
    let mut disturb = async |_| {
        calls += 1;
        match calls {
            // The appended object has the new layout already. The new index makes the rewrite start
            // again, because the new objects would lack its pages.
            1 => {
                try_append(&table, &[rows(5_000..5_003)], WriterOptions::default()).await?;
                table.add_index(&["id"]).await?;
                let now = table.snapshot(SnapshotSelector::Current).await?;
                now.build_indexes(false).try_for_each(async |_| Ok(())).await?;
            }
            2 => {
                let add = Alter::Add { name: "extra".to_owned(), data_type: DataType::Int32 };
                table.alter(&[add]).await?;
                try_append(&table, &[rows(6_000..6_001)], WriterOptions::default()).await?;
            }
            _ => {}
        }
        Ok(())
    };
    let options = WriterOptions::default();
    let replaced = block_on(table.rewrite(&groups[0], &options, &mut disturb)).unwrap().replaced;
    assert_eq!((replaced.len(), calls), (1, 2));
    let expected: Vec<i64> = (0..1_000).chain(5_000..5_003).chain(6_000..6_001).collect();
    assert_eq!((ids(&current(&table)), findings(&current(&table))), (expected, Vec::new()));
    assert!(entries(&current(&table)).iter().all(|entry| entry.deleted.is_none()));
    // Another process has replaced the objects meanwhile: nothing is left to do.
    assert_eq!(block_on(try_rewrite(&table, groups)).unwrap(), 0);
}

/// Rewrites, appends, and vacuums with no retention, from threads and through a socket.
#[test]
fn rewrites_beside_appends_and_vacuums_lose_no_rows() {
    const APPENDS: i64 = 12;
    on_both_engines(|pool, other| {
        let table = create(&pool, "t", &definition(), &Environment::default());
        append(&table, &rows(0..100));
        let done = AtomicBool::new(false);
        // The vacuum may remove the snapshot that is being rewritten.
        let is_expected = |kind| matches!(kind, ErrorKind::Conflict | ErrorKind::NotFound);
        thread::scope(|scope| {
            scope.spawn(|| {
                for part in 1..=APPENDS {
                    append(&table, &rows(part * 100..(part + 1) * 100));
                }
                done.store(true, Ordering::SeqCst);
            });
            scope.spawn(|| {
                let options = VacuumOptions { keep_snapshots: 1, keep_ms: 0, intent_age_ms: DAY_MS };
                while !done.load(Ordering::SeqCst) {
                    block_on(vacuum(Arc::clone(&pool), "t", &options, &Environment::default())).unwrap();
                }
            });
            let there = block_on(Table::open(Arc::clone(&other), "t", Environment::default())).unwrap();
            for next in [Codec::Lz4, Codec::None].iter().cycle() {
                if done.load(Ordering::SeqCst) {
                    break;
                }
                set(&there, codec(*next));
                let rewritten = block_on(try_rewrite_all(&there));
                assert!(
                    rewritten.as_ref().err().is_none_or(|error| is_expected(error.kind())),
                    "{rewritten:?}"
                );
            }
        });
        block_on(try_rewrite_all(&table)).unwrap();
        let end = current(&table);
        assert_eq!(ids(&end), (0..100 * (APPENDS + 1)).collect::<Vec<_>>());
        assert_eq!((findings(&end), codecs(&table).len()), (Vec::new(), 1));
        assert_eq!(block_on(table.head()).unwrap().intents, []);
    });
}

#[test]
fn a_rewrite_leaves_out_objects_that_others_change_all_the_time() {
    let pool = memory_pool();
    let (environment, clock) = environment();
    let table = create(&pool, "t", &definition(), &environment);
    for part in 0..4_i64 {
        append(&table, &rows(part * 1_000..part * 1_000 + 500 + part));
    }
    set(&table, codec(Codec::Lz4));
    let groups = block_on(current(&table).to_rewrite(current(&table).layout())).unwrap();
    // The last object loses a row at each step.
    let mut deleted = 0;
    let mut busy = async |_| {
        deleted += 1;
        delete(&table, deleted).await.map(drop)
    };
    let replaced =
        block_on(table.rewrite(&groups[0], &WriterOptions::default(), &mut busy)).unwrap().replaced;
    assert_eq!(replaced.iter().map(|entry| entry.rows).collect::<Vec<_>>(), [500, 501, 502]);
    // A vacuum removes objects that another rewrite has replaced while this one reads them.
    append(&table, &rows(8_000..8_100));
    set(&table, codec(Codec::None));
    let groups = block_on(current(&table).to_rewrite(current(&table).layout())).unwrap();
    assert_eq!(groups[0].len(), 3);
    let mut calls = 0;
    let mut replace = async |_| {
        calls += 1;
        if calls == 1 {
            let first = groups[0][..2].to_vec();
            try_rewrite(&table, vec![first]).await?;
            clock.advance_ms(1);
            let options = VacuumOptions { keep_snapshots: 1, keep_ms: 0, intent_age_ms: DAY_MS };
            vacuum(pool.clone(), "t", &options, &environment).await?;
        }
        Ok(())
    };
    let replaced =
        block_on(table.rewrite(&groups[0], &WriterOptions::default(), &mut replace)).unwrap().replaced;
    assert_eq!(replaced, groups[0][2..]);
    let now = current(&table);
    let expected = [0..500, 1_000..1_501, 2_000..2_502, i64::from(deleted) + 3_000..3_503, 8_000..8_100];
    assert_eq!(ids(&now), expected.into_iter().flatten().collect::<Vec<_>>());
    assert_eq!((findings(&now), names(&pool, &table.id().namespace())), (Vec::new(), referred(&table)));
    // A dropped table ends the work.
    set(&table, codec(Codec::Lz4));
    let groups = block_on(current(&table).to_rewrite(current(&table).layout())).unwrap();
    let mut drop_it = async |_| drop_table(pool.clone(), "t", true, &environment).await.map(drop);
    let error = block_on(table.rewrite(&groups[0], &WriterOptions::default(), &mut drop_it)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_rewrite_that_fails_changes_nothing_and_is_continued() {
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment().0);
    append(&table, &rows(0..1_000));
    set(&table, codec(Codec::Zstd { level: 1 }));
    let before = current(&table);
    let groups = block_on(before.to_rewrite(before.layout())).unwrap();
    // Other changes of the table come first each time.
    let mut added = 0;
    let mut busy = async |_| {
        added += 1;
        let add = Alter::Add { name: format!("extra{added}"), data_type: DataType::Int32 };
        table.alter(&[add]).await?;
        table.add_index(&[&format!("extra{added}")]).await.map(drop)
    };
    let options = WriterOptions::default();
    let error = block_on(table.rewrite(&groups[0], &options, &mut busy)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let mut interrupted = async |_| Err(Error::new(ErrorKind::Unavailable, "interrupted"));
    let error = block_on(table.rewrite(&groups[0], &options, &mut interrupted)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(block_on(table.head()).unwrap().intents, []);
    assert_eq!(names(&pool, &table.id().namespace()), referred(&table), "no object of it remains");
    assert_eq!(ids(&current(&table)), (0..1_000).collect::<Vec<_>>());
    assert_eq!(block_on(try_rewrite_all(&table)).unwrap(), 1);
    assert_eq!(ids(&current(&table)), (0..1_000).collect::<Vec<_>>());
    assert_eq!(ids(&before), (0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_rewrite_has_the_order_of_a_stream_and_refuses_one_with_other_rows() {
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment().0);
    append(&table, &rows(0..100));
    append(&table, &rows(100..200));
    let options = WriterOptions::default();
    let groups = block_on(current(&table).to_compact(true, &options)).unwrap();
    // Some batches, and then another one or an error.
    let rewrite = |kept: usize, mut last: Option<Result<RecordBatch>>| {
        let mut order = async |_: &Snapshot, _: &[FileEntry], stored: RowStream| -> Result<RowStream> {
            let kept = stored.take(kept);
            Ok(match last.take() {
                Some(last) => kept.chain(stream::iter([last])).boxed(),
                None => kept.boxed(),
            })
        };
        block_on(table.rewrite_in_order(&groups[0], &options, &mut order, &mut async |_| Ok(())))
    };
    let failure = Error::new(ErrorKind::LimitExceeded, "no memory");
    for (kept, last, kind) in [
        (0, None, ErrorKind::Internal),
        (1, None, ErrorKind::Internal),
        (9, Some(Ok(rows(0..1))), ErrorKind::Internal),
        (1, Some(Err(failure)), ErrorKind::LimitExceeded),
    ] {
        assert_eq!(rewrite(kept, last).unwrap_err().kind(), kind, "{kept}");
        assert_eq!(block_on(table.head()).unwrap().intents, []);
        assert_eq!(names(&pool, &table.id().namespace()), referred(&table), "no object of it remains");
        assert_eq!(ids(&current(&table)), (0..200).collect::<Vec<_>>());
    }
    let mut reversed = async |_: &Snapshot, _: &[FileEntry], stored: RowStream| -> Result<RowStream> {
        let all = async move {
            let mut all: Vec<RecordBatch> = stored.try_collect().await?;
            all.reverse();
            Ok::<_, Error>(stream::iter(all.into_iter().map(Ok)))
        };
        Ok(stream::once(all).try_flatten().boxed())
    };
    let stored = || {
        let rows = read(&current(&table));
        rows.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec()
    };
    let before = stored();
    let mut pace = async |_| Ok::<(), Error>(());
    let rewritten = block_on(table.rewrite_in_order(&groups[0], &options, &mut reversed, &mut pace)).unwrap();
    assert_eq!(rewritten.replaced.len(), 2);
    assert_eq!(stored(), [&before[100..], &before[..100]].concat());
}

/// Rows of 1 KiB in memory that compress to a few bytes.
fn compressible(rows: usize) -> RecordBatch {
    let ids = Int64Array::from_iter_values(0..rows as i64);
    let names = StringArray::from_iter_values((0..rows).map(|row| format!("{row:01024}")));
    let prices = Float64Array::from(vec![None; rows]);
    RecordBatch::try_new(Arc::new(schema()), vec![Arc::new(ids), Arc::new(prices), Arc::new(names)]).unwrap()
}

#[test]
fn rows_that_compress_well_fill_objects_unless_the_memory_is_too_small() {
    let definition = definition_of(&schema(), 4 << 20);
    let table = create(&memory_pool(), "t", &definition, &environment().0);
    let batch = compressible(20_000);
    // An append of 20 MiB in memory is one object far below its target of 4 MiB, although 8 MiB of
    // rows usually fill one.
    let parts: Vec<RecordBatch> = (0..5).map(|part| batch.slice(part * 4_000, 4_000)).collect();
    block_on(try_append(&table, &parts, WriterOptions::default())).unwrap();
    assert_eq!(current(&table).objects(), 1);
    // With little memory there are several. A compaction with the same memory leaves them.
    let small = WriterOptions { buffer_bytes_max: 3 << 20, ..WriterOptions::default() };
    let before = ids(&current(&table));
    let groups = block_on(current(&table).to_compact(true, &small)).unwrap();
    let rewritten = block_on(table.rewrite(&groups[0], &small, &mut async |_| Ok(()))).unwrap();
    assert!(rewritten.is_limited_by_memory);
    let several = current(&table);
    assert!(several.objects() > 2, "{}", several.objects());
    assert_eq!(block_on(several.to_compact(false, &small)).unwrap(), Vec::<Vec<FileEntry>>::new());
    let options = WriterOptions::default();
    let groups = block_on(several.to_compact(false, &options)).unwrap();
    let rewritten = block_on(table.rewrite(&groups[0], &options, &mut async |_| Ok(()))).unwrap();
    assert_eq!((rewritten.is_limited_by_memory, current(&table).objects()), (false, 1));
    assert_eq!(ids(&current(&table)), before);
}

#[test]
fn the_size_in_a_layout_is_measured_without_writing() {
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment().0);
    append(&table, &rows(0..5_000));
    let snapshot = current(&table);
    let there = names(&pool, &table.id().namespace());
    for next in [Codec::None, Codec::Zstd { level: 9 }] {
        let layout = snapshot.layout().with(&codec(next), snapshot.schema()).unwrap();
        let [entry] = &entries(&snapshot)[..] else { panic!("one object") };
        let estimated = block_on(snapshot.size_in(entry, &layout)).unwrap();
        set(&table, codec(next));
        block_on(try_rewrite_all(&table)).unwrap();
        assert_eq!(estimated, current(&table).data_bytes());
        assert_ne!(estimated, snapshot.data_bytes());
    }
    assert!(names(&pool, &table.id().namespace()).is_superset(&there));
}
