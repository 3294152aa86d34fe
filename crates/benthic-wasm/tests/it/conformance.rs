//! Runs the conformance suite's cases of classes on classes that are modules, on every engine of
//! `benthic-embedded`.

use crate::native;
use benthic_core::{ClassRegistry, MethodLimits, Store};
use benthic_embedded::{EmbeddedStore, MemStore, Options};
use benthic_testkit::conformance::Subject;
use benthic_wasm::Wasm;
use futures::executor::block_on;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

fn options() -> Options {
    let options = Options {
        method_limits: MethodLimits { deadline_ms: 1_500, ..MethodLimits::default() },
        ..Options::default()
    };
    options.with_classes(ClassRegistry::new().with(Wasm::new()))
}

fn subject(store: Arc<dyn Store>) -> Subject {
    block_on(store.create_pool("conformance")).unwrap();
    let pool = block_on(store.open_pool("conformance")).unwrap();
    native::subject(store, pool)
}

/// An empty directory that outlives the tests. The next run empties it.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

mod memory {
    benthic_testkit::class_conformance!(super::subject(super::MemStore::new(super::options())));
}

mod embedded {
    benthic_testkit::class_conformance!(super::subject(
        super::EmbeddedStore::open(&super::scratch("wasm-conformance"), true, super::options()).unwrap()
    ));
}

mod socket {
    static OWNER: super::LazyLock<super::Arc<super::EmbeddedStore>> = super::LazyLock::new(|| {
        super::EmbeddedStore::open(&super::scratch("wasm-conformance-socket"), true, super::options())
            .unwrap()
    });

    fn client() -> super::Subject {
        assert!(OWNER.is_owner());
        let dir = super::Path::new(env!("CARGO_TARGET_TMPDIR")).join("wasm-conformance-socket");
        let client = super::EmbeddedStore::open(&dir, false, super::options()).unwrap();
        assert!(!client.is_owner());
        super::subject(client)
    }

    benthic_testkit::class_conformance!(client());
}
