//! `benthic table`.

use benthic_cli::exit::Outcome;
use benthic_cli::store::Session;
use clap::Subcommand;

/// Examples of `benthic table`.
pub const EXAMPLES: &str = "Examples:\n  benthic table ls lake";

/// The verbs of `benthic table`.
#[derive(Subcommand)]
pub enum TableCommand {}

pub async fn run(command: TableCommand, _: &Session) -> Outcome {
    match command {}
}
