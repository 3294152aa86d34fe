//! Appending and reading rows.

use crate::support::{
    append, create, current, definition, definition_of, entries, environment, ids, memory_pool,
    on_both_engines, read, rows, schema, try_append,
};
use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int8Array, Int64Array, RecordBatch, StringArray,
    StringViewArray,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Float64Type, Int8Type, Int64Type, Schema};
use benthic_core::ErrorKind;
use benthic_table::{
    Alter, Definition, Layout, Partitioning, Ranges, SnapshotSelector, Table, WriterOptions,
};
use benthic_testkit::random::Rng;
use futures::TryStreamExt;
use futures::executor::block_on;
use std::sync::Arc;

#[test]
fn appended_rows_are_read_back() {
    on_both_engines(|pool, _| {
        let (environment, clock) = environment();
        let table = create(&pool, "t", &definition(), &environment);
        assert_eq!(current(&table).rows(), 0);
        append(&table, &rows(0..1_000));
        clock.advance_ms(5);
        let snapshot = append(&table, &rows(1_000..1_010));
        assert_eq!((snapshot.id(), snapshot.rows(), snapshot.objects()), (3, 1_010, 2));
        let all = read(&snapshot);
        assert_eq!(
            all,
            concat_batches(
                snapshot.schema().arrow(),
                &[conformed(&rows(0..1_000)), conformed(&rows(1_000..1_010))]
            )
            .unwrap()
        );
        let before = block_on(table.snapshot(SnapshotSelector::Id(2))).unwrap();
        assert_eq!(ids(&before), (0..1_000).collect::<Vec<_>>());
        let before = block_on(table.snapshot(SnapshotSelector::TimeMs(before.time_ms() + 4))).unwrap();
        assert_eq!(before.id(), 2);
        assert_eq!(
            block_on(table.snapshot(SnapshotSelector::Id(4))).err().unwrap().kind(),
            ErrorKind::NotFound
        );
    });
}

fn conformed(batch: &RecordBatch) -> RecordBatch {
    let definition = definition();
    RecordBatch::try_new(definition.schema.arrow().clone(), batch.columns().to_vec()).unwrap()
}

#[test]
fn an_empty_append_creates_no_snapshot() {
    let (environment, _) = environment();
    let table = create(&memory_pool(), "t", &definition(), &environment);
    let snapshot = append(&table, &rows(0..0));
    assert_eq!((snapshot.id(), snapshot.rows()), (1, 0));
    assert_eq!(block_on(table.head()).unwrap().intents, []);
}

#[test]
fn a_large_load_is_split_into_objects_of_the_target_size() {
    let (environment, _) = environment();
    let table = create(&memory_pool(), "t", &definition(), &environment);
    let mut random = Rng(1);
    let mut written: Vec<i64> = (0..800_000).map(|_| (random.number() >> 1) as i64).collect();
    let batches: Vec<RecordBatch> = written
        .chunks(10_000)
        .map(|ids| {
            let schema = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
            RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from(ids.to_vec()))]).unwrap()
        })
        .collect();
    let options = WriterOptions { buffer_bytes_max: 3 * 1024 * 1024, ..WriterOptions::default() };
    let snapshot = block_on(try_append(&table, &batches, options)).unwrap();
    let sizes: Vec<u64> = entries(&snapshot).iter().map(|entry| entry.bytes).collect();
    assert!((6..=9).contains(&sizes.len()), "{sizes:?}");
    assert!(sizes.iter().all(|size| *size < 1_300_000), "{sizes:?}");
    written.sort_unstable();
    assert_eq!(ids(&snapshot), written);
}

#[test]
fn every_object_holds_one_partition_sorted() {
    let (environment, _) = environment();
    for partitioning in [
        Partitioning::Hash { field: 1, buckets: 5 },
        Partitioning::Range { field: 1, ranges: Ranges::Bounds(vec![100, 250]) },
    ] {
        let definition = Definition {
            partitioning: partitioning.clone(),
            layout: Layout { sort: vec![2, 1], ..definition().layout },
            ..definition()
        };
        let table = create(&memory_pool(), "t", &definition, &environment);
        let batches: Vec<RecordBatch> = (0..10).map(|part| rows(part * 50..part * 50 + 50)).collect();
        let snapshot = block_on(try_append(&table, &batches, WriterOptions::default())).unwrap();
        let files = entries(&snapshot);
        assert_eq!(files.len(), if matches!(partitioning, Partitioning::Hash { .. }) { 5 } else { 3 });
        for file in files {
            let batches = block_on(async {
                snapshot.read(&file, snapshot.schema()).await?.try_collect::<Vec<RecordBatch>>().await
            });
            let batch = concat_batches(snapshot.schema().arrow(), &batches.unwrap()).unwrap();
            assert_eq!(batch.num_rows() as u64, file.rows);
            let ids = batch.column(0).as_primitive::<Int64Type>().values();
            if matches!(partitioning, Partitioning::Range { .. }) {
                let range =
                    [0..100, 100..250, 250..500][usize::try_from(file.partition.unwrap()).unwrap()].clone();
                assert_eq!(file.rows, (range.end - range.start) as u64);
                assert!(ids.iter().all(|id| range.contains(id)));
            }
            let prices = batch.column(1).as_primitive::<Float64Type>();
            let keys: Vec<_> = prices.iter().zip(ids).collect();
            assert!(keys.is_sorted_by(|a, b| a.0.is_none() && b.0.is_some() || a <= b), "{keys:?}");
        }
        assert_eq!(ids(&snapshot), (0..500).collect::<Vec<_>>());
    }
}

#[test]
fn columns_are_matched_by_name_and_widened() {
    let (environment, _) = environment();
    let table = create(&memory_pool(), "t", &definition(), &environment);
    let words = StringArray::from(vec!["b", "a", "b"]);
    let dictionary = DictionaryArray::<Int8Type>::new(Int8Array::from(vec![0, 1, 0]), Arc::new(words));
    let columns: [(&str, ArrayRef); 2] =
        [("name", Arc::new(dictionary)), ("id", Arc::new(Int8Array::from(vec![3, 2, 1])))];
    let snapshot = append(&table, &RecordBatch::try_from_iter(columns).unwrap());
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(Int64Array::from(vec![4]))),
        ("name", Arc::new(StringViewArray::from(vec!["a long string that is not inlined"]))),
    ];
    let all = read(&append(&table, &RecordBatch::try_from_iter(columns).unwrap()));
    assert_eq!(ids(&snapshot), [1, 2, 3]);
    assert_eq!(all.column(1).null_count(), 4);
    assert_eq!(
        all.column(2).as_string::<i32>().iter().map(Option::unwrap).collect::<Vec<_>>()[..2],
        ["b", "a"]
    );
    assert_eq!(all.column(2).as_string::<i32>().value(3), "a long string that is not inlined");
}

#[test]
fn mismatched_columns_are_refused_with_a_hint() {
    let (environment, _) = environment();
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment);
    let refused = |columns: Vec<(&str, ArrayRef)>| {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let error = block_on(try_append(&table, &[batch], WriterOptions::default())).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        error.to_string()
    };
    let id = || ("id", Arc::new(Int64Array::from(vec![1])) as ArrayRef);
    let text = || Arc::new(StringArray::from(vec!["x"])) as ArrayRef;
    assert!(refused(vec![id(), ("nmae", text())]).contains("did you mean \"name\"?"));
    assert!(refused(vec![id(), ("Name", text())]).contains("did you mean \"name\"?"));
    assert!(refused(vec![id(), ("colour", text())]).contains("add it to the table"));
    assert!(refused(vec![("name", text())]).contains("may not be null column=id"));
    assert!(refused(vec![("id", Arc::new(Int64Array::from(vec![None])))]).contains("has nulls"));
    assert!(
        refused(vec![("id", text())])
            .contains("another type in the table; cast it first column=id type=Utf8")
    );
    assert!(refused(vec![id(), id()]).contains("the same name"));
    // No refused write left objects or intents behind.
    assert_eq!(block_on(table.head()).unwrap().intents, []);
    assert_eq!(crate::support::names(&pool, &table.id().namespace()).len(), 0);
}

#[test]
fn new_columns_are_added_on_request() {
    let (environment, _) = environment();
    let table = create(&memory_pool(), "t", &definition(), &environment);
    let more: [(&str, ArrayRef); 2] =
        [("id", Arc::new(Int64Array::from(vec![9]))), ("colour", Arc::new(StringArray::from(vec!["red"])))];
    let batches = [rows(0..9), RecordBatch::try_from_iter(more).unwrap(), rows(10..12)];
    let options = WriterOptions { add_columns: true, ..WriterOptions::default() };
    let snapshot = block_on(try_append(&table, &batches, options)).unwrap();
    let all = read(&snapshot);
    assert_eq!(ids(&snapshot), (0..12).collect::<Vec<_>>());
    assert_eq!(all.column_by_name("colour").unwrap().null_count(), 11);
    assert_eq!(snapshot.schema().by_name("colour").unwrap().id, 4);
}

#[test]
fn a_table_changes_its_columns_and_keeps_its_rows() {
    on_both_engines(|pool, _| {
        let (environment, _) = environment();
        let schema = Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("n", DataType::Int8, true),
            Field::new("gone", DataType::Utf8, true),
        ]);
        let table = create(&pool, "t", &Definition::new(&schema).unwrap(), &environment);
        let batch = |names: [&str; 3], from: i64| {
            let columns: [(&str, ArrayRef); 3] = [
                (names[0], Arc::new(Int64Array::from(vec![from, from + 1]))),
                (names[1], Arc::new(Int8Array::from(vec![Some(5), None]))),
                (names[2], Arc::new(StringArray::from(vec!["x", "y"]))),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        append(&table, &batch(["id", "n", "gone"], 0));
        let alter = |changes: &[Alter]| block_on(table.alter(changes));
        let text = |text: &str| text.to_owned();
        alter(&[
            Alter::Rename { from: text("n"), to: text("count") },
            Alter::Widen { name: text("count"), data_type: DataType::Int32 },
            Alter::Drop { name: text("gone") },
            Alter::Add { name: text("gone"), data_type: DataType::LargeUtf8 },
        ])
        .unwrap();
        let snapshot = append(&table, &batch(["id", "count", "gone"], 2));
        let all = read(&snapshot);
        assert_eq!(ids(&snapshot), [0, 1, 2, 3]);
        let counts = all.column_by_name("count").unwrap().as_primitive::<arrow::datatypes::Int32Type>();
        assert_eq!(counts.iter().collect::<Vec<_>>(), [Some(5), None, Some(5), None]);
        let texts = all.column_by_name("gone").unwrap().as_string::<i32>();
        assert_eq!(
            texts.iter().collect::<Vec<_>>(),
            [None, None, Some("x"), Some("y")],
            "another column of that name"
        );
        // Older snapshots keep their schema.
        let before = read(&block_on(table.snapshot(SnapshotSelector::Id(2))).unwrap());
        assert_eq!(
            before.schema().fields().iter().map(|field| field.name()).collect::<Vec<_>>(),
            ["id", "n", "gone"]
        );
        assert_eq!(before.column(2).as_string::<i32>().value(1), "y");
        // Reads only a column that the object lacks.
        let new = snapshot.schema().project(&["gone"]).unwrap();
        let of = |entry| {
            block_on(async { snapshot.read(entry, &new).await?.try_collect::<Vec<_>>().await }).unwrap()
        };
        let nulls: Vec<_> =
            entries(&snapshot).iter().map(|entry| of(entry)[0].column(0).null_count()).collect();
        assert_eq!(nulls, [2, 0]);
        // Statistics of old objects, converted to the current schema.
        let files: Vec<RecordBatch> =
            block_on(snapshot.files(&["count", "gone"]).unwrap().try_collect()).unwrap();
        let files = concat_batches(&files[0].schema(), &files).unwrap();
        let column = |name: &str| files.column_by_name(name).unwrap().clone();
        assert_eq!(column("max_2").as_primitive::<arrow::datatypes::Int32Type>().values(), &[5, 5]);
        assert_eq!(column("nulls_4").as_primitive::<arrow::datatypes::UInt64Type>().values(), &[2, 0]);
        assert_eq!(column("min_4").as_string::<i32>().iter().collect::<Vec<_>>(), [None, Some("x")]);

        let refused = |change: Alter| alter(&[change]).err().unwrap().to_string();
        assert!(refused(Alter::Drop { name: text("cuont") }).contains("did you mean \"count\""));
        assert!(
            refused(Alter::Widen { name: text("count"), data_type: DataType::Int16 })
                .contains("wanted=Int16")
        );
        assert!(refused(Alter::Rename { from: text("count"), to: text("id") }).contains("the same name"));
        assert_eq!(current(&table).id(), snapshot.id(), "a refused change changes nothing");
    });
}

#[test]
fn tables_are_created_opened_and_listed() {
    let (environment, _) = environment();
    let pool = memory_pool();
    create(&pool, "orders", &definition(), &environment);
    create(&pool, "Lineitem", &definition(), &environment);
    let again = block_on(Table::create(Arc::clone(&pool), "orders", &definition(), environment.clone()));
    assert_eq!(again.err().unwrap().kind(), ErrorKind::AlreadyExists);
    let error = block_on(Table::open(Arc::clone(&pool), "lineitem", environment.clone())).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("did you mean \"Lineitem\""), "{error}");
    let names: Vec<String> =
        block_on(Table::list(Arc::clone(&pool))).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["Lineitem", "orders"]);
    for definition in [
        Definition { layout: Layout { sort: vec![9], ..Layout::default() }, ..definition() },
        Definition { layout: Layout { bloom: vec![9], ..Layout::default() }, ..definition() },
        Definition { layout: Layout { bloom: vec![1, 1], ..Layout::default() }, ..definition() },
        Definition { layout: Layout { bloom: vec![2], ..Layout::default() }, ..definition() },
        definition_of(&schema(), 100),
        Definition { partitioning: Partitioning::Hash { field: 1, buckets: 0 }, ..definition() },
        Definition { partitioning: Partitioning::Range { field: 3, ranges: Ranges::Day }, ..definition() },
    ] {
        let made = block_on(Table::create(Arc::clone(&pool), "bad", &definition, environment.clone()));
        assert_eq!(made.err().unwrap().kind(), ErrorKind::InvalidArgument);
    }
    let unsupported =
        Schema::new(vec![Field::new("d", DataType::Duration(arrow::datatypes::TimeUnit::Second), true)]);
    assert_eq!(Definition::new(&unsupported).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(Definition::new(&schema()).unwrap().schema.columns().len(), 3);
}
