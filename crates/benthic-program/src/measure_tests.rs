use super::{Latencies, in_flight, median};
use futures::executor::block_on;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::Duration;

#[test]
fn the_median_is_the_middle_value() {
    assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(vec![4, 1, 3, 2]), 3);
    assert_eq!(median(Vec::<u64>::new()), 0);
}

#[test]
fn quantiles_are_those_of_the_latencies() {
    let mut latencies = Latencies::default();
    (1..=100).for_each(|ms| latencies.record(Duration::from_millis(ms)));
    assert_eq!(latencies.count(), 100);
    for (quantile, expected_ms) in [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
        let found_ms = latencies.quantile_ms(quantile);
        assert!((found_ms / expected_ms - 1.0).abs() < 0.001, "{quantile}: {found_ms}");
    }
}

#[test]
fn workers_share_the_numbers_of_operations() {
    let sum = Cell::new(0);
    let operation = async |worker: &mut u64, number: u64| {
        sum.set(sum.get() + number);
        // The first worker stops after one operation.
        let is_last = *worker == 0;
        Ok::<_, ()>(if is_last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    assert_eq!(block_on(in_flight(0..3, |started| started >= 10, operation)), Ok(10));
    assert_eq!(sum.get(), 45);
    let failing = async |_: &mut u64, number: u64| {
        if number < 2 { Ok(ControlFlow::Continue(())) } else { Err(number) }
    };
    assert_eq!(block_on(in_flight(0..1, |_| false, failing)), Err(2));
}
