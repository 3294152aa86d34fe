//! The native classes `hello` and `digest`, compiled to WebAssembly, in place of the native ones.
//! The conformance suite's cases of classes must not notice. The tests of `benthic-cls-wasm`
//! include this file.

use async_trait::async_trait;
use benthic_classes::{digest::Digest, hello::Hello};
use benthic_core::{
    Class, ClassCall, ClassHost, ClassInfo, ClassRegistry, ErrorKind, ListPage, ListRequest, ObjectId, Pool,
    ReadOp, ReadReply, ReadStep, Result, Store, WriteOp, WriteReply, WriteStep,
};
use benthic_embedded::{MemStore, Options};
use benthic_testkit::conformance::Subject;
use benthic_wasm::{Call, Limits, Manifest, MethodManifest, ModuleId, Wasm, with_manifest};
use bytes::Bytes;
use futures::executor::block_on;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// How often a call of `digest` is repeated after it reached its deadline.
const TRIES: usize = 6;

/// A class as a module.
#[derive(Clone)]
struct Module {
    manifest: Manifest,
    wasm: Bytes,
    id: ModuleId,
}

/// The modules of the classes.
#[derive(Clone)]
struct Modules(Arc<Vec<Module>>);

impl Modules {
    fn build() -> Modules {
        let code = std::fs::read(compile()).unwrap();
        let module = |class: &dyn Class| {
            let manifest = manifest(&ClassInfo::of(class));
            let wasm = Bytes::from(with_manifest(&code, &serde_json::to_vec(&manifest).unwrap()));
            Module { manifest, id: ModuleId::of(&wasm), wasm }
        };
        Modules(Arc::new(vec![module(&Hello), module(&Digest)]))
    }

    /// Has this process translate and compile the modules. The deadline of the subject's methods
    /// may be too short for that.
    async fn prepare(&self) {
        let classes = ClassRegistry::new().with(Wasm::new());
        let store = MemStore::new(Options::default().with_classes(classes));
        store.create_pool("p").await.unwrap();
        let pool = ModulePool { pool: store.open_pool("p").await.unwrap(), modules: self.clone() };
        let object = ObjectId::new("o").unwrap();
        pool.pool.write_full(&object, "data").await.unwrap();
        for (class, method, input) in [("hello", "say", "Ada"), ("digest", "compute", "md5")] {
            for _ in 0..2 {
                pool.exec(&object, ClassCall::new(class, method, input)).await.unwrap();
            }
        }
    }

    /// The call of a module in place of the call of a native class.
    fn replace(&self, call: ClassCall) -> Result<ClassCall> {
        let Some(module) = self.0.iter().find(|module| module.manifest.class == call.class) else {
            return Ok(call);
        };
        let writes = module.manifest.method(&call.method)?.writes;
        let (method, input, attached) = (call.method, call.input, Some(module.wasm.clone()));
        let call = Call { module: module.id, limits: Limits::MAX, method, input, attached };
        Ok(ClassCall::new(Wasm::NAME, if writes { "run_write" } else { "run_read" }, call.encode()))
    }
}

fn manifest(info: &ClassInfo) -> Manifest {
    let method = |method: &benthic_core::MethodInfo| MethodManifest {
        name: method.name.clone(),
        reads: method.reads,
        writes: method.writes,
        merges: false,
        objects: Vec::new(),
        result_xattr: method.result_xattr.clone(),
        summary: method.summary.clone(),
        input: method.input.clone(),
        output: method.output.clone(),
        examples: method.examples.clone(),
    };
    Manifest {
        class: info.name.clone(),
        version: info.version,
        summary: info.summary.clone(),
        methods: info.methods.iter().map(method).collect(),
    }
}

/// Compiles the classes, and returns the module's file.
fn compile() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|dir| dir.join("Cargo.lock").exists());
    let target = "wasm32-unknown-unknown";
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wasm-classes");
    let built = Command::new(env!("CARGO"))
        .current_dir(root.unwrap())
        .args([
            "build",
            "--release",
            "--locked",
            "--ignore-rust-version",
            "--package=benthic-wasm-test-classes",
        ])
        .args(["--target", target, "--target-dir"])
        .arg(&dir)
        // Without line tables, the module is small enough for the limit.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("CARGO_PROFILE_RELEASE_STRIP", "true")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    dir.join(target).join("release/classes.wasm")
}

/// A subject of the conformance suite whose classes `hello` and `digest` are modules.
pub fn subject(store: Arc<dyn Store>, pool: Arc<dyn Pool>) -> Subject {
    let modules = Modules::build();
    block_on(modules.prepare());
    let pool = Arc::new(ModulePool { pool, modules: modules.clone() });
    Subject { store: Arc::new(ModuleStore { store, modules }), pool }
}

struct ModuleStore {
    store: Arc<dyn Store>,
    modules: Modules,
}

#[async_trait]
impl Store for ModuleStore {
    async fn create_pool(&self, name: &str) -> Result<()> {
        self.store.create_pool(name).await
    }

    async fn remove_pool(&self, name: &str) -> Result<()> {
        self.store.remove_pool(name).await
    }

    async fn list_pools(&self) -> Result<Vec<String>> {
        self.store.list_pools().await
    }

    async fn open_pool(&self, name: &str) -> Result<Arc<dyn Pool>> {
        let pool = self.store.open_pool(name).await?;
        Ok(Arc::new(ModulePool { pool, modules: self.modules.clone() }))
    }

    async fn classes(&self) -> Result<Vec<ClassInfo>> {
        Ok(self.modules.0.iter().map(|module| module.manifest.info(&module.id.short())).collect())
    }

    fn class_host(&self) -> ClassHost {
        self.store.class_host()
    }

    async fn flush(&self) -> Result<()> {
        self.store.flush().await
    }
}

struct ModulePool {
    pool: Arc<dyn Pool>,
    modules: Modules,
}

#[async_trait]
impl Pool for ModulePool {
    fn name(&self) -> &str {
        self.pool.name()
    }

    async fn read(&self, object: &ObjectId, mut op: ReadOp) -> Result<ReadReply> {
        for step in &mut op.steps {
            if let ReadStep::Exec(call) = step {
                *call = self.modules.replace(call.clone()).map_err(|error| error.with_op("read"))?;
            }
        }
        self.pool.read(object, op).await
    }

    async fn write(&self, object: &ObjectId, mut op: WriteOp) -> Result<WriteReply> {
        for step in &mut op.steps {
            if let WriteStep::Exec(call) = step {
                *call = self.modules.replace(call.clone()).map_err(|error| error.with_op("write"))?;
            }
        }
        self.pool.write(object, op).await
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        let is_digest = call.class == Digest.name();
        let call = self.modules.replace(call).map_err(|error| error.with_op("exec"))?;
        let mut result = self.pool.exec(object, call.clone()).await;
        // On a busy OSD, interpreted code may reach the deadline. Later calls are compiled.
        for _ in 0..TRIES {
            match &result {
                Err(error) if is_digest && error.kind() == ErrorKind::LimitExceeded => {
                    result = self.pool.exec(object, call.clone()).await;
                }
                _ => break,
            }
        }
        result
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.pool.list(request).await
    }
}
