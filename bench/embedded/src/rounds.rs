//! Rounds: each round runs every side of a comparison once, in turns.

use crate::Setting;
use crate::files::settle;
use bench_harness::Outcome;

/// Does the work of a round and returns the seconds that it took.
pub type Side<'a> = Box<dyn FnMut(Round) -> Outcome<f64> + 'a>;

#[derive(Clone, Copy)]
pub struct Round {
    /// Round 0 is the warm-up, which is not measured.
    pub number: usize,
    /// Operations to do; the warm-up does a tenth.
    pub count: u64,
}

/// Runs all sides once to warm up and then once in each round; every second round runs them in
/// reverse order. Before each side it waits until the background work of the previous one is done.
/// Every side does `count` operations of `size` each. Returns the rates of each side by round, in
/// `size` per second.
pub fn in_turns(
    setting: &Setting,
    what: &str,
    (count, size): (u64, f64),
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
                rates[side].push(count as f64 * size / seconds);
            }
        }
    }
    Ok(rates)
}
