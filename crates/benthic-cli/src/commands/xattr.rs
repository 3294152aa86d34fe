//! `benthic xattr get|set|rm|ls`: reads and changes the attributes of an object.

use crate::commands;
use benthic_core::{Fetch, WriteOp};
use benthic_program::exit::Outcome;
use benthic_program::output::insert_bytes;
use benthic_program::session::Session;
use benthic_program::units;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

pub const EXAMPLES: &str = "Examples:\n  benthic xattr set photos/cat.jpg colour black\n  \
    benthic xattr get photos/cat.jpg colour\n  benthic xattr ls photos/cat.jpg";

#[derive(Args)]
pub struct XattrArgs {
    /// The object: POOL/OBJECT or POOL:NAMESPACE/OBJECT
    object: String,
    /// The attribute
    name: String,
}

#[derive(Subcommand)]
pub enum XattrCommand {
    /// Print the value of an attribute unchanged
    #[command(after_help = "Example:\n  benthic xattr get photos/cat.jpg colour")]
    Get(XattrArgs),
    /// Set an attribute, and create the object if it is missing
    #[command(after_help = "Examples:\n  benthic xattr set photos/cat.jpg colour black\n  \
        benthic xattr set photos/cat.jpg thumbnail - < small.jpg")]
    Set {
        #[command(flatten)]
        xattr: XattrArgs,
        /// The value: text, @FILE for a file's content, or - for stdin (also for a text that begins
        /// with @)
        value: String,
    },
    /// Remove an attribute; a missing attribute is no error
    #[command(after_help = "Example:\n  benthic xattr rm photos/cat.jpg colour")]
    Rm(XattrArgs),
    /// List the attributes of an object, with escaped values
    #[command(after_help = "Example:\n  benthic xattr ls photos/cat.jpg")]
    Ls {
        /// The object: POOL/OBJECT or POOL:NAMESPACE/OBJECT
        object: String,
    },
}

pub async fn run(command: XattrCommand, session: &Session) -> Outcome {
    match command {
        XattrCommand::Get(XattrArgs { object, name }) => {
            let (pool, address) = commands::locate(session, &object).await?;
            let value = pool.get_xattr(&address.object, &name).await?;
            let mut fields = commands::address_fields(&address);
            fields.insert("name".to_owned(), json!(name));
            session.out.value(&value, "value", fields)
        }
        XattrCommand::Set { xattr: XattrArgs { object, name }, value } => {
            let value = commands::read_value(&value).await?;
            write(session, &object, WriteOp::new().set_xattr(name, value)).await
        }
        XattrCommand::Rm(XattrArgs { object, name }) => {
            write(session, &object, WriteOp::new().remove_xattr(name)).await
        }
        XattrCommand::Ls { object } => {
            let (pool, address) = commands::locate(session, &object).await?;
            let (xattrs, _) = pool.fetch(&address.object, Fetch::list_xattrs()).await?;
            for (name, value) in xattrs {
                let line = format!("{}\t{}", units::one_line(&name), units::one_line_bytes(&value));
                session.out.result(line, || {
                    let mut fields = commands::address_fields(&address);
                    fields.insert("name".to_owned(), json!(name));
                    insert_bytes(&mut fields, "value", &value);
                    Value::Object(fields)
                })?;
            }
            Ok(())
        }
    }
}

/// Runs a write operation on the object at this address.
pub async fn write(session: &Session, object: &str, op: WriteOp) -> Outcome {
    op.check()?;
    let (pool, address) = commands::locate(session, object).await?;
    commands::check_writable(address.object.namespace())?;
    pool.write(&address.object, op).await?;
    commands::print_json(session, &address, json!({}))
}
