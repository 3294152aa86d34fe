//! The prompt of `benthic sql`. A query ends with a semicolon and may span several lines.

use super::sql::Queries;
use benthic_core::{Action, Error};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt::Hold;
use benthic_program::store::blocking;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;

const HELP: &str = "A query ends with a semicolon. A table is POOL.TABLE, a local file its path in quotes.\n\
    EXPLAIN ANALYZE …;        shows how and where a query ran\n\
    \\d          or .tables    lists the tables\n\
    \\d TABLE    or .schema    lists the columns of a table or file; .schema alone, those of all tables\n\
    \\timing     or .timer     shows the times of queries, or not; also with on or off\n\
    \\all                     shows all rows of a query, or the first 40; also with on or off\n\
    \\?          or .help      shows this help\n\
    \\q          or .quit      ends the prompt, like Ctrl-D; Ctrl-C stops a query";

const ALL_COLUMNS: &str = "SELECT table_schema AS pool, table_name AS \"table\", column_name, data_type, is_nullable \
    FROM information_schema.columns WHERE table_schema <> 'information_schema' \
    ORDER BY pool, \"table\", ordinal_position";

/// A line at the prompt that is not part of a query.
enum Command {
    Help,
    Quit,
    /// With an argument, sets the switch; without, turns it.
    Time(Option<bool>),
    All(Option<bool>),
    Query(String),
}

impl Command {
    /// Parses a command with its name in psql or its name in SQLite. Returns `None` for the
    /// beginning of a query.
    fn parse(line: &str) -> Option<Outcome<Command>> {
        let line = line.trim_end_matches(';').trim();
        let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = argument.trim();
        let switch = match argument {
            "" => Ok(None),
            "on" => Ok(Some(true)),
            "off" => Ok(Some(false)),
            _ => Err(Failure::Usage(format!("{name} takes on, off or nothing"))),
        };
        Some(match (name, argument) {
            ("\\?" | ".help" | "help", "") => Ok(Command::Help),
            ("\\q" | ".quit" | ".exit" | "quit" | "exit", "") => Ok(Command::Quit),
            ("\\timing" | ".timer", _) => switch.map(Command::Time),
            ("\\all", _) => switch.map(Command::All),
            ("\\d" | ".tables", "") => Ok(Command::Query("SHOW TABLES".to_owned())),
            (".schema", "") => Ok(Command::Query(ALL_COLUMNS.to_owned())),
            ("\\d" | ".schema", table) => Ok(Command::Query(format!("DESCRIBE {table}"))),
            _ if name.starts_with(['\\', '.']) => {
                Err(Failure::Usage(format!("there is no command {line:?}; `\\?` lists the commands")))
            }
            _ => return None,
        })
    }
}

/// Time that an interrupted change has to remove its objects.
const UNDO_LIMIT: Duration = Duration::from_secs(10);
/// Maximum size of input that does not come from a terminal.
const INPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Answers queries until the input ends.
pub async fn run(mut queries: Queries<'_>) -> Outcome {
    if !io::stdin().is_terminal() {
        return all_of_stdin(&queries).await;
    }
    let session = queries.session;
    let out = &session.out;
    let hold = Hold::new();
    out.note("`\\?` shows the help")?;
    let mut lines = Lines::new()?;
    let mut query = String::new();
    loop {
        out.flush()?;
        let line;
        (lines, line) = lines.next(if query.is_empty() { "benthic> " } else { "      -> " }).await?;
        let line = match line {
            Typed::Line(line) => line,
            Typed::Nothing => {
                query.clear();
                continue;
            }
            Typed::End => return Ok(()),
        };
        let line = line.trim();
        let command = if query.is_empty() { Command::parse(line) } else { None };
        let sql = match command {
            _ if line.is_empty() => continue,
            None => {
                query.push_str(line);
                query.push('\n');
                if !line.ends_with(';') {
                    continue;
                }
                let sql = std::mem::take(&mut query);
                lines.remember(&sql);
                sql
            }
            Some(command) => {
                lines.remember(line);
                match command {
                    Ok(Command::Query(sql)) => sql,
                    Ok(Command::Quit) => return Ok(()),
                    Ok(Command::Help) => {
                        out.note(HELP)?;
                        continue;
                    }
                    Ok(Command::Time(set)) => {
                        let view = &mut queries.view;
                        view.has_time = set.unwrap_or(!view.has_time);
                        out.note(if view.has_time { "timing is on" } else { "timing is off" })?;
                        continue;
                    }
                    Ok(Command::All(set)) => {
                        let view = &mut queries.view;
                        view.all = set.unwrap_or(!view.all);
                        out.note(if view.all { "all rows are shown" } else { "the first rows are shown" })?;
                        continue;
                    }
                    Err(failure) => {
                        out.failure(&failure);
                        continue;
                    }
                }
            }
        };
        let mut answer = pin!(queries.answer(&sql, "\\all"));
        let outcome = tokio::select! {
            outcome = &mut answer => outcome,
            () = hold.wait() => {
                if queries.stop() {
                    let _ = timeout(UNDO_LIMIT, answer).await;
                }
                Err(Failure::Interrupted)
            }
        };
        match outcome {
            Ok(()) => {}
            Err(Failure::ClosedPipe) => return Err(Failure::ClosedPipe),
            Err(failure) => {
                out.flush()?;
                out.failure(&failure);
            }
        }
    }
}

/// Answers the queries of a pipe or file, and stops after the first failure.
async fn all_of_stdin(queries: &Queries<'_>) -> Outcome {
    let text = blocking(|| {
        let mut text = String::new();
        let read = io::stdin().take(INPUT_BYTES_MAX + 1).read_to_string(&mut text);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => Error::invalid_argument("the queries on stdin are not UTF-8"),
            _ => Error::io(Action::Read, "cannot read queries from stdin", error),
        })?;
        match text.len() as u64 > INPUT_BYTES_MAX {
            false => Ok(text),
            true => Err(Error::limit_exceeded("the queries on stdin are too large; send them in parts")
                .with("len_bytes_max", INPUT_BYTES_MAX)),
        }
    });
    for sql in benthic_sql::session::statements(&text.await?)? {
        queries.answer(&sql, "--all").await?;
    }
    Ok(())
}

/// Reads lines from the terminal, with a history.
struct Lines {
    editor: DefaultEditor,
    history: Option<PathBuf>,
}

enum Typed {
    Line(String),
    /// Ctrl-C.
    Nothing,
    /// Ctrl-D.
    End,
}

impl Lines {
    fn new() -> Outcome<Lines> {
        let mut editor = DefaultEditor::new().map_err(no_terminal)?;
        let history = history_file();
        if let Some(history) = &history {
            // Without a readable history file, start with an empty history.
            let _ = editor.load_history(history);
        }
        Ok(Lines { editor, history })
    }

    async fn next(mut self, prompt: &'static str) -> Outcome<(Lines, Typed)> {
        let (lines, line) = blocking(move || {
            let line = self.editor.readline(prompt);
            Ok((self, line))
        })
        .await?;
        let typed = match line {
            Ok(line) => Typed::Line(line),
            Err(ReadlineError::Interrupted) => Typed::Nothing,
            Err(ReadlineError::Eof) => Typed::End,
            Err(error) => return Err(no_terminal(error)),
        };
        Ok((lines, typed))
    }

    fn remember(&mut self, sql: &str) {
        // A history that cannot be saved is no reason to stop.
        let _ = self.editor.add_history_entry(sql.trim());
        if let Some(history) = &self.history {
            let _ = history.parent().map(std::fs::create_dir_all);
            let _ = self.editor.save_history(history);
        }
    }
}

fn no_terminal(error: ReadlineError) -> Failure {
    Failure::Error(
        Error::unavailable("cannot read from the terminal; give the query as an argument").with_source(error),
    )
}

/// The history file, in the state directory of the XDG base directory specification.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let state = state.or_else(|| Some(std::env::home_dir()?.join(".local/state")))?;
    Some(state.join("benthic/sql_history"))
}
