//! The counters of an OSD for the modules that ran in it.

use crate::{POOL, modules, pool, store};
use benthic_core::{ClassCalls, ErrorKind, MethodCalls, ObjectId, Pool};
use benthic_rados::RadosStore;
use benthic_wasm::{Call, Limits, ModuleId, with_manifest};
use bytes::Bytes;
use futures::executor::block_on;

const OBJECT: &str = "counted";

/// The class `counted`, whose only method has this body.
fn class(body: &str) -> Bytes {
    let json = r#"{"class":"counted","version":1,"methods":[{"method":"run","reads":true}]}"#;
    with_manifest(&modules::method(body), json.as_bytes()).into()
}

async fn call(pool: &dyn Pool, wasm: &Bytes) -> Result<Bytes, ErrorKind> {
    let (module, method, input) = (ModuleId::of(wasm), "run".to_owned(), Bytes::new());
    let call = Call { module, limits: Limits::default(), method, input, attached: None };
    let object = ObjectId::new(OBJECT).unwrap();
    let ended = benthic_wasm::exec(pool, &object, call, false, async || Ok(wasm.clone())).await;
    ended.map_err(|error| error.kind())
}

/// The counters of a version, in the OSD that has the object.
async fn counted(store: &RadosStore, version: &str) -> Option<MethodCalls> {
    let calls = store.calls_at(POOL, OBJECT, "wasm_1").await.unwrap().unwrap();
    let is_ours = |class: &ClassCalls| class.name == "counted" && class.version.as_deref() == Some(version);
    let class = calls.classes.into_iter().find(is_ours)?;
    class.methods.into_iter().find(|method| method.name == "run")
}

#[test]
fn an_osd_counts_calls_and_keeps_messages_under_the_name_of_the_class() {
    let logs = class(
        "(i32.store (i32.const 0) (i32.const 0x6e656573)) (call $log (i32.const 1) (i32.const 0) (i32.const 4))",
    );
    let traps = class("unreachable");
    let (pool, store) = (pool(), store());
    let version = |wasm: &Bytes| ModuleId::of(wasm).short();
    block_on(async {
        pool.write_full(&ObjectId::new(OBJECT).unwrap(), "x").await.unwrap();
        let calls = async |wasm| counted(&store, &version(wasm)).await.unwrap_or_default();
        let before = (calls(&logs).await, calls(&traps).await);
        for _ in 0..3 {
            assert_eq!(call(&*pool, &logs).await, Ok(Bytes::new()));
            assert_eq!(call(&*pool, &traps).await, Err(ErrorKind::ClassFailed));
        }
        let after = (calls(&logs).await, calls(&traps).await);
        assert_eq!((after.0.calls - before.0.calls, after.0.failures, after.0.faults), (3, 0, 0));
        assert!(after.0.fuel >= before.0.fuel + 3_000, "{after:?}");
        assert_eq!(after.0.memory_bytes_max, 64 * 1024, "one page");
        let grown = |count: fn(&MethodCalls) -> u64| count(&after.1) - count(&before.1);
        let [of_calls, failures, faults] = [grown(|m| m.calls), grown(|m| m.failures), grown(|m| m.faults)];
        assert_eq!((of_calls, failures, faults), (3, 3, 3));

        let log = store.failures_at(POOL, OBJECT, "wasm_1").await.unwrap().unwrap();
        let message = log.messages.iter().rfind(|message| message.class == "counted").unwrap();
        assert_eq!((&message.method[..], &message.level[..], &message.text[..]), ("run", "info", "seen"));
        assert_eq!(message.version.as_deref(), Some(&version(&logs)[..]));
        let failure = log.failures.iter().rfind(|failure| failure.class == "counted").unwrap();
        assert_eq!((&failure.method[..], &failure.kind[..]), ("run", "class_failed"));
        assert_eq!(failure.version.as_deref(), Some(&version(&traps)[..]));
    });
}
