//! `benthic man`: writes the manual pages of this program, and of the programs beside it.

use super::other;
use crate::args;
use benthic_program::exit::Outcome;
use benthic_program::man::{self, ManArgs};

pub fn run(args: &ManArgs) -> Outcome {
    man::write(args, args::command())?;
    other::write_pages(&args.dir)
}
