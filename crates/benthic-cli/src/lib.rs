//! `benthic`: programmable object storage from the command line.
//!
//! A library for the other programs of this project, `benthic-sql` and `benthic-s3`, which behave as this one does: [`run_to_end`] is a
//! program's life, and the public modules are what its commands stand on.

mod args;
mod commands;
pub mod exit;
#[cfg(test)]
mod faulty;
pub mod html;
pub mod interrupt;
mod jobs;
pub mod local;
pub mod measure;
pub mod noise;
pub mod output;
mod places;
pub mod progress;
pub mod store;
mod striped;
pub mod transfer;
pub mod units;

pub use args::Global;
use clap::Parser;
use exit::{Failure, Outcome};
use output::Output;
use serde_json::Map;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;
use store::Session;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The name of a thread that runs a library over input that may be damaged: a panic there is answered with an error.
pub const THREAD_THAT_MAY_PANIC: &str = "benthic-input";

/// The program `benthic`.
pub fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(mut error) => {
            args::suggest_verb(&mut error);
            return refuse(&error);
        }
    };
    let classes = benthic_classes::registry();
    let session = Session::new(cli.global.store, Output::new(cli.global.json), classes);
    run_to_end(session, cli.global.verbose, async |session| commands::run(cli.command, session).await)
}

/// Runs a command until it ends or a signal stops it, hands the store over, and tells what failed.
pub fn run_to_end(session: Session, verbose: u8, command: impl AsyncFnOnce(&Session) -> Outcome) -> ExitCode {
    start_logging(verbose);
    log_panics_of_the_engine();
    let outcome = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let outcome = runtime.block_on(run(command, &session));
            // What still runs was given up on a second signal.
            runtime.shutdown_timeout(Duration::from_secs(1));
            outcome
        }
        Err(error) => Err(Failure::Error(benthic_core::Error::io(
            benthic_core::Action::Admin,
            "cannot start threads",
            error,
        ))),
    };
    let status = match outcome {
        Ok(()) => exit::OK,
        Err(failure) => {
            session.out.failure(&failure);
            failure.status()
        }
    };
    if session.used_ceph() {
        drop(session);
        benthic_rados::end_process(status);
    }
    ExitCode::from(status)
}

async fn run(command: impl AsyncFnOnce(&Session) -> Outcome, session: &Session) -> Outcome {
    let outcome = tokio::select! {
        outcome = command(session) => outcome,
        () = interrupt::watch_signals() => Err(Failure::Interrupted),
    };
    // Whatever happened: what was printed goes out, and the store is handed over.
    let flushed = session.out.flush();
    let closed = session.close().await;
    if interrupt::is_set() {
        return Err(Failure::Interrupted);
    }
    outcome.and(flushed).and(closed.map_err(Failure::from))
}

/// Answers arguments that clap refuses, and `--help` and `--version`.
pub fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || !std::env::args_os().any(|arg| arg == "--json") {
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { exit::USAGE } else { exit::OK });
    }
    let text = error.to_string();
    let message = text.trim_start_matches("error: ").trim_end().to_owned();
    output::error_line(true, &message, "usage", Map::new());
    ExitCode::from(exit::USAGE)
}

fn start_logging(verbose: u8) {
    let level = match verbose {
        0 => tracing::Level::WARN,
        1 => tracing::Level::INFO,
        2 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    // To the crate of the S3 protocol whatever a client did wrong is an error of ours.
    let told = FilterFn::new(move |metadata| verbose >= 2 || !metadata.target().starts_with("s3s"));
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .finish()
        .with(told)
        .init();
}

/// A class method that panics is answered with an error, which is told, and so is a reader of damaged input; the panic itself
/// is for the log.
pub fn log_panics_of_the_engine() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if matches!(std::thread::current().name(), Some("benthic-work" | THREAD_THAT_MAY_PANIC)) {
            tracing::debug!("{panic}");
        } else {
            default(panic);
        }
    }));
}
