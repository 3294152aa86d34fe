//! The prompt of `benthic sql`. A query ends with a semicolon and may span several lines.

use super::rows::Format;
use super::sql::answer;
use benthic_core::{Action, Error, ErrorKind, Stopwatch, SystemClock};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt::Hold;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::units;
use benthic_sql::session::SqlSession;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;

const HELP: &str = "A query ends with a semicolon. A table is POOL.TABLE.\n\
    SHOW TABLES;            lists the tables\n\
    DESCRIBE POOL.TABLE;    lists the columns of a table\n\
    EXPLAIN ANALYZE …;      shows how and where a query ran\n\
    \\timing                 turns the times of queries on or off\n\
    \\q                      ends the prompt, like Ctrl-D; Ctrl-C stops a query";

/// Maximum size of input that does not come from a terminal.
const INPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Answers queries until the input ends.
pub async fn run(session: &Session, queries: &SqlSession, format: Format) -> Outcome {
    if !io::stdin().is_terminal() {
        return all_of_stdin(session, queries, format).await;
    }
    let hold = Hold::new();
    session.out.note("`\\?` shows the help")?;
    let mut lines = Lines::new()?;
    let (mut query, mut is_timed) = (String::new(), false);
    loop {
        session.out.flush()?;
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
        match line.trim() {
            "" => continue,
            "\\q" | "exit" | "quit" if query.is_empty() => return Ok(()),
            "\\?" | "help" if query.is_empty() => {
                session.out.note(HELP)?;
                continue;
            }
            "\\timing" if query.is_empty() => {
                is_timed = !is_timed;
                session.out.note(if is_timed { "timing is on" } else { "timing is off" })?;
                continue;
            }
            line => {
                query.push_str(line);
                query.push('\n');
                if !line.ends_with(';') {
                    continue;
                }
            }
        }
        let sql = std::mem::take(&mut query);
        lines.remember(&sql);
        let start = Stopwatch::start(&SystemClock);
        let outcome = tokio::select! {
            outcome = answer(session, queries, format, &sql) => outcome,
            () = hold.interrupted() => Err(Failure::Interrupted),
        };
        match outcome {
            Ok(rows) if is_timed => {
                let rows = units::count(rows as u64, "row");
                session.out.note(format_args!("{rows}, {:.3} s", start.elapsed().as_secs_f64()))?;
            }
            Ok(_) => {}
            Err(Failure::ClosedPipe) => return Err(Failure::ClosedPipe),
            Err(failure) => {
                session.out.flush()?;
                session.out.failure(&failure);
            }
        }
    }
}

/// Answers the queries of a pipe or file, and stops after the first failure.
async fn all_of_stdin(session: &Session, queries: &SqlSession, format: Format) -> Outcome {
    let text = blocking(|| {
        let mut text = String::new();
        let read = io::stdin().take(INPUT_BYTES_MAX + 1).read_to_string(&mut text);
        read.map_err(|error| Error::io(Action::Read, "cannot read queries from stdin", error))?;
        match text.len() as u64 > INPUT_BYTES_MAX {
            false => Ok(text),
            true => Err(Error::new(
                ErrorKind::LimitExceeded,
                "the queries on stdin are too large; send them in parts",
            )
            .with("len_bytes_max", INPUT_BYTES_MAX)),
        }
    });
    for sql in benthic_sql::session::statements(&text.await?)? {
        answer(session, queries, format, &sql).await?;
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
        Error::new(ErrorKind::Unavailable, "cannot read from the terminal; give the query as an argument")
            .with_source(error),
    )
}

/// The history file, in the state directory of the XDG base directory specification.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let state = state.or_else(|| Some(std::env::home_dir()?.join(".local/state")))?;
    Some(state.join("benthic/sql_history"))
}
