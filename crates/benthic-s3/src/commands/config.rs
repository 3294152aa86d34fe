//! `benthic s3 serve --config FILE`: reads options from a TOML file. They have the same names as on
//! the command line, and the command line takes precedence.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Maximum size of the file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Parses the command line, together with the file that it names.
///
/// # Errors
/// Those of clap; a file that cannot be read or contains an unknown option.
pub fn parse(mut command: Command, mut args: Vec<OsString>) -> Result<ArgMatches, clap::Error> {
    let matches = command.try_get_matches_from_mut(&args)?;
    let s3 = matches.subcommand_matches("s3");
    let serve = s3.and_then(|s3| s3.subcommand_matches("serve"));
    if let Some((serve, path)) = serve.and_then(|serve| Some((serve, serve.get_one::<PathBuf>("config")?))) {
        match file_args(&command, serve, path) {
            Ok(file_args) => args.extend(file_args),
            Err(message) => {
                let message = format!("{message} path={}", path.display());
                return Err(command.error(ErrorKind::ValueValidation, message));
            }
        }
    }
    command.try_get_matches_from(args)
}

/// Converts the options in a file to arguments, except those that are already given.
fn file_args(command: &Command, given: &ArgMatches, path: &Path) -> Result<Vec<OsString>, String> {
    let options = options(command);
    let mut args = Vec::new();
    let text = read(path)?;
    let table = DeTable::parse(&text)
        .map_err(|error| format!("the configuration file is not valid TOML: {}", error.message()))?;
    for (key, value) in table.get_ref() {
        let key = key.get_ref();
        let option = options.iter().find(|option| option.get_long() == Some(key.as_ref()));
        let Some(option) = option else {
            let known: Vec<&str> = options.iter().filter_map(|option| option.get_long()).collect();
            return Err(format!("unknown option; the options are {} key={key}", known.join(", ")));
        };
        let source = given.value_source(option.get_id().as_str());
        if matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
            continue;
        }
        if matches!(option.get_action(), ArgAction::SetTrue) {
            match value.get_ref() {
                DeValue::Boolean(true) => args.push(format!("--{key}").into()),
                DeValue::Boolean(false) => {}
                _ => return Err(format!("this option must be true or false key={key}")),
            }
            continue;
        }
        let values: Vec<&DeValue<'_>> = match value.get_ref() {
            DeValue::Array(values) if matches!(option.get_action(), ArgAction::Append) => {
                values.iter().map(|value| value.get_ref()).collect()
            }
            value => vec![value],
        };
        for value in values {
            let value = match value {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.to_string(),
                _ => return Err(format!("an option must be a string or an integer key={key}")),
            };
            args.push(format!("--{key}={value}").into());
        }
    }
    Ok(args)
}

/// The options of `benthic s3 serve`.
fn options(command: &Command) -> Vec<&Arg> {
    let s3 = command.find_subcommand("s3");
    let serve = s3.and_then(|s3| s3.find_subcommand("serve"));
    let arguments = serve.into_iter().flat_map(Command::get_arguments);
    let is_option = |option: &&Arg| match option.get_action() {
        ArgAction::Set | ArgAction::Append => true,
        ArgAction::SetTrue => !option.is_global_set(),
        _ => false,
    };
    arguments.filter(is_option).filter(|option| option.get_id() != "config").collect()
}

fn read(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|error| format!("cannot read the configuration file: {error}"))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("the configuration file is too large size_bytes_max={FILE_BYTES_MAX}"));
    }
    Ok(text)
}
