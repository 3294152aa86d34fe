//! A gateway in this process that is the upstream of another.

use benthic_core::{Environment, Store};
use benthic_embedded::{MemStore, Options};
use benthic_s3::PoolSal;
use benthic_s3::gateway::{Keys, Limits, Server, Services};
use benthic_s3::identity::Identities;
use benthic_s3::sal::Sal;
use benthic_s3::seal::Sealer;
use benthic_s3::upstream::{self, Credentials, Endpoint, UpstreamSal};
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

pub const RETRY_AFTER: Duration = Duration::from_millis(50);
pub const REGION: &str = "us-east-1";

pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// A running gateway, until the end of the process.
#[derive(Clone)]
pub struct Far {
    pub address: String,
    pub credentials: Credentials,
}

/// A driver on a store in memory.
pub fn in_memory() -> Arc<dyn Sal> {
    futures::executor::block_on(async {
        let store = MemStore::new(Options::default().with_classes(benthic_classes::registry()));
        store.create_pool("s3").await.unwrap();
        let pool = store.open_pool("s3").await.unwrap();
        Arc::new(PoolSal::open(Arc::clone(&pool), pool, benthic_s3::Options::default()).await.unwrap())
    })
}

impl Far {
    /// Serves a driver over HTTP.
    pub fn serve(sal: &Arc<dyn Sal>) -> Far {
        let environment = Environment::default();
        let sealer = Sealer::with_key([7; 32], environment.clone());
        let identities = Arc::new(Identities::new(Arc::clone(sal), Some(sealer), environment.clone()));
        let limits = Limits {
            connections_max: 256,
            idle_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(60),
        };
        let keys = Arc::clone(&identities) as Arc<dyn Keys>;
        let server = Server::new(
            Arc::clone(sal),
            keys,
            environment,
            REGION.to_owned(),
            Vec::new(),
            limits,
            Services::default(),
        )
        .unwrap();
        RUNTIME.block_on(async {
            let key = identities.create_first_key().await.unwrap().unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            tokio::spawn(Arc::new(server).serve(listener, None, std::future::pending()));
            let credentials = Credentials {
                access_key: key.access_key.to_string(),
                secret_key: key.secret.to_string(),
                session_token: None,
            };
            Far { address, credentials }
        })
    }

    /// The parameters of a driver whose upstream is at this address, with a small cache.
    pub fn options(&self, address: &str, cache: &Path) -> upstream::Options {
        let url = format!("http://{address}");
        let mut endpoint = Endpoint::new(&url, REGION.to_owned(), self.credentials.clone()).unwrap();
        endpoint.retry_after = RETRY_AFTER;
        upstream::Options { bucket_ms: 0, ..upstream::Options::new(endpoint, cache.to_path_buf(), 256 << 20) }
    }
}

/// Opens the driver.
pub fn open(own: Arc<dyn Sal>, options: upstream::Options) -> Arc<UpstreamSal> {
    let _entered = RUNTIME.enter();
    Arc::new(UpstreamSal::open(own, options, Environment::default()).unwrap())
}
