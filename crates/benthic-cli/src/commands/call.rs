//! The arguments that name a method and its input, for the commands that run one.

use crate::commands;
use benthic_core::{ClassCall, ClassInfo, Error, ObjectAddress, ObjectId, Pool};
use benthic_program::collect::OtherObject;
use benthic_program::exec::PreparedCall;
use benthic_program::exit::Outcome;
use benthic_program::local;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub struct CallArgs {
    /// The class (not with --code)
    class: String,
    /// The method
    #[arg(required_unless_present = "code")]
    method: Option<String>,
    /// The input: text, @FILE for a file's content, or - for stdin (also for a text that begins
    /// with @)
    input: Option<String>,
    /// Run a WebAssembly module that is not deployed; METHOD then comes in the place of CLASS
    #[arg(long, value_name = "FILE")]
    code: Option<PathBuf>,
    /// Another object for the method, by the name that the method declares; read once, before the
    /// first call
    #[arg(long = "object", value_name = "NAME=POOL/OBJECT", value_parser = parse_other)]
    others: Vec<(String, ObjectAddress)>,
}

fn parse_other(text: &str) -> Result<(String, ObjectAddress), String> {
    let other =
        text.split_once('=').and_then(|(name, address)| Some((name.to_owned(), address.parse().ok()?)));
    other.ok_or_else(|| "an object is NAME=POOL/OBJECT or NAME=POOL:NS/OBJECT".to_owned())
}

impl CallArgs {
    /// Prepares the call. Also returns the classes that it may refer to. `target` is the argument
    /// before the class, for error messages. Without an object, any OSD of the pool is asked about
    /// the class.
    pub async fn prepare(
        self,
        target: &str,
        pool: &dyn Pool,
        object: Option<&ObjectId>,
        session: &Session,
    ) -> Outcome<(PreparedCall, Vec<ClassInfo>)> {
        let mut others = Vec::new();
        for (name, ObjectAddress { pool, object }) in self.others {
            others.push(OtherObject { name, pool: session.pool(&pool).await?, object });
        }
        match self.code {
            None => {
                let input = commands::read_value(self.input.as_deref().unwrap_or_default()).await?;
                let call = ClassCall::new(self.class, self.method.unwrap_or_default(), input);
                Ok(session.prepare_call(pool, object, call, others).await?)
            }
            // The class is in the file, so the method comes in its place.
            Some(_) if self.input.is_some() => {
                let message =
                    format!("with --code the arguments are {target} METHOD [INPUT]; the file has the class");
                Err(Error::invalid_argument(message).into())
            }
            Some(file) => {
                let input = commands::read_value(self.method.as_deref().unwrap_or_default()).await?;
                let wasm = blocking(move || local::read_file(&file)).await?.data;
                let call = PreparedCall::of_module(wasm, &self.class, input, others).await?;
                session.check_runs_modules(pool, object).await?;
                Ok((call, session.classes().await?))
            }
        }
    }
}
