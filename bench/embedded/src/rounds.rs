//! Fair rounds for a comparison of several programs, which this benchmark calls *sides*.
//!
//! The speed of a machine drifts during a benchmark. If all rounds of one side ran before all
//! rounds of the next side, the drift would look like a difference between the sides. So each round
//! runs every side once.

use crate::Setting;
use crate::files::settle;
use bench_harness::Outcome;

/// One side of a comparison: a function that does the work of one round and returns the seconds
/// that the work took.
pub type Side<'a> = Box<dyn FnMut(Round) -> Outcome<f64> + 'a>;

#[derive(Clone, Copy)]
pub struct Round {
    /// Round 0 is the warm-up, which is not measured.
    pub number: usize,
    /// Operations to do; the warm-up does a tenth.
    pub count: u64,
}

/// Runs all sides once to warm up and then once in each round. Every second round runs them in
/// reverse order, so that no side gains from its place. Before each side, the function waits until
/// the background work of the previous side is done.
///
/// Each side does `count` operations per measured round, and each operation counts as
/// `units_per_operation`, for example 1 for a rate in operations per second, or the MiB of an
/// object for a rate in MiB per second. Returns one list of rates for each side, in units per
/// second, with one rate for each measured round.
pub fn run_rounds(
    setting: &Setting,
    what: &str,
    (count, units_per_operation): (u64, f64),
    mut sides: Vec<Side<'_>>,
) -> Outcome<Vec<Vec<f64>>> {
    let mut rates = vec![Vec::new(); sides.len()];
    for number in 0..=setting.rounds {
        eprintln!(
            "    {what}: {}",
            if number == 0 { "warming up".to_owned() } else { format!("round {number}") }
        );
        let mut order: Vec<usize> = (0..sides.len()).collect();
        if number % 2 == 0 {
            order.reverse();
        }
        for side in order {
            settle(&setting.dir)?;
            let round = Round { number, count: if number == 0 { (count / 10).max(16) } else { count } };
            let seconds = sides[side](round)?;
            if number > 0 {
                rates[side].push(count as f64 * units_per_operation / seconds);
            }
        }
    }
    Ok(rates)
}
