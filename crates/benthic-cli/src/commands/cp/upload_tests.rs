use super::{Options, copy_all};
use crate::commands::cp::plan::{self, Target};
use crate::jobs::OUTAGE_WAIT;
use benthic_core::{ErrorKind, ObjectId, Pool, WriteStep};
use benthic_embedded::{MemStore, Options as StoreOptions};
use benthic_program::output::Output;
use benthic_program::session::Session;
use benthic_program::transfer;
use benthic_testkit::faulty::FaultyPool;
use bytes::Bytes;
use std::sync::Arc;

async fn copy(pool: Arc<dyn Pool>, content: &str) -> Result<bool, ErrorKind> {
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("f"), content).unwrap();
    let target = Target { pool: "p".to_owned(), namespace: String::new(), prefix: String::new() };
    let plan = plan::plan_files(&[here.path().join("f")], &target, false, None);
    let options = Options {
        jobs: 1,
        checksum: false,
        check: true,
        began_unix_ns: u64::MAX,
        dry_run: false,
        outage_wait: OUTAGE_WAIT,
    };
    let session = Session::new("mem:".to_owned(), Output::new(false), benthic_classes::registry());
    let mut copied = Vec::new();
    let done = |_, result: benthic_core::Result<super::Copied>| {
        copied.push(result.map(|copied| !copied.unchanged).map_err(|error| error.kind()));
        Ok(())
    };
    copy_all(&session, pool, plan.uploads, options, done).await.unwrap();
    copied.pop().unwrap()
}

#[tokio::test]
async fn a_damaged_copy_is_reported_and_copied_again() {
    let store = MemStore::new(StoreOptions::default().with_classes(benthic_classes::registry()));
    let pool = FaultyPool::create(store, |number, mut op, _| {
        if number == 0 {
            for step in &mut op.steps {
                if let WriteStep::WriteFull { data } = step {
                    *data = Bytes::from_static(b"dataX");
                }
            }
        }
        Ok(op)
    })
    .await;
    let pool = Arc::new(pool);
    assert_eq!(copy(Arc::clone(&pool) as Arc<dyn Pool>, "data.").await, Err(ErrorKind::Corrupt));
    let object = ObjectId::new("f").unwrap();
    assert_eq!(transfer::read_state(&*pool, &object).await.unwrap().source, None);
    assert_eq!(copy(Arc::clone(&pool) as Arc<dyn Pool>, "data.").await, Ok(true));
    assert_eq!(pool.inner.read_range(&object, 0, 10).await.unwrap(), "data.");
}
