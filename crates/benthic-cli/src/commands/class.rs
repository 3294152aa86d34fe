//! `benthic class ls|show`.

use crate::exit::Outcome;
use crate::store::{Session, nearest};
use benthic_core::{ClassInfo, Error, ErrorKind, MethodInfo};
use clap::Subcommand;
use serde_json::{Value, json};

pub const EXAMPLES: &str = "Examples:\n  benthic class ls\n  benthic class show digest";

/// The commands on classes.
#[derive(Subcommand)]
pub enum ClassCommand {
    /// List the classes
    #[command(after_help = "Example:\n  benthic class ls")]
    Ls,
    /// Show the methods of a class: flags, input and output, examples
    #[command(after_help = "Example:\n  benthic class show digest")]
    Show {
        /// The class
        class: String,
    },
}

pub async fn run(command: ClassCommand, session: &Session) -> Outcome {
    let classes = session.classes().await?;
    match command {
        ClassCommand::Ls => {
            for class in &classes {
                let line = format!("{:<12} version {}  {}", class.name, class.version, class.summary);
                session.out.result(line, || summary(class))?;
            }
            Ok(())
        }
        ClassCommand::Show { class: name } => {
            let Some(class) = classes.iter().find(|class| class.name == name) else {
                let hint = match nearest(&name, classes.iter().map(|class| class.name.as_str())) {
                    Some(class) => format!("did you mean {class:?}?"),
                    None => "`benthic class ls` shows what is there".to_owned(),
                };
                return Err(Error::new(ErrorKind::NotFound, format!("no such class; {hint}"))
                    .with("class", format_args!("{name:?}"))
                    .into());
            };
            session.out.result(page(class), || {
                let mut value = summary(class);
                value["methods"] = class.methods.iter().map(method).collect();
                value
            })
        }
    }
}

fn summary(class: &ClassInfo) -> Value {
    json!({ "class": class.name, "version": class.version, "build": class.build, "summary": class.summary })
}

fn method(method: &MethodInfo) -> Value {
    json!({
        "method": method.name,
        "reads": method.reads,
        "writes": method.writes,
        "result_xattr": method.result_xattr,
        "summary": method.summary,
        "input": method.input,
        "output": method.output,
        "examples": method.examples,
    })
}

fn page(class: &ClassInfo) -> String {
    let mut page =
        format!("{}: {}\nversion {}, build {}", class.name, class.summary, class.version, class.build);
    for method in &class.methods {
        let flags = match (method.reads, method.writes) {
            (true, true) => "reads and writes",
            (true, false) => "reads",
            (false, true) => "writes",
            (false, false) => "touches nothing",
        };
        page.push_str(&format!("\n\n{} ({flags}): {}", method.name, method.summary));
        page.push_str(&format!("\n  input:   {}\n  output:  {}", method.input, method.output));
        if let Some(xattr) = &method.result_xattr {
            page.push_str(&format!("\n  kept in: attribute {xattr}, which `benthic exec` reads back"));
        }
        for input in &method.examples {
            let input = if input.is_empty() { String::new() } else { format!(" '{input}'") };
            page.push_str(&format!(
                "\n  example: benthic exec POOL/OBJECT {} {}{input}",
                class.name, method.name
            ));
        }
    }
    page
}
