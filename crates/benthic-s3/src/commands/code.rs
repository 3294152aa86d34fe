//! Runs methods of classes for the gateway.

use async_trait::async_trait;
use benthic_core::{ClassCall, Error, ErrorKind, ObjectId, Pool, Result};
use benthic_program::exec::PreparedCall;
use benthic_program::store;
use benthic_s3::gateway::{Code, ObjectData, RanAt};
use bytes::Bytes;
use futures::executor::block_on;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The native classes that requests may call. The others are for tests, or change the store's own
/// objects, or would run code that nobody has deployed.
const NATIVE_CLASSES: [&str; 2] = ["digest", "picture"];
/// Limits on the methods that run in the store at once. A method of a directory holds one of at
/// least eight threads, which other requests need, too.
const IN_DIRECTORY_MAX: usize = 4;
const IN_CLUSTER_MAX: usize = 64;
/// How long a request waits for others' methods.
const WAIT_LIMIT: Duration = Duration::from_secs(5);
/// The object on which a method runs in the gateway.
const LOCAL_OBJECT: &str = "data";

/// Some native classes, and those that are deployed to the gateway's pool.
pub struct StoreCode {
    /// The pool with the deployed classes.
    classes: Arc<dyn Pool>,
    in_store: Arc<Semaphore>,
    local: Arc<LocalPools>,
}

impl StoreCode {
    pub async fn new(classes: Arc<dyn Pool>, is_cluster: bool) -> Result<StoreCode> {
        let in_store_max = if is_cluster { IN_CLUSTER_MAX } else { IN_DIRECTORY_MAX };
        let in_store = Arc::new(Semaphore::new(in_store_max));
        Ok(StoreCode { classes, in_store, local: Arc::new(LocalPools::new().await?) })
    }

    /// Data of S3 objects never change, so only methods that read may run.
    async fn prepare(&self, call: ClassCall) -> Result<PreparedCall> {
        let (class, method) = (call.class.clone(), call.method.clone());
        let failed =
            |kind, message| Err(Error::new(kind, message).with("class", &class).with("method", &method));
        let prepared = if NATIVE_CLASSES.contains(&&*class) {
            let classes = benthic_classes::registry().describe();
            let described = classes.iter().find(|described| described.name == class);
            match described.and_then(|class| class.methods.iter().find(|described| described.name == method))
            {
                None => return failed(ErrorKind::NotFound, "the class has no such method"),
                Some(found) if found.writes => None,
                Some(_) => Some(PreparedCall::native(&classes, call)),
            }
        } else {
            match PreparedCall::of_deployed(&*self.classes, call).await? {
                None => return failed(ErrorKind::NotFound, "there is no such class for S3 objects"),
                Some(prepared) => (!prepared.module_writes()).then_some(prepared),
            }
        };
        match prepared {
            Some(prepared) => Ok(prepared),
            None => failed(
                ErrorKind::InvalidArgument,
                "the method writes; only methods that read run on S3 objects",
            ),
        }
    }

    /// Checks that a method exists and may run on S3 objects.
    pub async fn check(&self, call: ClassCall) -> Result<()> {
        self.prepare(call).await.map(drop)
    }

    /// Runs a method beside the data, if they are in one piece and the pool runs code.
    async fn run_beside(&self, call: &mut PreparedCall, data: &ObjectData<'_>) -> Result<Option<Bytes>> {
        let Some((pool, object)) = data.in_one_piece().await? else { return Ok(None) };
        if pool.name() != self.classes.name() {
            call.attach_module(&*self.classes).await?;
        }
        match self.run_on(call.clone(), pool, object).await {
            // Some pools run no code, such as erasure-coded ones.
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
            ran => ran.map(Some),
        }
    }

    async fn run_on(&self, call: PreparedCall, pool: Arc<dyn Pool>, object: ObjectId) -> Result<Bytes> {
        let place = wait_for(&self.in_store).await?;
        // A task of its own, so that a client that disconnects does not free the place too early.
        let run = async move {
            let _place = place;
            match call.run(&*pool, &object).await {
                // The method may say so, too, but then the data are there.
                Err(error) if error.kind() == ErrorKind::NotFound && pool.stat(&object).await.is_err() => {
                    Err(error.with_kind(ErrorKind::Unavailable))
                }
                ran => ran,
            }
        };
        join(tokio::spawn(run).await)
    }
}

#[async_trait]
impl Code for StoreCode {
    async fn run(&self, call: ClassCall, data: ObjectData<'_>) -> Result<(Bytes, RanAt)> {
        let mut prepared = self.prepare(call).await?;
        if let Some(result) = self.run_beside(&mut prepared, &data).await? {
            return Ok((result, RanAt::Store));
        }
        data.check_size()?;
        prepared.attach_module(&*self.classes).await?;
        let place = wait_for(&self.local.places).await?;
        let data = data.read().await?;
        let local = Arc::clone(&self.local);
        let run = move || {
            let _place = place;
            local.run(&prepared, data)
        };
        Ok((join(tokio::task::spawn_blocking(run).await)?, RanAt::Gateway))
    }

    async fn run_in_store(&self, call: ClassCall, data: &ObjectData<'_>) -> Result<Option<Bytes>> {
        let classes = benthic_classes::registry().describe();
        self.run_beside(&mut PreparedCall::native(&classes, call), data).await
    }
}

async fn wait_for(places: &Arc<Semaphore>) -> Result<tokio::sync::OwnedSemaphorePermit> {
    let place = tokio::time::timeout(WAIT_LIMIT, Arc::clone(places).acquire_owned()).await;
    place
        .ok()
        .and_then(std::result::Result::ok)
        .ok_or_else(|| Error::busy("too many methods run; repeat the request"))
}

fn join(ended: std::result::Result<Result<Bytes>, tokio::task::JoinError>) -> Result<Bytes> {
    ended.unwrap_or_else(|panic| Err(Error::internal("a task panicked").with_source(panic)))
}

/// Pools in memory, for data that are not in one piece. A pool runs one method at a time.
struct LocalPools {
    free: Mutex<Vec<Arc<dyn Pool>>>,
    /// One for each pool.
    places: Arc<Semaphore>,
}

impl LocalPools {
    async fn new() -> Result<LocalPools> {
        let memory = store::open("mem:", true, benthic_classes::registry()).await?.store;
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let mut free = Vec::new();
        for number in 0..count {
            let name = format!("local{number}");
            memory.create_pool(&name).await?;
            free.push(memory.open_pool(&name).await?);
        }
        Ok(LocalPools { free: Mutex::new(free), places: Arc::new(Semaphore::new(count)) })
    }

    /// Runs a method on data. Blocks. The caller has a place.
    fn run(&self, call: &PreparedCall, data: Bytes) -> Result<Bytes> {
        let missing = || Error::internal("a method runs without a place");
        let pool = self.free.lock().pop().ok_or_else(missing)?;
        let object = ObjectId::new(LOCAL_OBJECT)?;
        let ran = block_on(async {
            pool.write_full(&object, data).await?;
            let ran = call.run(&*pool, &object).await;
            pool.remove(&object).await?;
            ran
        });
        self.free.lock().push(pool);
        ran
    }
}
