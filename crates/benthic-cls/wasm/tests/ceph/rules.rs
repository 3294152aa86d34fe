//! The administrator's rules and Ceph's caps in real OSDs.

use crate::{ACTOR, conf, modules, pool};
use benthic_core::{ErrorKind, ObjectId, Pool, Store};
use benthic_rados::{Options, RadosStore};
use benthic_wasm::rules::{FILE_NAME, RECHECK_MS};
use benthic_wasm::{Call, Limits, ModuleId, SigningKey, deployed, with_manifest};
use bytes::Bytes;
use futures::executor::block_on;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Made by `openssl genpkey -algorithm ed25519`, for tests only.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEIJvS1rI0LZYl0dC2CLH8hTNVJdnRVRXNXBYj1NmyKkLF\n\
    -----END PRIVATE KEY-----\n";

/// A class with one method.
fn class(name: &str, writes: bool) -> Bytes {
    let json = format!(
        r#"{{"class":"{name}","version":1,"methods":[{{"method":"run","reads":true,"writes":{writes}}}]}}"#
    );
    with_manifest(&modules::method(""), json.as_bytes()).into()
}

/// Installs rules for one key, and waits until they hold in every OSD. Other tests' classes need no
/// signature.
#[expect(clippy::disallowed_methods, reason = "each OSD looks at the file once a second, and does not tell")]
fn install_rules(allow: &str) {
    let pem = SigningKey::from_pem(KEY).unwrap().public_pem();
    let public = pem.lines().nth(1).unwrap();
    let others = r#"{"classes":["case","counted","deployed","digest","hello"],"write":true}"#;
    let json = format!(
        r#"{{"keys":[{{"name":"alice","public_key":"{public}","allow":{allow}}}],"unsigned":{others}}}"#
    );
    benthic_ceph::classes::install_file(json.as_bytes(), FILE_NAME, &conf().with_file_name("classes"))
        .unwrap();
    thread::sleep(Duration::from_millis(RECHECK_MS));
}

async fn call(pool: &dyn Pool, wasm: &Bytes, writes: bool) -> Result<Bytes, ErrorKind> {
    let call = Call {
        module: ModuleId::of(wasm),
        limits: Limits::default(),
        method: "run".to_owned(),
        input: Bytes::new(),
        attached: None,
    };
    let object = ObjectId::new("ruled").unwrap();
    let ended = benthic_wasm::exec(pool, &object, call, writes, async || Ok(wasm.clone())).await;
    ended.map_err(|error| error.kind())
}

#[test]
fn rules_decide_what_runs() {
    let pool = pool();
    let sealed = class("sealed", true);
    let signed = Bytes::from(SigningKey::from_pem(KEY).unwrap().sign(&sealed).unwrap());
    let (ok, denied) = (Ok(Bytes::new()), Err(ErrorKind::PermissionDenied));
    block_on(async {
        pool.write_full(&ObjectId::new("ruled").unwrap(), "x").await.unwrap();
        install_rules(r#"{"classes":["sealed"],"write":true}"#);
        assert_eq!(call(&*pool, &sealed, true).await, denied);
        assert_eq!(call(&*pool, &signed, true).await, ok);
        let refused = deployed::deploy(&*pool, sealed.clone(), Limits::default(), ACTOR).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied, "{refused}");
        assert!(refused.to_string().contains("a class of this name"), "{refused}");
        assert_eq!(deployed::find(&*pool, "sealed").await.unwrap(), None);
        deployed::deploy(&*pool, signed.clone(), Limits::default(), ACTOR).await.unwrap();

        // A module that the OSD has already loaded obeys new rules, too.
        install_rules(r#"{"classes":["sealed"]}"#);
        assert_eq!(call(&*pool, &signed, true).await, denied);
        install_rules(r#"{"classes":["other"],"write":true}"#);
        assert_eq!(call(&*pool, &signed, true).await, denied);
        install_rules(r#"{"classes":["sealed"],"write":true,"fuel_per_s":1}"#);
        assert_eq!(call(&*pool, &signed, true).await, ok);
        assert_eq!(call(&*pool, &signed, true).await, Err(ErrorKind::Busy));
        install_rules(r#"{"write":true}"#);
        assert_eq!(call(&*pool, &signed, true).await, ok);
        deployed::undeploy(&*pool, "sealed", None, ACTOR).await.unwrap();
    });
    fs::remove_file(conf().with_file_name("classes").join(FILE_NAME)).unwrap();
}

/// Connects as a client with these caps.
fn client(name: &str, osd_caps: &str) -> std::sync::Arc<RadosStore> {
    let ceph = Command::new("ceph")
        .arg("--conf")
        .arg(conf())
        .args(["auth", "get-or-create", &format!("client.{name}"), "mon", "allow r", "osd", osd_caps])
        .output()
        .unwrap();
    assert!(ceph.status.success(), "{}", String::from_utf8_lossy(&ceph.stderr));
    let keyring = conf().with_file_name(format!("{name}.keyring"));
    fs::write(&keyring, ceph.stdout).unwrap();
    let text = fs::read_to_string(conf()).unwrap();
    let others: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("keyring")).collect();
    let own = conf().with_file_name(format!("{name}.conf"));
    fs::write(&own, format!("{}\n[client]\nkeyring = {}\n", others.join("\n"), keyring.display())).unwrap();
    RadosStore::connect(Some(&own), Some(name), Options::default()).unwrap()
}

/// The caps are those of docs/guide/classes.md.
#[test]
fn caps_tell_apart_calling_writing_and_deploying() {
    let pool = pool();
    let place = format!("pool={}", pool.name());
    let (reads, writes) = (class("case", false), class("case", true));
    let denied = Err(ErrorKind::PermissionDenied);
    let caller = client(
        "wasm-caller",
        &format!(
            "allow r {place} namespace=benthic.classes, allow class wasm_1 wasm.run_read {place}, \
             allow class wasm_1 benthic.describe {place}"
        ),
    );
    let deployer = client(
        "wasm-deployer",
        &format!(
            "allow rw {place} namespace=benthic.classes, allow class wasm_1 wasm.check {place}, \
             allow class wasm_1 benthic.describe {place}"
        ),
    );
    block_on(async {
        pool.write_full(&ObjectId::new("ruled").unwrap(), "x").await.unwrap();
        let caller = caller.open_pool(pool.name()).await.unwrap();
        assert_eq!(call(&*caller, &reads, false).await, Ok(Bytes::new()));
        assert_eq!(call(&*caller, &writes, true).await, denied);
        // The method does not run through the entrance for readers, either.
        assert_eq!(call(&*caller, &writes, false).await, Err(ErrorKind::InvalidArgument));
        let refused = deployed::deploy(&*caller, reads.clone(), Limits::default(), ACTOR).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);

        let deployer = deployer.open_pool(pool.name()).await.unwrap();
        assert_eq!(call(&*deployer, &reads, false).await, denied);
        deployed::deploy(&*deployer, reads.clone(), Limits::default(), ACTOR).await.unwrap();
        let class = deployed::get(&*caller, "case").await.unwrap();
        assert_eq!(deployed::fetch(&*caller, class.current).await.unwrap(), reads);
        deployed::undeploy(&*deployer, "case", None, ACTOR).await.unwrap();
    });
}
