//! The definition of a command line as JSON, so that `benthic completions` completes the verbs of
//! separate programs. Each of these programs has a hidden verb `definition`, which prints its own.
//!
//! It has only the parts that completions show. clap takes names of commands at run time only as
//! references that live to the end of the program, so [`Definition::command`] leaks them; a program
//! does this once.

use crate::exit::Outcome;
use crate::output::Output;
use benthic_core::Error;
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command};
use serde::{Deserialize, Serialize};

/// A command with its arguments and its own commands.
#[derive(Serialize, Deserialize)]
pub struct Definition {
    name: String,
    about: String,
    arguments: Vec<Argument>,
    commands: Vec<Definition>,
}

#[derive(Serialize, Deserialize)]
struct Argument {
    name: String,
    short: Option<char>,
    long: Option<String>,
    help: String,
    takes_value: bool,
    values: Vec<String>,
}

/// Prints the definition of a program's verbs.
///
/// # Errors
/// Those of the output.
pub fn print(command: &Command, out: &Output) -> Outcome {
    let definition = Definition::of(command);
    let json = serde_json::to_vec(&definition.commands)
        .map_err(|error| Error::internal("the command line cannot be described").with_source(error))?;
    out.write_bytes(&json)
}

impl Definition {
    fn of(command: &Command) -> Definition {
        let text = |text: Option<&clap::builder::StyledStr>| text.map_or(String::new(), ToString::to_string);
        let argument = |argument: &Arg| Argument {
            name: argument.get_id().to_string(),
            short: argument.get_short(),
            long: argument.get_long().map(str::to_owned),
            help: text(argument.get_help()),
            takes_value: argument.get_action().takes_values(),
            values: argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect(),
        };
        Definition {
            name: command.get_name().to_owned(),
            about: text(command.get_about()),
            arguments: command
                .get_arguments()
                .filter(|argument| !argument.is_hide_set())
                .map(argument)
                .collect(),
            commands: command
                .get_subcommands()
                .filter(|command| !command.is_hide_set())
                .map(Definition::of)
                .collect(),
        }
    }

    /// Name of the verb.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command line for completions; it cannot parse arguments as the program does.
    pub fn command(self) -> Command {
        Command::new(leak(self.name))
            .about(self.about)
            .args(self.arguments.into_iter().map(Argument::arg))
            .subcommands(self.commands.into_iter().map(Definition::command))
    }
}

impl Argument {
    fn arg(self) -> Arg {
        let mut arg = Arg::new(leak(self.name)).help(self.help);
        if let Some(short) = self.short {
            arg = arg.short(short);
        }
        if let Some(long) = self.long {
            arg = arg.long(leak(long));
        }
        if !self.takes_value {
            return arg.action(ArgAction::SetTrue);
        }
        if !self.values.is_empty() {
            arg = arg.value_parser(PossibleValuesParser::new(self.values.into_iter().map(leak)));
        }
        arg
    }
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}
