//! `benthic omap get|set|rm|ls`: reads and changes the omap of an object.

use crate::commands::{self, xattr};
use benthic_core::{Error, Fetch, Result, WriteOp, limits};
use benthic_program::exit::Outcome;
use benthic_program::output::insert_bytes;
use benthic_program::session::Session;
use benthic_program::{interrupt, units};
use bytes::Bytes;
use clap::{Args, Subcommand};
use serde_json::Value;

pub const EXAMPLES: &str = "Examples:\n  benthic omap set index/2026 cat.jpg 17\n  \
    benthic omap get index/2026 cat.jpg\n  benthic omap ls index/2026 --prefix cat";

#[derive(Args)]
pub struct KeyForm {
    /// Read and print keys in hexadecimal
    #[arg(long)]
    hex: bool,
}

impl KeyForm {
    fn parse(&self, text: &str) -> Result<Bytes> {
        if !self.hex {
            return Ok(Bytes::copy_from_slice(text.as_bytes()));
        }
        units::parse_hex(text).map(Bytes::from).ok_or_else(|| {
            Error::invalid_argument("with --hex a key is an even number of hexadecimal digits")
                .with("got", text)
        })
    }

    fn show(&self, key: &[u8]) -> String {
        if self.hex { units::hex(key) } else { units::one_line_bytes(key) }
    }
}

#[derive(Args)]
pub struct KeyArgs {
    /// The object: POOL/OBJECT or POOL:NAMESPACE/OBJECT
    object: String,
    /// The key
    key: String,
    #[command(flatten)]
    form: KeyForm,
}

#[derive(Subcommand)]
pub enum OmapCommand {
    /// Print the value of a key unchanged
    #[command(after_help = "Example:\n  benthic omap get index/2026 cat.jpg")]
    Get(KeyArgs),
    /// Set a key, and create the object if it is missing
    #[command(after_help = "Examples:\n  benthic omap set index/2026 cat.jpg 17\n  \
        benthic omap set index/2026 cat.jpg - < record")]
    Set {
        #[command(flatten)]
        key: KeyArgs,
        /// The value: text, @FILE for a file's content, or - for stdin (also for a text that begins
        /// with @)
        value: String,
    },
    /// Remove a key; a missing key is no error
    #[command(after_help = "Example:\n  benthic omap rm index/2026 cat.jpg")]
    Rm(KeyArgs),
    /// List keys in order, with escaped values
    #[command(after_help = "Example:\n  benthic omap ls index/2026 --prefix cat")]
    Ls {
        /// The object: POOL/OBJECT or POOL:NAMESPACE/OBJECT
        object: String,
        /// Only keys that begin with PREFIX
        #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
        prefix: String,
        #[command(flatten)]
        form: KeyForm,
    },
}

pub async fn run(command: OmapCommand, session: &Session) -> Outcome {
    match command {
        OmapCommand::Get(KeyArgs { object, key, form }) => get(session, &object, form.parse(&key)?).await,
        OmapCommand::Set { key: KeyArgs { object, key, form }, value } => {
            let value = commands::read_value(&value).await?;
            xattr::write(session, &object, WriteOp::new().omap_set([(form.parse(&key)?, value)])).await
        }
        OmapCommand::Rm(KeyArgs { object, key, form }) => {
            xattr::write(session, &object, WriteOp::new().omap_remove([form.parse(&key)?])).await
        }
        OmapCommand::Ls { object, prefix, form } => {
            let prefix = form.parse(&prefix)?;
            session.out.end_with_reader();
            list(session, &object, prefix, &form).await
        }
    }
}

async fn get(session: &Session, object: &str, key: Bytes) -> Outcome {
    let (pool, address) = commands::locate(session, object).await?;
    let (page, _) = pool.fetch(&address.object, Fetch::omap_get([key.clone()])).await?;
    let Some((_, value)) = page.entries.first() else {
        return Err(Error::not_found("no such key; `benthic omap ls` lists the keys")
            .with("key", units::one_line_bytes(&key))
            .with("object", &address)
            .into());
    };
    let mut fields = commands::address_fields(&address);
    insert_bytes(&mut fields, "key", &key);
    session.out.value(value, "value", fields)
}

async fn list(session: &Session, object: &str, prefix: Bytes, form: &KeyForm) -> Outcome {
    let (pool, address) = commands::locate(session, object).await?;
    let mut after = None;
    loop {
        interrupt::check()?;
        let range = Fetch::omap_range(after.take(), prefix.clone(), limits::OMAP_PAGE_ENTRIES_MAX);
        let (page, _) = pool.fetch(&address.object, range).await?;
        for (key, value) in &page.entries {
            let line = format!("{}\t{}", form.show(key), units::one_line_bytes(value));
            session.out.result(line, || {
                let mut fields = commands::address_fields(&address);
                insert_bytes(&mut fields, "key", key);
                insert_bytes(&mut fields, "value", value);
                Value::Object(fields)
            })?;
        }
        match page.entries.last() {
            Some((key, _)) if page.more => after = Some(key.clone()),
            _ => return Ok(()),
        }
    }
}
