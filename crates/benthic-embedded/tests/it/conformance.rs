//! Runs the conformance suite on every engine of this crate.

use crate::support::options;
use benthic_core::{MethodLimits, Store};
use benthic_embedded::{EmbeddedStore, MemStore, Options};
use benthic_testkit::conformance::Subject;
use futures::executor::block_on;
use std::sync::{Arc, LazyLock};

fn quick() -> Options {
    Options { method_limits: MethodLimits { deadline_ms: 300, ..MethodLimits::default() }, ..options() }
}

fn subject(store: Arc<dyn Store>) -> Subject {
    block_on(store.create_pool("conformance")).unwrap();
    let pool = block_on(store.open_pool("conformance")).unwrap();
    Subject { store, pool }
}

/// An empty directory that outlives the tests. The next run empties it.
fn scratch(name: &str) -> std::path::PathBuf {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

mod memory {
    benthic_testkit::conformance!(super::subject(super::MemStore::new(super::quick())));
}

mod embedded {
    benthic_testkit::conformance!(super::subject(
        super::EmbeddedStore::open(&super::scratch("conformance"), true, super::quick()).unwrap()
    ));
}

mod socket {
    static OWNER: super::LazyLock<std::sync::Arc<super::EmbeddedStore>> = super::LazyLock::new(|| {
        super::EmbeddedStore::open(&super::scratch("conformance-socket"), true, super::quick()).unwrap()
    });

    fn client() -> super::Subject {
        assert!(OWNER.is_owner());
        let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance-socket");
        let client = super::EmbeddedStore::open(&dir, false, super::quick()).unwrap();
        assert!(!client.is_owner());
        super::subject(client)
    }

    benthic_testkit::conformance!(client());
}
