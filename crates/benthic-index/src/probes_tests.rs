use super::{PROBES_MAX, Probes};
use crate::pack::{pack, tests::look_up};
use crate::probe::{Definition, Probe};
use crate::ranges::Ranges;
use arrow::array::{ArrayRef, Int64Array};
use bytes::Bytes;
use proptest::prelude::{Just, Strategy, any, prop};
use proptest::{prop_assert, prop_oneof, proptest};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

fn index(number: u32) -> Definition {
    Definition { number, columns: vec![number], ..Definition::default() }
}

fn column(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn between(number: u32, low: i64, high: i64) -> Probes {
    let bound = |value| column([value]);
    let ranges = Ranges::between(Some(&bound(low)), Some(&bound(high))).unwrap();
    Probe::new(&index(number), &[ranges]).unwrap().into()
}

/// A condition on three columns.
#[derive(Clone, Debug)]
enum Condition {
    Between(u32, i64, i64),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

impl Condition {
    fn any() -> impl Strategy<Value = Condition> {
        let leaf = (0_u32..3, 0_i64..30, 0_i64..6)
            .prop_map(|(column, low, width)| Condition::Between(column, low, low + width));
        leaf.prop_recursive(3, 10, 3, |inner| {
            let parts = prop::collection::vec(inner, 1..3);
            prop_oneof![parts.clone().prop_map(Condition::All), parts.prop_map(Condition::Any)]
        })
    }

    fn probes(&self) -> Option<Probes> {
        match self {
            Condition::Between(column, low, high) => Some(between(*column, *low, *high)),
            Condition::All(all) => Probes::all(all.iter().filter_map(Condition::probes)),
            Condition::Any(any) => Probes::any(any.iter().map(Condition::probes).collect::<Option<_>>()?),
        }
    }

    fn holds(&self, row: &[i64; 3]) -> bool {
        match self {
            Condition::Between(column, low, high) => (low..=high).contains(&&row[*column as usize]),
            Condition::All(all) => all.iter().all(|part| part.holds(row)),
            Condition::Any(any) => any.iter().any(|part| part.holds(row)),
        }
    }
}

fn entries(rows: &[[i64; 3]], indexed: [bool; 3]) -> HashMap<Bytes, Bytes> {
    let of = |number: usize| column(rows.iter().map(|row| row[number]));
    let indexed = (0..3).filter(|number| indexed[*number]);
    indexed.flat_map(|number| pack(&index(number as u32), &[of(number)]).unwrap()).collect()
}

proptest! {
    #[test]
    fn a_lookup_misses_no_row(
        rows in prop::collection::vec([0_i64..30, 0_i64..30, 0_i64..4], 0..200),
        condition in Condition::any(),
        indexed in prop_oneof![Just([true; 3]), any::<[bool; 3]>()],
    ) {
        let Some(probes) = condition.probes() else { return Ok(()) };
        let found = look_up(&probes, &entries(&rows, indexed));
        let Some(found) = found else { return Ok(()) };
        let found: BTreeSet<u32> = found.into_iter().collect();
        for (number, row) in (0..).zip(&rows) {
            prop_assert!(!condition.holds(row) || found.contains(&number), "row {number}: {row:?}");
        }
        prop_assert!(found.len() * 5 <= rows.len());
    }
}

#[test]
fn scattered_rows_are_found_only_if_they_are_few() {
    let rows: Vec<[i64; 3]> = (0..10_000).map(|row| [row % 20, row % 50, row * 7_919 % 10_000]).collect();
    let all = entries(&rows, [true; 3]);
    // A twentieth of the rows, each alone, takes longer to find than all rows take to read.
    assert_eq!(look_up(&between(0, 3, 3), &all), None);
    assert_eq!(look_up(&between(2, 0, 99), &all).unwrap().len(), 100);
    let both = Probes::all([between(0, 3, 3), between(1, 3, 3)]).unwrap();
    assert_eq!(look_up(&both, &all).unwrap().len(), 100);
    // With a limit of all rows, runs decide alone.
    let runs: Vec<[i64; 3]> = (0..10_000).map(|row| [row / 1_000 % 2, row % 50, row]).collect();
    let all = entries(&runs, [true; 3]);
    assert_eq!(look_up(&between(0, 1, 1), &all), None);
    assert_eq!(look_up(&between(0, 1, 1).with_limit(0.5), &all).unwrap().len(), 5_000);
    assert_eq!(look_up(&between(0, 1, 1).with_limit(0.4), &all), None);
}

#[test]
fn intersections_and_unions_read_only_the_rows_in_question() {
    // Runs of 20 rows have the same values.
    let rows: Vec<[i64; 3]> = (0..10_000).map(|row| [row / 20 % 3, row / 20 * 7 % 10, row]).collect();
    let all = entries(&rows, [true; 3]);
    let expected = |condition: &dyn Fn(&[i64; 3]) -> bool| -> Vec<u32> {
        (0..10_000).filter(|row| condition(&rows[*row as usize])).collect()
    };
    // A third and three tenths are too many rows, but not together.
    let (third, tenths) = (between(0, 1, 1), between(1, 2, 4));
    assert_eq!(look_up(&third, &all), None);
    assert_eq!(look_up(&tenths, &all), None);
    let both = Probes::all([third.clone(), tenths.clone()]).unwrap();
    assert_eq!(look_up(&both, &all), Some(expected(&|row| row[0] == 1 && (2..=4).contains(&row[1]))));
    let either = Probes::any(vec![between(1, 2, 2), between(2, 5, 8)]).unwrap();
    assert_eq!(look_up(&either, &all), Some(expected(&|row| row[1] == 2 || (5..=8).contains(&row[2]))));
    assert_eq!(look_up(&Probes::any(vec![third.clone(), between(2, 5, 8)]).unwrap(), &all), None);
    // One row needs no other index.
    let one = Probes::all([third.clone(), between(2, 5, 5)]).unwrap();
    assert_eq!(look_up(&one, &all), Some(vec![5]));
    // An object that lacks an index reads by the others.
    let some = entries(&rows, [false, true, true]);
    assert_eq!(
        look_up(&Probes::all([third.clone(), between(2, 5, 8)]).unwrap(), &some),
        Some(vec![5, 6, 7, 8])
    );
    assert_eq!(look_up(&Probes::any(vec![between(0, 7, 7), between(2, 5, 8)]).unwrap(), &some), None);
    let name = |probe: &Probe| format!("({})", probe.index);
    assert_eq!(Probes::any(vec![both, either]).unwrap().describe(&name), "[(0) and (1)] or [(1) or (2)]");
}

#[test]
fn trees_are_limited() {
    let one = between(0, 1, 2);
    let many = vec![one.clone(); PROBES_MAX + 1];
    assert_eq!(Probes::any(many.clone()), None, "a union without one of its parts would miss rows");
    assert_eq!(Probes::all(many.clone()).unwrap().probes().len(), PROBES_MAX);
    assert_eq!(Probes::all([]), None);
    assert_eq!(Probes::any(vec![one.clone()]), Some(one.clone()));
    let mut deep = one.clone();
    let deeper = |deep: Probes| Probes::any(vec![one.clone(), Probes::all([one.clone(), deep])?]);
    let mut levels = 0;
    while let Some(next) = deeper(deep.clone()) {
        deep = next;
        levels += 1;
        assert!(levels <= PROBES_MAX, "the depth is limited");
    }
    deep.check().unwrap();
    assert!(Probes::default().check().is_err());
    let node = super::Node::Any(super::Parts { parts: [many.clone(), many.clone(), many].concat() });
    let forged = Probes { node: Some(node), limit: 0 };
    assert!(forged.check().is_err());
    let node = super::Node::All(super::Parts { parts: Vec::new() });
    let forged = Probes { node: Some(node), limit: 0 };
    assert!(forged.check().is_err());
    let forged = Probes { limit: 1_001, ..between(0, 1, 2) };
    assert!(forged.check().is_err());
}
