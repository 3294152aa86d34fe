//! The verbs below `benthic catalog`.

mod serve;

use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use clap::Subcommand;

pub const EXAMPLES: &str = "Example:\n  benthic catalog serve";

#[derive(Subcommand)]
pub enum CatalogCommand {
    /// Serve the Iceberg REST catalog, and the files of all tables over S3
    Serve(serve::ServeArgs),
}

pub async fn run(command: CatalogCommand, session: &Session) -> Outcome {
    match command {
        CatalogCommand::Serve(args) => serve::run(args, session).await,
    }
}
