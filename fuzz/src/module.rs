//! Targets for the input of the class `wasm`: modules and calls.

use benthic_core::{ClassRegistry, ErrorKind, ObjectId, Pool, ReadOp, Store};
use benthic_embedded::{MemStore, Options};
use benthic_wasm::rules::Rules;
use benthic_wasm::{Call, Limits, Manifest, Module, Signatures, Wasm, with_manifest};
use bytes::Bytes;
use futures::executor::block_on;
use std::sync::{Arc, LazyLock};

const MANIFEST: &[u8] =
    br#"{"class":"fuzzed","version":1,"methods":[{"method":"run","reads":true,"writes":true}]}"#;
const LIMITS: Limits = Limits { fuel: 1_000_000, memory_bytes: 4 * 1024 * 1024 };

static POOL: LazyLock<Arc<dyn Pool>> = LazyLock::new(|| {
    let options = Options::default().with_classes(ClassRegistry::new().with(Wasm::new()));
    let store = MemStore::new(options);
    block_on(async {
        store.create_pool("p").await.expect("the pool is new");
        store.open_pool("p").await.expect("the pool exists")
    })
});

/// Bytes as a module: it is refused, or its method `run` is called. A call that fails changes
/// nothing.
pub fn module(input: &[u8]) {
    let _ = Signatures::read(input);
    // A module without a description gets one.
    let described = [Bytes::copy_from_slice(input), Bytes::from(with_manifest(input, MANIFEST))];
    let Some(parsed) = described.iter().find_map(|wasm| Module::new(wasm).ok()) else { return };
    let Some(method) = parsed.manifest().methods.first() else { return };
    let (pool, object) = (&**POOL, ObjectId::new("o").expect("the name is valid"));
    let (name, body) = (method.name.clone(), Bytes::from_static(b"input"));
    let call = Call { module: parsed.id(), limits: LIMITS, method: name, input: body, attached: None };
    let state = async || {
        let all = ReadOp::new().read(0, 1 << 20).list_xattrs().omap_range(None, "", 1_000);
        pool.read(&object, all).await.map(|reply| reply.outputs).map_err(|error| error.kind())
    };
    block_on(async {
        pool.write_full(&object, "data").await.expect("a valid write succeeds");
        let before = state().await;
        let fetch = async || Ok(parsed.wasm().clone());
        let ended = benthic_wasm::exec(pool, &object, call, method.writes, fetch).await;
        if let Err(error) = ended {
            assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
            assert_eq!(state().await, before, "a call that failed changed the object");
        }
        let _ = pool.remove(&object).await;
    });
}

/// Bytes as a call, a manifest and rules: accepted input has one meaning.
pub fn module_call(input: &[u8]) {
    let bytes = Bytes::copy_from_slice(input);
    if let Ok(call) = Call::decode(&bytes) {
        assert_eq!(call.encode(), input, "a call has one encoding");
    }
    if let Ok(manifest) = Manifest::parse(input) {
        let json = serde_json::to_vec(&manifest).expect("a manifest can be encoded");
        assert_eq!(Manifest::parse(&json).expect("it is the same manifest"), manifest);
    }
    let _ = Rules::parse(input);
}
