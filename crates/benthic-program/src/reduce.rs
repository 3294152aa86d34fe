//! Merges results of a method, with another method of the same module.
//!
//! The method that merges runs here, at the client, in the interpreter and on an object in memory:
//! a merge belongs to no object of the pool, so no OSD is the right place for it. The input is a
//! [`list`] of results. The output is one result, which is an item of the next list. Results are
//! merged in batches, so the memory does not depend on their number.

use benthic_core::{ClassRegistry, Error, ObjectId, Pool, Result, Store, WriteOp};
use benthic_embedded::{MemStore, Options};
use benthic_wasm::{Call, Limits, Module, Wasm, list};
use bytes::Bytes;
use futures::executor::block_on;
use std::sync::Arc;

/// Results that wait are merged as soon as there are so many, or so many bytes.
const BATCH_RESULTS_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Merges results. The order in which it merges them is unspecified, so its method must be
/// associative and commutative.
pub struct Reducer {
    pool: Arc<dyn Pool>,
    object: ObjectId,
    /// Its input is replaced at each merge.
    call: Call,
    wasm: Bytes,
    merged: Option<Bytes>,
    waiting: Vec<Bytes>,
    waiting_bytes: usize,
}

impl Reducer {
    pub(crate) async fn new(wasm: Bytes, limits: Limits, method: &str) -> Result<Reducer> {
        let module = Module::new(&wasm)?;
        if !module.manifest().method(method)?.merges {
            let message =
                "the method does not merge results; a method that does has `\"merges\": true` in class.json";
            return Err(Error::invalid_argument(message).with("method", method));
        }
        let store = MemStore::new(Options::default().with_classes(ClassRegistry::new().with(Wasm::new())));
        store.create_pool("reduce").await?;
        let (pool, object) = (store.open_pool("reduce").await?, ObjectId::new("results")?);
        // A method that reads is not called on a missing object.
        pool.write(&object, WriteOp::new().create(false)).await?;
        let (method, input) = (method.to_owned(), Bytes::new());
        let call = Call { module: module.id(), limits, method, input, attached: None };
        Ok(Reducer { pool, object, call, wasm, merged: None, waiting: Vec::new(), waiting_bytes: 0 })
    }

    /// The method that merges.
    pub fn method(&self) -> &str {
        &self.call.method
    }

    /// Continues from a result that [`merged`](Reducer::merged) returned earlier.
    #[must_use]
    pub fn continue_from(self, merged: Option<Bytes>) -> Reducer {
        Reducer { merged, ..self }
    }

    /// Adds a result, which waits for the next merge.
    pub fn push(&mut self, result: Bytes) {
        self.waiting_bytes += result.len();
        self.waiting.push(result);
    }

    /// Whether the results that wait should be merged now.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= BATCH_RESULTS_MAX || self.waiting_bytes >= BATCH_BYTES_MAX
    }

    /// Merges the results that wait. Blocks while the method runs.
    ///
    /// # Errors
    /// Those of the method. The results then still wait.
    pub fn merge(&mut self) -> Result<()> {
        if !self.waiting.is_empty() {
            self.merged = Some(self.merge_list(self.merged.iter().chain(&self.waiting))?);
            self.waiting.clear();
            self.waiting_bytes = 0;
        }
        Ok(())
    }

    /// All results that have been merged, as one. `None` before the first merge.
    pub fn merged(&self) -> Option<&Bytes> {
        self.merged.as_ref()
    }

    /// Merges the results that wait, and returns the result of all. Without any, the method gets an
    /// empty list.
    ///
    /// # Errors
    /// Those of the method.
    pub fn finish(&mut self) -> Result<Bytes> {
        self.merge()?;
        self.merged.clone().map_or_else(|| self.merge_list([].into_iter()), Ok)
    }

    fn merge_list<'a>(&self, results: impl Iterator<Item = &'a Bytes> + Clone) -> Result<Bytes> {
        let call = Call { input: list(results), ..self.call.clone() };
        // The memory engine never waits.
        let fetch = async || Ok(self.wasm.clone());
        let merged = block_on(benthic_wasm::exec(&*self.pool, &self.object, call, false, fetch));
        merged.map_err(|error| {
            let message = format!("the method that merges results failed: {}", error.message());
            let context = error.context().filter(|(key, _)| *key != "object");
            context
                .fold(Error::new(error.kind(), message), |error, (key, value)| error.with(key, value))
                .with("reduce", &self.call.method)
        })
    }
}
