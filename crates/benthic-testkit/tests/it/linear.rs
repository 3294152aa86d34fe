//! The linearizability checker detects engines that are not linearizable.

use async_trait::async_trait;
use benthic_core::{
    ClassCall, ListPage, ListRequest, ObjectId, Pool, ReadOp, ReadReply, Result, Store, WriteOp, WriteReply,
};
use benthic_embedded::{MemStore, Options};
use benthic_testkit::linear::{Load, find_violation};
use benthic_testkit::model::Subject;
use bytes::Bytes;
use futures::executor::block_on;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const LOAD: Load = Load { threads: 4, ops_per_thread: 50, rounds: 2 };
const HISTORIES: u64 = 20;

/// The fault of an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Some reads return the state before the last change.
    StaleRead,
    /// The version guard is checked before the operation and not atomically with it.
    GuardAndWriteApart,
    /// An acknowledged write is never applied.
    LostWrite,
    /// A read sees only one step of an operation of two steps.
    TornWrite,
    /// Reopening loses all data.
    ReopenLosesEverything,
}

struct FaultyPool {
    pool: Arc<dyn Pool>,
    fault: Option<Fault>,
    calls: AtomicUsize,
    last: Mutex<HashMap<ObjectId, ReadReply>>,
}

impl FaultyPool {
    /// Whether to inject the fault into this call: every seventh call.
    fn now(&self, fault: Fault) -> bool {
        self.fault == Some(fault) && self.calls.fetch_add(1, Ordering::SeqCst) % 7 == 6
    }
}

#[async_trait]
impl Pool for FaultyPool {
    fn name(&self) -> &str {
        self.pool.name()
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        if op.steps.len() > 1 && self.fault == Some(Fault::StaleRead) {
            let now = self.pool.read(object, op).await?;
            let before = self.last.lock().unwrap().insert(object.clone(), now.clone());
            return Ok(before.filter(|_| self.now(Fault::StaleRead)).unwrap_or(now));
        }
        self.pool.read(object, op).await
    }

    async fn write(&self, object: &ObjectId, mut op: WriteOp) -> Result<WriteReply> {
        if self.fault == Some(Fault::GuardAndWriteApart) && !op.guards.is_empty() {
            let guards = std::mem::take(&mut op.guards);
            self.pool.write(object, WriteOp { guards, ..WriteOp::new().create(false) }).await?;
            std::thread::yield_now();
        }
        if self.fault == Some(Fault::TornWrite) && op.steps.len() > 1 {
            let last = op.steps.split_off(1);
            self.pool.write(object, op).await?;
            std::thread::yield_now();
            return self.pool.write(object, WriteOp { steps: last, ..WriteOp::new() }).await;
        }
        if self.now(Fault::LostWrite)
            && let Ok((_, version)) = self.pool.stat(object).await
        {
            return Ok(WriteReply { version: version + 1 });
        }
        self.pool.write(object, op).await
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        self.pool.exec(object, call).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.pool.list(request).await
    }
}

struct Engine {
    store: Arc<MemStore>,
    fault: Option<Fault>,
}

impl Engine {
    fn new(fault: Option<Fault>) -> Engine {
        let store = MemStore::new(Options::default());
        block_on(store.create_pool("p")).unwrap();
        Engine { store, fault }
    }
}

impl Subject for Engine {
    fn pool(&self) -> Arc<dyn Pool> {
        let pool = block_on(self.store.open_pool("p")).unwrap();
        Arc::new(FaultyPool { pool, fault: self.fault, calls: AtomicUsize::new(0), last: Mutex::default() })
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn reopen(&mut self) -> Result<()> {
        if self.fault == Some(Fault::ReopenLosesEverything) {
            *self = Engine::new(self.fault);
        }
        Ok(())
    }
}

#[test]
fn a_linearizable_engine_passes() {
    for seed in 0..HISTORIES {
        assert_eq!(find_violation(&mut Engine::new(None), seed, LOAD), None);
    }
}

#[test]
fn engines_that_are_not_linearizable_are_found() {
    for fault in [
        Fault::StaleRead,
        Fault::GuardAndWriteApart,
        Fault::LostWrite,
        Fault::TornWrite,
        Fault::ReopenLosesEverything,
    ] {
        let found = (0..HISTORIES).find_map(|seed| find_violation(&mut Engine::new(Some(fault)), seed, LOAD));
        assert!(found.is_some_and(|text| text.contains("BENTHIC_TEST_SEED=")), "missed {fault:?}");
    }
}
