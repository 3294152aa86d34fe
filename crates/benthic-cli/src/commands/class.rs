//! `benthic class ls|show`.

use crate::exit::Outcome;
use crate::store::{Session, nearest};
use benthic_core::{ClassCall, ClassInfo, Error, ErrorKind, MethodInfo, Result};
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
                let line = format!("{:<12} {} (version {})", class.name, class.summary, class.version);
                session.out.result(line, || summary(class))?;
            }
            Ok(())
        }
        ClassCommand::Show { class: name } => {
            let class = find_class(&classes, &name)?;
            session.out.result(page(class), || {
                let mut value = summary(class);
                value["methods"] = class.methods.iter().map(method).collect();
                value
            })
        }
    }
}

fn find_class<'a>(classes: &'a [ClassInfo], name: &str) -> Result<&'a ClassInfo> {
    classes.iter().find(|class| class.name == name).ok_or_else(|| {
        let hint = match nearest(name, classes.iter().map(|class| class.name.as_str())) {
            Some(class) => format!("did you mean {class:?}?"),
            None => "`benthic class ls` shows what is there".to_owned(),
        };
        Error::new(ErrorKind::Unsupported, format!("no such class; {hint}")).with("class", name)
    })
}

/// The method that a call is for.
///
/// # Errors
/// `Unsupported` if none of these classes has it, with what may be meant.
pub fn find_method<'a>(classes: &'a [ClassInfo], call: &ClassCall) -> Result<&'a MethodInfo> {
    let class = find_class(classes, &call.class)?;
    class.methods.iter().find(|method| method.name == call.method).ok_or_else(|| {
        let hint = match nearest(&call.method, class.methods.iter().map(|method| method.name.as_str())) {
            Some(method) => format!("did you mean {method:?}?"),
            None => format!("`benthic class show {}` shows what is there", class.name),
        };
        Error::new(ErrorKind::Unsupported, format!("no such method; {hint}"))
            .with("class", &call.class)
            .with("method", &call.method)
    })
}

/// The error of a call: if the store refused it for want of class or method, what may be meant.
pub fn explain(error: Error, classes: &[ClassInfo], call: &ClassCall) -> Error {
    match find_method(classes, call) {
        Err(unknown) if error.kind() == ErrorKind::Unsupported => unknown,
        _ => error,
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
