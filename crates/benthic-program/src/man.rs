//! `benthic man`: writes manual pages from the definitions that `--help` prints.
//!
//! Some verbs of `benthic` belong to separate programs. Each of these programs has a hidden verb
//! `man`, which writes the pages of its verbs under the names that they have in `benthic`. `benthic
//! man` runs these programs.

use crate::exit::Outcome;
use crate::local::failed;
use benthic_core::build;
use clap::{Args, Command};
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(
    after_help = "Writes one page for each command, such as benthic-pool-create.1. `man benthic` finds the pages if they \
    are in a directory of your manual path. Debian's packages contain them.\n\n\
    Example:\n  benthic man ~/.local/share/man/man1"
)]
/// Arguments of the verb `man`.
pub struct ManArgs {
    /// Directory for the pages
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// Writes the page of `command`, which is all of `benthic`, and the pages of its commands. Leaves
/// out the commands that separate programs implement: these commands have no help of their own.
///
/// # Errors
/// Those of the file system.
pub fn write(args: &ManArgs, command: Command) -> Outcome {
    let command = build_help(command);
    write_page(&command, &args.dir)?;
    write_verbs(&command, &args.dir)
}

/// Writes the pages of a separate program's verbs.
///
/// # Errors
/// Those of the file system.
pub fn write_of_program(args: &ManArgs, command: Command) -> Outcome {
    write_verbs(&build_help(command.name("benthic")), &args.dir)
}

fn build_help(command: Command) -> Command {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    command
}

fn write_verbs(command: &Command, dir: &Path) -> Outcome {
    for verb in command.get_subcommands() {
        if !verb.is_hide_set() && !verb.is_disable_help_flag_set() {
            write_page(verb, dir)?;
            write_verbs(verb, dir)?;
        }
    }
    Ok(())
}

fn write_page(command: &Command, dir: &Path) -> Outcome {
    let source = format!("benthic {}", build());
    let page = clap_mangen::Man::new(command.clone()).source(source).manual("Benthic");
    page.generate_to(dir).map_err(failed("cannot write the manual page", dir))?;
    Ok(())
}
