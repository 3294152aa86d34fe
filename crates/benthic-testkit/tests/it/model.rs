//! Proof that the model test detects faulty engines.

use async_trait::async_trait;
use benthic_core::{
    ClassCall, Durability, ListPage, ListRequest, ObjectId, Pool, ReadOp, ReadReply, ReadStep, Result, Store,
    WriteOp, WriteReply, WriteStep,
};
use benthic_embedded::{MemStore, Options};
use benthic_testkit::model::{self, Subject};
use bytes::Bytes;
use futures::executor::block_on;
use std::sync::Arc;

struct Memory {
    store: Arc<MemStore>,
    fault: Option<Fault>,
}

impl Memory {
    fn new(fault: Option<Fault>) -> Memory {
        let store = MemStore::new(Options::default().with_classes(benthic_classes::registry()));
        block_on(store.create_pool("model")).unwrap();
        Memory { store, fault }
    }
}

impl Subject for Memory {
    fn pool(&self) -> Arc<dyn Pool> {
        let pool = block_on(self.store.open_pool("model")).unwrap();
        match self.fault {
            Some(fault) => Arc::new(FaultyPool { pool, fault }),
            None => pool,
        }
    }

    fn flush(&self) -> Result<()> {
        block_on(self.store.flush())
    }

    fn reopen(&mut self) -> Result<()> {
        if self.fault == Some(Fault::ReopenLosesEverything) {
            *self = Memory::new(self.fault);
        }
        Ok(())
    }
}

/// The fault of an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    AppendLosesLastByte,
    BufferedWritesAreLost,
    GuardsAreIgnored,
    ListMissesAnObject,
    ReadIsShortAcrossBoundary,
    RemoveXattrDoesNothing,
    ReopenLosesEverything,
    VersionStands,
}

/// A correct pool with one injected fault.
struct FaultyPool {
    pool: Arc<dyn Pool>,
    fault: Fault,
}

#[async_trait]
impl Pool for FaultyPool {
    fn name(&self) -> &str {
        self.pool.name()
    }

    async fn read(&self, object: &ObjectId, mut op: ReadOp) -> Result<ReadReply> {
        if self.fault == Fault::ReadIsShortAcrossBoundary {
            for step in &mut op.steps {
                if let ReadStep::Read { offset_bytes, len_bytes } = step
                    && *offset_bytes < 65_536
                    && *offset_bytes + *len_bytes > 65_536
                {
                    *len_bytes = 65_536 - *offset_bytes;
                }
            }
        }
        self.pool.read(object, op).await
    }

    async fn write(&self, object: &ObjectId, mut op: WriteOp) -> Result<WriteReply> {
        match self.fault {
            Fault::AppendLosesLastByte => {
                for step in &mut op.steps {
                    if let WriteStep::Append { data } = step {
                        data.truncate(data.len().saturating_sub(1));
                    }
                }
            }
            Fault::BufferedWritesAreLost if op.durability == Durability::Buffered => op.steps.clear(),
            Fault::GuardsAreIgnored => op.guards.clear(),
            Fault::RemoveXattrDoesNothing => {
                op.steps.retain(|step| !matches!(step, WriteStep::RemoveXattr { .. }));
            }
            _ => {}
        }
        let mut reply = self.pool.write(object, op).await?;
        if self.fault == Fault::VersionStands {
            reply.version = reply.version.min(3);
        }
        Ok(reply)
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        self.pool.exec(object, call).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        let mut page = self.pool.list(request).await?;
        if self.fault == Fault::ListMissesAnObject && page.objects.len() > 1 {
            page.objects.pop();
        }
        Ok(page)
    }
}

#[test]
fn a_correct_engine_passes_the_model_test() {
    model::run(|| Memory::new(None), 100, 40);
}

#[test]
fn the_model_test_finds_faults_and_shrinks_them() {
    for fault in [
        Fault::AppendLosesLastByte,
        Fault::BufferedWritesAreLost,
        Fault::GuardsAreIgnored,
        Fault::ListMissesAnObject,
        Fault::ReadIsShortAcrossBoundary,
        Fault::RemoveXattrDoesNothing,
        Fault::ReopenLosesEverything,
        Fault::VersionStands,
    ] {
        let subject = || Memory::new(Some(fault));
        let difference =
            model::find_difference(subject, 1..=100, 40).unwrap_or_else(|| panic!("missed {fault:?}"));
        assert!(difference.operations.len() <= 5, "{fault:?} is not small: {difference}");
        let again = model::find_difference(subject, [difference.seed], 40).unwrap();
        assert_eq!(again.to_string(), difference.to_string(), "{fault:?} does not replay");
    }
}
