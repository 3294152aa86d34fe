use super::{LARGE_LIST_BYTES, SMALL_LISTS_MAX, choose_lists};
use crate::head::ListRef;
use crate::ids::{Id, Role, TableObject};

fn list(number: u32, objects: u64, list_bytes: u64) -> ListRef {
    let object = TableObject { role: Role::List, writer: Id(1), number };
    ListRef { object, objects, rows: 0, data_bytes: 0, list_bytes, grouped: 0 }
}

/// Appends one object at a time: lists stay few, and each object is merged only a few times.
#[test]
fn merges_keep_lists_few_at_low_cost() {
    let (mut lists, mut merged) = (Vec::new(), 0);
    for number in 0..10_000 {
        lists.push(list(number, 1, 1_000));
        if let Some(chosen) = choose_lists(&lists) {
            let objects: u64 = chosen.iter().map(|list| list.objects).sum();
            merged += objects;
            lists.retain(|list| !chosen.contains(list));
            lists.push(list(100_000 + number, objects, 500 + 50 * objects));
        }
        assert!(lists.len() <= SMALL_LISTS_MAX);
    }
    assert_eq!(lists.iter().map(|list| list.objects).sum::<u64>(), 10_000);
    assert!(merged < 80_000, "merged={merged}");
}

#[test]
fn large_lists_are_not_merged() {
    let large = (0..100).map(|number| list(number, 50_000, LARGE_LIST_BYTES));
    let small = (100..132).map(|number| list(number, 1, 1));
    let lists: Vec<ListRef> = large.chain(small).collect();
    assert_eq!(choose_lists(&lists), None);
    let more = [lists, vec![list(200, 1, 1)]].concat();
    assert!(choose_lists(&more).unwrap().iter().all(|list| list.objects == 1));
}
