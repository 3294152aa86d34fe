use super::{ACCESS_BYTES_MAX, Access, AccessShape, AccessSums, ConditionKind, SHAPE_AGE_MS_MAX, SHAPES_MAX};
use crate::{Definition, Table, VacuumOptions, drop_table, vacuum};
use arrow::datatypes::{DataType, Field, Schema};
use benthic_core::{Environment, ErrorKind, ListRequest, Namespaces, Pool, Store};
use benthic_embedded::{MemStore, Options};
use benthic_testkit::faulty::FaultyPool;
use futures::executor::block_on;
use std::sync::Arc;

fn shape(columns: u32, condition: u32) -> AccessShape {
    AccessShape {
        conditions: [(condition, ConditionKind::Equal), (condition + 1, ConditionKind::Range)].into(),
        columns: (1..=columns).collect(),
        indexes: [condition].into(),
    }
}

fn sums(queries: u64, last_ms: u64) -> AccessSums {
    AccessSums { queries, objects: 3, rows: 100, rows_selected: 1, bytes_read: 1_000, last_ms }
}

fn access(shapes: impl IntoIterator<Item = (AccessShape, AccessSums)>) -> Access {
    let mut access = Access { since_ms: 5, ..Access::default() };
    shapes.into_iter().for_each(|(shape, sums)| access.add(shape, &sums));
    access
}

async fn table(pool: &Arc<dyn Pool>) -> Table {
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
    let definition = Definition::new(&schema).unwrap();
    Table::create(Arc::clone(pool), "t", &definition, Environment::default()).await.unwrap()
}

async fn new_pool() -> Arc<dyn Pool> {
    let store = MemStore::new(Options::default());
    store.create_pool("p").await.unwrap();
    store.open_pool("p").await.unwrap()
}

#[test]
fn records_are_decoded_as_they_were_encoded() {
    let access = access((0..50).map(|number| (shape(number, number), sums(u64::from(number), 9))));
    assert_eq!(Access::decode(&access.encode()).unwrap(), access);
    let mut bytes = access.encode().to_vec();
    for at in 0..bytes.len() {
        bytes[at] ^= 0x10;
        let kind = Access::decode(&bytes).unwrap_err().kind();
        assert!([ErrorKind::Corrupt, ErrorKind::Unsupported].contains(&kind), "{at} {kind:?}");
        bytes[at] ^= 0x10;
    }
    assert_eq!(Access::decode(&[]).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(Access::decode(&vec![0; ACCESS_BYTES_MAX + 1]).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn records_stay_small_and_forget_old_shapes() {
    let now_ms = 2 * SHAPE_AGE_MS_MAX;
    let mut all = Access::default();
    for number in 0..2_000 {
        let more = access([(shape(3, number), sums(1, now_ms - 2_000 + u64::from(number)))]);
        all.merge(&more, now_ms);
        assert!(all.shapes.len() <= SHAPES_MAX);
    }
    assert!(all.encode().len() <= ACCESS_BYTES_MAX);
    // The newest remain.
    assert!(all.shapes.contains_key(&shape(3, 1_999)) && !all.shapes.contains_key(&shape(3, 1_000)));
    all.merge(&access([(shape(9, 1), sums(1, 0))]), now_ms);
    assert!(!all.shapes.contains_key(&shape(9, 1)));
    // Shapes of many columns are cut, and fewer of them fit.
    for number in 0..SHAPES_MAX as u32 {
        let wide = AccessShape {
            columns: (number * 1_000_000..number * 1_000_000 + 5_000).collect(),
            ..shape(0, number)
        };
        all.merge(&access([(wide, sums(1, now_ms + u64::from(number)))]), now_ms);
    }
    assert!(all.encode().len() <= ACCESS_BYTES_MAX && !all.shapes.is_empty());
}

/// Messages that a seed makes: valid ones with some bytes changed, and cut.
#[test]
fn any_message_is_decoded_or_refused() {
    let valid = access((0..3).map(|number| (shape(2, number), sums(300, 9)))).encode();
    let mut decoded = 0;
    for seed in benthic_testkit::seed::many(3_000) {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        let mut message = valid[16..].to_vec();
        for _ in 0..1 + next() % 4 {
            let at = next() % message.len();
            message[at] = next() as u8;
        }
        message.truncate(next() % (2 * message.len()));
        if let Ok(access) = Access::decode_message(&message) {
            decoded += 1;
            assert!(access.shapes.len() <= SHAPES_MAX, "seed {seed}");
            assert_eq!(Access::decode(&access.encode()).unwrap(), access, "seed {seed}");
        }
    }
    assert!(decoded > 0);
}

#[test]
fn a_table_records_only_while_it_should_and_a_drop_removes_the_records() {
    block_on(async {
        let pool = new_pool().await;
        let table = table(&pool).await;
        let more = access([(shape(1, 1), sums(2, u64::MAX / 2))]);
        assert_eq!(table.access().await.unwrap(), None);
        assert!(!table.add_access(&more).await.unwrap());
        assert!(!table.head().await.unwrap().records_access);
        table.record_access(true).await.unwrap();
        assert!(table.head().await.unwrap().records_access);
        assert!(table.add_access(&more).await.unwrap());
        // A second start keeps the records.
        table.record_access(true).await.unwrap();
        assert!(table.add_access(&more).await.unwrap());
        assert_eq!(table.access().await.unwrap().unwrap().queries(), 4);
        let done = vacuum(Arc::clone(&pool), "t", &VacuumOptions::default(), &Environment::default()).await;
        let done = done.unwrap();
        assert_eq!((done.objects, done.foreign_objects), (0, 0));
        assert_eq!(table.access().await.unwrap().unwrap().queries(), 4);
        table.record_access(false).await.unwrap();
        assert_eq!(table.access().await.unwrap(), None);
        table.record_access(true).await.unwrap();
        assert!(drop_table(Arc::clone(&pool), "t", false, &Environment::default()).await.unwrap().finished);
        // A late update does not bring the object back.
        assert!(!table.add_access(&more).await.unwrap());
        let all = ListRequest { namespaces: Namespaces::All, ..ListRequest::default() };
        assert!(pool.list(all).await.unwrap().objects.is_empty());
    });
}

/// Another program writes the records between each read and write of an update, up to a number of
/// times.
#[test]
fn an_update_that_another_one_overtakes_is_repeated_or_given_up() {
    block_on(async {
        for (overtaken, is_added) in [(0, true), (2, true), (3, false)] {
            let pool = new_pool().await;
            let other = table(&pool).await;
            other.record_access(true).await.unwrap();
            let more = access([(shape(1, 1), sums(1, u64::MAX / 2))]);
            let overtake = {
                let (other, more) = (other.clone(), more.clone());
                move |number, op, _: &dyn Pool| {
                    if number < overtaken {
                        assert!(block_in_place(&other, &more));
                    }
                    Ok(op)
                }
            };
            let faulty: Arc<dyn Pool> = Arc::new(FaultyPool::over(Arc::clone(&pool), overtake));
            let table = Table::open(faulty, "t", Environment::default()).await.unwrap();
            assert_eq!(table.add_access(&more).await.unwrap(), is_added, "{overtaken}");
            let added = overtaken as u64 + u64::from(is_added);
            assert_eq!(other.access().await.unwrap().unwrap().queries(), added, "{overtaken}");
        }
    });
}

/// Adds records on another thread, because an executor cannot run in another one.
fn block_in_place(table: &Table, more: &Access) -> bool {
    std::thread::scope(|scope| scope.spawn(|| block_on(table.add_access(more)).unwrap()).join().unwrap())
}

#[test]
fn a_drop_while_the_recording_starts_leaves_no_object() {
    block_on(async {
        let pool = new_pool().await;
        table(&pool).await;
        let dropped = Arc::clone(&pool);
        // The first write sets the head, and the second one creates the object.
        let drop_before = move |number, op, _: &dyn Pool| {
            if number == 1 {
                let environment = Environment::default();
                let done = drop_table(Arc::clone(&dropped), "t", false, &environment);
                assert!(std::thread::scope(|scope| scope.spawn(|| block_on(done)).join().unwrap())?.finished);
            }
            Ok(op)
        };
        let faulty: Arc<dyn Pool> = Arc::new(FaultyPool::over(Arc::clone(&pool), drop_before));
        let table = Table::open(faulty, "t", Environment::default()).await.unwrap();
        assert_eq!(table.record_access(true).await.unwrap_err().kind(), ErrorKind::NotFound);
        let all = ListRequest { namespaces: Namespaces::All, ..ListRequest::default() };
        assert!(pool.list(all).await.unwrap().objects.is_empty());
    });
}
