//! The console's requests for classes: lists them, and calls their methods.

use crate::commands;
use crate::commands::class;
use crate::commands::console::Console;
use crate::commands::console::query::Query;
use crate::commands::console::reply::{Reply, json_reply};
use benthic_core::{ClassCall, Error, ErrorKind, ObjectId, Result, Stopwatch, SystemClock};
use benthic_program::output::insert_bytes;
use benthic_program::units;
use benthic_wasm::deployed;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Limit on the bytes of a result that a response has.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// The classes of the store and, with a pool, those that are deployed to it.
pub async fn list(console: &Console<'_>, query: &Query) -> Result<Reply> {
    let mut classes: Vec<Value> = console.session.classes().await?.iter().map(|class| json!(class)).collect();
    if !query.text("pool").is_empty() {
        let pool = console.session.pool(query.text("pool")).await?;
        match deployed::list(&*pool).await {
            // The pool has no omap.
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            listed => classes.extend(listed?.iter().map(|one| class::deployed_json(one, pool.name()))),
        }
    }
    Ok(json_reply(&json!({ "classes": classes })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    pool: String,
    #[serde(default)]
    namespace: String,
    object: String,
    class: String,
    method: String,
    #[serde(default)]
    input: String,
    /// The input in hexadecimal, instead of text.
    #[serde(default)]
    input_hex: Option<String>,
}

impl Call {
    fn input(&self) -> Result<Vec<u8>> {
        let Some(hex) = &self.input_hex else { return Ok(self.input.clone().into_bytes()) };
        let invalid = || Error::invalid_argument("input_hex is not hexadecimal");
        units::parse_hex(hex).ok_or_else(invalid)
    }
}

pub async fn exec(console: &Console<'_>, call: Call) -> Result<Reply> {
    let session = console.session;
    let pool = session.pool(&call.pool).await?;
    let object = ObjectId::in_namespace(call.namespace.clone(), call.object.clone())?;
    let class_call = ClassCall::new(&call.class, &call.method, call.input()?);
    let (prepared, classes) = session.prepare_call(&*pool, Some(&object), class_call, Vec::new()).await?;
    let method = class::find_method(&classes, prepared.call()).ok();
    // A class of Ceph's own is not described, so it is unknown whether a method of it writes.
    let may_write = prepared.module_writes() || method.is_none_or(|method| method.writes);
    if may_write {
        if !console.is_writable && method.is_none() {
            // If the name is wrong, say so first.
            return Err(class::find_method(&classes, prepared.call())
                .err()
                .unwrap_or_else(|| Error::permission_denied("this console is read-only")));
        }
        console.check_writable()?;
        commands::check_writable(object.namespace())?;
    }
    let clock = Stopwatch::start(&SystemClock);
    let ran = prepared.run(&*pool, &object).await;
    let output = ran.map_err(|error| class::explain(error, &classes, prepared.call()))?;
    let mut fields = Map::new();
    fields.insert("size_bytes".to_owned(), json!(output.len()));
    fields.insert("seconds".to_owned(), json!(clock.elapsed().as_secs_f64()));
    fields.insert("truncated".to_owned(), json!(output.len() > OUTPUT_BYTES_MAX));
    insert_bytes(&mut fields, "output", super::reply::beginning(&output, OUTPUT_BYTES_MAX));
    Ok(json_reply(&Value::Object(fields)))
}
