use super::{ACCESS_BYTES_MAX, Access, AccessShape, AccessSums, ConditionKind, SHAPE_AGE_MS_MAX, SHAPES_MAX};
use crate::{Definition, Table, VacuumOptions, drop_table, vacuum};
use arrow::datatypes::{DataType, Field, Schema};
use benthic_core::{Environment, ErrorKind, ListRequest, Namespaces, Pool, Store};
use benthic_embedded::{MemStore, Options};
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

#[test]
fn concurrent_updates_add_up_or_are_lost_without_an_error() {
    block_on(async {
        let pool = new_pool().await;
        let table = table(&pool).await;
        table.record_access(true).await.unwrap();
        let more = access([(shape(1, 1), sums(1, u64::MAX / 2))]);
        let adds = (0..20).map(|_| table.add_access(&more));
        let added = futures::future::join_all(adds)
            .await
            .into_iter()
            .filter(|added| *added.as_ref().unwrap())
            .count();
        assert!(added > 0);
        assert_eq!(table.access().await.unwrap().unwrap().queries(), added as u64);
    });
}
