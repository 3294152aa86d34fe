//! Rounds: each side of a comparison once, in turns.

use crate::Setting;
use crate::files::settle;
use bench_report::Outcome;

/// Measures once and answers a rate, or whatever is compared.
pub type Side<'a> = Box<dyn FnMut(Round) -> Outcome<f64> + 'a>;

/// One of the rounds.
#[derive(Clone, Copy)]
pub struct Round {
    /// 0 warms up and does not count.
    pub number: usize,
}

impl Round {
    /// How much of the work to do: a tenth to warm up.
    pub fn count(self, full: u64) -> u64 {
        if self.number == 0 { (full / 10).max(16) } else { full }
    }
}

/// Runs all sides once to warm up and then in every round, each when what the one before left is done, and in every
/// second round backwards. Answers what each measured, round by round.
pub fn in_turns(setting: &Setting, what: &str, mut sides: Vec<Side<'_>>) -> Outcome<Vec<Vec<f64>>> {
    let mut measured = vec![Vec::new(); sides.len()];
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
            let value = sides[side](Round { number })?;
            if number > 0 {
                measured[side].push(value);
            }
        }
    }
    Ok(measured)
}
