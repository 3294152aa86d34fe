use super::{Suggestion, advise};
use crate::layout::Layout;
use crate::{Access, AccessShape, AccessSums, ConditionKind, Definition, Snapshot, SnapshotSelector, Table};
use arrow::datatypes::{DataType, Field, Schema};
use benthic_core::{Environment, Pool, Store};
use benthic_embedded::{MemStore, Options};
use futures::executor::block_on;
use std::sync::Arc;

const GIB: u64 = 1 << 30;

/// A table with the columns 1 `id`, 2 `name`, 3 `day` and 4 `list`, sorted by `id`.
async fn table() -> Table {
    let store = MemStore::new(Options::default());
    store.create_pool("p").await.unwrap();
    let pool: Arc<dyn Pool> = store.open_pool("p").await.unwrap();
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let list = DataType::new_list(DataType::Int64, true);
    let fields = vec![
        field("id", DataType::Int64),
        field("name", DataType::Utf8),
        field("day", DataType::Date32),
        field("list", list),
    ];
    let layout = Layout { sort: vec![1], ..Layout::default() };
    let definition = Definition { layout, ..Definition::new(&Schema::new(fields)).unwrap() };
    Table::create(pool, "t", &definition, Environment::default()).await.unwrap()
}

async fn snapshot(table: &Table) -> Snapshot {
    table.snapshot(SnapshotSelector::Current).await.unwrap()
}

/// Ten queries of a hundred objects of a million rows.
fn sums(rows_selected: u64) -> AccessSums {
    AccessSums {
        queries: 10,
        objects: 1_000,
        rows: 1_000_000_000,
        rows_selected,
        bytes_read: 10 * GIB,
        last_ms: 1,
    }
}

fn shape(conditions: &[(u32, ConditionKind)], indexes: &[u32]) -> AccessShape {
    let columns = conditions.iter().map(|(id, _)| *id).collect();
    let (conditions, indexes) = (conditions.iter().copied().collect(), indexes.iter().copied().collect());
    AccessShape { conditions, columns, indexes }
}

fn access(shapes: &[(AccessShape, AccessSums)]) -> Access {
    let mut access = Access::default();
    shapes.iter().for_each(|(shape, sums)| access.add(shape.clone(), sums));
    access
}

#[test]
fn queries_that_select_few_rows_suggest_an_index_over_their_columns() {
    use ConditionKind::{Equal, Range, Words};
    block_on(async {
        let table = table().await;
        let snapshot = snapshot(&table).await;
        for (conditions, expected) in [
            (&[(2, Equal)][..], Suggestion::Index(vec![2])),
            (&[(2, Range), (3, Equal)], Suggestion::Index(vec![3, 2])),
            (&[(2, Words)], Suggestion::TextIndex(2)),
        ] {
            let advice = advise(&access(&[(shape(conditions, &[]), sums(100))]), &snapshot);
            let [one] = &advice.suggested[..] else { panic!("{conditions:?} {advice:?}") };
            assert_eq!(one.suggestion, expected, "{conditions:?}");
            assert_eq!(one.sums, sums(100));
            // A directory and a page of each object, and 100 pages of the rows' 122,070.
            assert!((16_000_000..40_000_000).contains(&one.bytes_after), "{}", one.bytes_after);
        }
        // One index serves the queries of its first columns, too.
        let shapes =
            [(shape(&[(2, Equal)], &[]), sums(100)), (shape(&[(2, Equal), (3, Range)], &[]), sums(10))];
        let advice = advise(&access(&shapes), &snapshot);
        let [one] = &advice.suggested[..] else { panic!("{advice:?}") };
        assert_eq!((&one.suggestion, one.sums.queries), (&Suggestion::Index(vec![2, 3]), 20));
    });
}

#[test]
fn queries_that_select_many_rows_suggest_a_sort_order() {
    block_on(async {
        let table = table().await;
        let snapshot = snapshot(&table).await;
        let many = access(&[(shape(&[(3, ConditionKind::Range)], &[]), sums(300_000_000))]);
        let advice = advise(&many, &snapshot);
        let [one] = &advice.suggested[..] else { panic!("{advice:?}") };
        assert_eq!(one.suggestion, Suggestion::Sort(vec![3]));
        // 30% of eight row groups, and one more.
        assert!((4 * GIB..5 * GIB).contains(&one.bytes_after), "{}", one.bytes_after);
        // A query without numbers, because it had a limit, needs the present order.
        let limited = AccessSums { queries: 1, last_ms: 1, ..AccessSums::default() };
        let shapes = [
            (shape(&[(3, ConditionKind::Range)], &[]), sums(300_000_000)),
            (shape(&[(1, ConditionKind::Other)], &[]), limited),
        ];
        assert_eq!(advise(&access(&shapes), &snapshot).suggested, []);
        // The objects are sorted by the column already.
        let sorted = access(&[(shape(&[(1, ConditionKind::Range)], &[]), sums(300_000_000))]);
        assert_eq!(advise(&sorted, &snapshot).suggested, []);
    });
}

#[test]
fn nothing_is_suggested_that_does_not_help() {
    use ConditionKind::{Equal, Other, Range, Words};
    block_on(async {
        let table = table().await;
        let snapshot = snapshot(&table).await;
        let small = AccessSums { rows: 3_000, bytes_read: 30_000, objects: 10, ..sums(1_500) };
        for (shape, sums) in [
            (shape(&[], &[]), sums(1_000_000_000)),
            (shape(&[(2, Equal)], &[]), sums(900_000_000)),
            (shape(&[(2, Other)], &[]), sums(1)),
            (shape(&[(2, Equal), (3, Other)], &[]), sums(1)),
            (shape(&[(4, Equal)], &[]), sums(1)),
            // The share that each of the conditions selects is unknown.
            (shape(&[(2, Range), (3, Range)], &[]), sums(1)),
            (shape(&[(2, Words), (3, Equal)], &[]), sums(1)),
            (shape(&[(2, Words), (3, Range)], &[]), sums(300_000_000)),
            (shape(&[(99, Equal)], &[]), sums(1)),
            (shape(&[(2, Equal)], &[]), small),
            (shape(&[(2, Equal)], &[]), AccessSums::default()),
        ] {
            let advice = advise(&access(&[(shape.clone(), sums)]), &snapshot);
            assert_eq!(advice.suggested, [], "{shape:?}");
        }
        let none = advise(&Access::default(), &snapshot);
        assert_eq!(none, super::Advice::default());
    });
}

#[test]
fn indexes_and_columns_without_queries_are_named() {
    use ConditionKind::Equal;
    block_on(async {
        let table = table().await;
        let (name, day) =
            (table.add_index(&["name"]).await.unwrap(), table.add_index(&["day"]).await.unwrap());
        let snapshot = snapshot(&table).await;
        let used = access(&[(shape(&[(2, Equal)], &[name.number]), sums(100))]);
        let advice = advise(&used, &snapshot);
        assert_eq!(advice.suggested, []);
        assert_eq!(advice.unused_indexes, [day]);
        assert_eq!(advice.unread_columns, [1, 3, 4]);
        // An index that did not help is not suggested again.
        let unused = access(&[(shape(&[(2, Equal)], &[]), sums(100))]);
        assert_eq!(advise(&unused, &snapshot).suggested, []);
    });
}

#[test]
fn numbers_of_any_size_and_dropped_indexes_give_advice() {
    use ConditionKind::{Equal, Range};
    block_on(async {
        let table = table().await;
        let snapshot = snapshot(&table).await;
        let most = AccessSums {
            queries: u64::MAX,
            objects: u64::MAX,
            rows: u64::MAX,
            rows_selected: u64::MAX,
            bytes_read: u64::MAX,
            last_ms: u64::MAX,
        };
        let few = AccessSums { rows_selected: 1, objects: 1, ..most };
        for sums in [most, few] {
            let shapes = [(shape(&[(2, Equal)], &[]), sums), (shape(&[(2, Equal), (3, Range)], &[]), sums)];
            let access = access(&shapes);
            assert_eq!(access.queries(), u64::MAX);
            advise(&access, &snapshot);
        }
        // The queries used an index that does not exist any more.
        let advice = advise(&access(&[(shape(&[(2, Equal)], &[77]), sums(100))]), &snapshot);
        assert_eq!(advice.suggested[0].suggestion, Suggestion::Index(vec![2]));
    });
}
