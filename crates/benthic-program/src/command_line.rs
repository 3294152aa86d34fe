//! Runs a program from its command-line arguments to its exit status: common options, logging,
//! signals.

use crate::exit::{self, Failure, Outcome};
use crate::man::{self, ManArgs};
use crate::output::{self, Output};
use crate::session::Session;
use crate::store::DEFAULT_URI;
use crate::waiting::{self, LastWait};
use crate::{definition, interrupt, log_panics, logging};
use benthic_core::ClassRegistry;
use clap::{ArgAction, ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::Map;
use std::io::IsTerminal;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::timeout;

/// Time that an abandoned command has for each step of its end.
const SHUTDOWN: Duration = Duration::from_millis(300);

/// Options of every command.
#[derive(Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// The store: file:DIR, ceph: (a cluster, with options ceph:?conf=FILE&id=client.x&read=near),
    /// or mem: (memory, lost at exit)
    #[arg(
        long,
        global = true,
        value_name = "URI",
        env = "BENTHIC_STORE",
        default_value = DEFAULT_URI
    )]
    pub store: String,
    /// Print results and errors as JSON, one object per line
    #[arg(long, global = true)]
    pub json: bool,
    /// Log to stderr, and say what the command waits for even if stderr is no terminal; -vv logs
    /// more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

/// The command line of a program that is one or more verbs of `benthic`.
#[derive(Parser)]
#[command(
    bin_name = "benthic",
    version = benthic_core::build(),
    subcommand_required = true,
    arg_required_else_help = true
)]
struct VerbLine<V: Subcommand> {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb<V>,
}

#[derive(Subcommand)]
enum Verb<V: Subcommand> {
    #[command(flatten)]
    OfProgram(V),
    /// Write manual pages
    #[command(hide = true)]
    Man(ManArgs),
    /// Print the definition of the verbs
    #[command(hide = true)]
    Definition,
}

/// The definition of the command line of a program that is one or more verbs of `benthic`.
pub fn verbs<V: Subcommand>(program: &'static str, about: &'static str) -> Command {
    VerbLine::<V>::command().name(program).about(about)
}

/// Runs a verb, and returns the exit status of the process. `command` comes from [`verbs`], and
/// `matches` are the arguments that it parsed.
pub fn run_verbs<V: Subcommand>(
    command: Command,
    matches: Result<ArgMatches, clap::Error>,
    classes: ClassRegistry,
    run: impl AsyncFnOnce(V, &Session) -> Outcome,
) -> ExitCode {
    let line = match matches.and_then(|matches| VerbLine::<V>::from_arg_matches(&matches)) {
        Ok(line) => line,
        Err(error) => return refuse(&with_usage(error, command)),
    };
    let session = Session::new(line.global.store, Output::new(line.global.json), classes);
    run_to_end(session, line.global.verbose, async move |session| match line.verb {
        Verb::OfProgram(verb) => run(verb, session).await,
        Verb::Man(args) => man::write_of_program(&args, command),
        Verb::Definition => definition::print(&command, &session.out),
    })
}

/// Runs a command until it returns or a signal stops it, closes the store, prints the error if
/// there is one, and returns the exit status.
pub fn run_to_end(session: Session, verbose: u8, command: impl AsyncFnOnce(&Session) -> Outcome) -> ExitCode {
    logging::start(verbose, session.out.is_json());
    log_panics(session.out.is_json());
    let outcome = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let says_waits = verbose > 0 || session.out.is_json() || std::io::stderr().is_terminal();
            let outcome = runtime.block_on(run(command, &session, says_waits));
            // Abandoned tasks may still run, or wait for a store that does not answer.
            runtime.shutdown_timeout(SHUTDOWN);
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
    if interrupt::is_abandoned() {
        // Closing the store may wait for a process that does not answer.
        benthic_rados::end_process(status);
    }
    if session.used_ceph() {
        drop(session);
        benthic_rados::end_process(status);
    }
    ExitCode::from(status)
}

async fn run(command: impl AsyncFnOnce(&Session) -> Outcome, session: &Session, says_waits: bool) -> Outcome {
    let last = LastWait::default();
    let mut work = pin!(async {
        let outcome = command(session).await;
        // In every case, flush the output and close the store.
        let flushed = session.out.flush();
        let closed = session.close().await;
        outcome.and(flushed).and(closed.map_err(Failure::from))
    });
    let outcome = tokio::select! {
        outcome = &mut work => outcome,
        never = waiting::report(session, &last), if says_waits => match never {},
        () = interrupt::watch_signals(waiting::grace(session, &last)) => {
            // Commands that know that they are abandoned report their progress.
            let reported = timeout(SHUTDOWN, &mut work).await;
            if reported.is_err() {
                let _ = timeout(SHUTDOWN, session.close()).await;
            }
            session.out.flush()
        }
    };
    if interrupt::is_set() { Err(Failure::Interrupted) } else { outcome }
}

/// Gives an error about the arguments of this process the usage line of `--help`. clap's own names
/// the options that the user or the environment has set, as if they were required.
pub fn with_usage(error: clap::Error, mut command: Command) -> clap::Error {
    if !error.use_stderr() {
        return error;
    }
    command.build();
    fix_usage(command).try_get_matches().err().unwrap_or(error)
}

fn fix_usage(command: Command) -> Command {
    let usage = command.clone().render_usage().ansi().to_string();
    let usage = usage.split_once(' ').map_or(String::new(), |(_, usage)| usage.to_owned());
    command.override_usage(usage).mut_subcommands(fix_usage)
}

/// Prints clap's error for invalid arguments, or the text of `--help` and `--version`, and returns
/// the exit status. With `--json` an error is one line of JSON.
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
