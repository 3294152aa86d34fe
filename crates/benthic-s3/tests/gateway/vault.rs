//! A Vault that does not behave. `tests/clients/test_vault.py` uses a real one.

use crate::upstream::far::RUNTIME;
use base64_simd::STANDARD;
use benthic_core::{Environment, ManualClock};
use benthic_s3::vault::{Auth, Failure, Vault};
use serde_json::{Value, json};
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Answers each request with the next of these. Without any, it hangs.
struct Fake {
    vault: Vault,
    answers: Arc<Mutex<Vec<String>>>,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicU64>,
    clock: Arc<ManualClock>,
    dir: TempDir,
}

impl Fake {
    fn start(role: Option<&str>) -> Fake {
        let listener = RUNTIME.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let answers: Arc<Mutex<Vec<String>>> = Arc::default();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let connections = Arc::new(AtomicU64::new(0));
        let (shared, seen, count) = (Arc::clone(&answers), Arc::clone(&requests), Arc::clone(&connections));
        RUNTIME.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Relaxed);
                let (answers, seen) = (Arc::clone(&shared), Arc::clone(&seen));
                tokio::spawn(async move {
                    let mut request = vec![0; 16 << 10];
                    let mut len = 0;
                    while !request[..len].ends_with(b"}") {
                        match stream.read(&mut request[len..]).await {
                            Ok(more @ 1..) => len += more,
                            _ => return,
                        }
                    }
                    seen.lock().unwrap().push(String::from_utf8_lossy(&request[..len]).into_owned());
                    let answer = Some(answers.lock().unwrap())
                        .filter(|all| !all.is_empty())
                        .map(|mut all| all.remove(0));
                    match answer {
                        Some(answer) => drop(stream.write_all(answer.as_bytes()).await),
                        // Hangs until the client gives up.
                        None => drop(stream.read(&mut request).await),
                    }
                    let _ = stream.shutdown().await;
                });
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, "a-secret\n").unwrap();
        let auth = match role {
            None => Auth::TokenFile(path),
            Some(role) => Auth::AppRole { role_id: role.to_owned(), secret_id_file: path },
        };
        let clock = Arc::new(ManualClock::default());
        let environment = Environment { clock: Arc::clone(&clock) as _, ..Environment::default() };
        let vault = Vault::new(&address, "transit", auth, None, environment).unwrap();
        Fake { vault, answers, requests, connections, clock, dir }
    }

    fn answer(&self, status: &str, document: &Value) {
        let document = document.to_string();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{document}", document.len());
        self.answers.lock().unwrap().push(answer);
    }

    fn decrypt(&self, ciphertext: &str) -> Result<[u8; 32], Failure> {
        RUNTIME.block_on(self.vault.decrypt("lab", "photos/reef", ciphertext))
    }

    fn encrypt(&self) -> Result<String, Failure> {
        RUNTIME.block_on(self.vault.encrypt("lab", "photos/reef", &[7; 32]))
    }

    fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }
}

fn plaintext(data: &[u8]) -> Value {
    json!({"data": {"plaintext": STANDARD.encode_to_string(data)}})
}

#[test]
fn a_data_key_is_bound_to_its_object_and_cached_for_a_minute() {
    let fake = Fake::start(None);
    fake.answer("200 OK", &json!({"data": {"ciphertext": "vault:v3:abc"}}));
    assert_eq!(fake.encrypt().unwrap(), "vault:v3:abc");
    let request = fake.requests.lock().unwrap().remove(0);
    assert!(request.starts_with("POST /v1/transit/encrypt/lab HTTP/1.1\r\n"), "{request}");
    assert!(request.to_lowercase().contains("x-vault-token: a-secret\r\n"), "{request}");
    let body: Value = serde_json::from_str(request.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(body["associated_data"], STANDARD.encode_to_string("photos/reef"));
    assert_eq!(body["plaintext"], STANDARD.encode_to_string([7; 32]));
    // The gateway remembers a key that was just encrypted, but only for this object.
    assert_eq!(fake.decrypt("vault:v3:abc").unwrap(), [7; 32]);
    assert_eq!(fake.connections(), 1);
    fake.answer("200 OK", &plaintext(&[8; 32]));
    let other = RUNTIME.block_on(fake.vault.decrypt("lab", "photos/other", "vault:v3:abc"));
    assert_eq!(other.unwrap(), [8; 32]);
    assert_eq!(fake.connections(), 2);
    fake.clock.advance_ms(60_000);
    fake.answer("200 OK", &plaintext(&[9; 32]));
    assert_eq!(fake.decrypt("vault:v3:abc").unwrap(), [9; 32]);
    // The token is read for each request.
    fs::write(fake.dir.path().join("secret"), "another").unwrap();
    fake.answer("200 OK", &plaintext(&[9; 32]));
    fake.decrypt("vault:v3:abd").unwrap();
    assert!(
        fake.requests.lock().unwrap().last().unwrap().to_lowercase().contains("x-vault-token: another\r\n")
    );
    fs::remove_file(fake.dir.path().join("secret")).unwrap();
    assert!(matches!(fake.decrypt("vault:v3:abe"), Err(Failure::Denied(_))));
}

#[test]
fn bad_answers_are_errors() {
    let fake = Fake::start(None);
    for (status, document, expected) in [
        ("200 OK", plaintext(&[1; 31]), "unavailable"),
        ("200 OK", plaintext(&[1; 33]), "unavailable"),
        ("200 OK", json!({"data": {"plaintext": "!"}}), "unavailable"),
        ("200 OK", json!([]), "unavailable"),
        ("200 OK", json!({"data": {"plaintext": "A".repeat(100_000)}}), "unavailable"),
        ("307 Temporary Redirect", json!({}), "unavailable"),
        ("503 Service Unavailable", json!({"errors": ["Vault is sealed"]}), "unavailable"),
        ("429 Too Many Requests", json!({"errors": []}), "unavailable"),
        ("403 Forbidden", json!({"errors": ["permission denied"]}), "denied"),
        ("400 Bad Request", json!({"errors": ["encryption key not found"]}), "refused"),
        ("404 Not Found", json!({"errors": []}), "refused"),
    ] {
        fake.answer(status, &document);
        let found = match fake.decrypt("vault:v1:abc").unwrap_err() {
            Failure::Unavailable(_) => "unavailable",
            Failure::Denied(_) => "denied",
            Failure::Refused(_) => "refused",
        };
        assert_eq!(found, expected, "{status} {document:.80}");
    }
    for ciphertext in
        [json!(null), json!("plain"), json!("vault:v1:a b"), json!(format!("vault:v1:{}", "x".repeat(5_000)))]
    {
        fake.answer("200 OK", &json!({"data": {"ciphertext": ciphertext}}));
        assert!(matches!(fake.encrypt(), Err(Failure::Unavailable(_))), "{ciphertext:.40}");
    }
}

#[test]
fn a_vault_that_hangs_is_unavailable() {
    let fake = Fake::start(None);
    let names: Vec<String> = (0..100).map(|number| format!("photos/{number}")).collect();
    let all = names.iter().map(|name| fake.vault.decrypt("lab", name, "vault:v1:abc"));
    let all = async {
        tokio::time::timeout(std::time::Duration::from_secs(20), futures::future::join_all(all)).await
    };
    let results = RUNTIME.block_on(all).unwrap();
    assert!(results.iter().all(|result| matches!(result, Err(Failure::Unavailable(_)))));
    assert!(fake.connections() <= 64, "{}", fake.connections());
}

#[test]
fn logins_that_hang_do_not_add_up() {
    let fake = Fake::start(Some("role"));
    let names: Vec<String> = (0..8).map(|number| format!("photos/{number}")).collect();
    let all = names.iter().map(|name| fake.vault.decrypt("lab", name, "vault:v1:abc"));
    let all = async {
        tokio::time::timeout(std::time::Duration::from_secs(12), futures::future::join_all(all)).await
    };
    let results = RUNTIME.block_on(all).unwrap();
    assert!(results.iter().all(|result| matches!(result, Err(Failure::Unavailable(_)))));
}

#[test]
fn a_role_logs_in_again_when_its_token_ends() {
    let fake = Fake::start(Some("role"));
    let login = |token: &str| json!({"auth": {"client_token": token, "lease_duration": 100}});
    let token_of = |request: &str| {
        let line = request.lines().find(|line| line.to_lowercase().starts_with("x-vault-token: ")).unwrap();
        line.split_once(": ").unwrap().1.to_owned()
    };
    fake.answer("200 OK", &login("one"));
    fake.answer("200 OK", &plaintext(&[1; 32]));
    fake.answer("200 OK", &plaintext(&[2; 32]));
    assert_eq!(fake.decrypt("vault:v1:a").unwrap(), [1; 32]);
    assert_eq!(fake.decrypt("vault:v1:b").unwrap(), [2; 32]);
    let seen = fake.requests.lock().unwrap().clone();
    assert!(seen[0].starts_with("POST /v1/auth/approle/login ") && seen[0].contains("a-secret"));
    assert_eq!((token_of(&seen[1]), token_of(&seen[2])), ("one".to_owned(), "one".to_owned()));
    // The token was revoked.
    fake.answer("403 Forbidden", &json!({"errors": ["permission denied"]}));
    fake.answer("200 OK", &login("two"));
    fake.answer("200 OK", &plaintext(&[3; 32]));
    assert_eq!(fake.decrypt("vault:v1:c").unwrap(), [3; 32]);
    // The token is about to end.
    fake.clock.advance_ms(80_000);
    fake.answer("200 OK", &login("three"));
    fake.answer("200 OK", &plaintext(&[4; 32]));
    assert_eq!(fake.decrypt("vault:v1:d").unwrap(), [4; 32]);
    assert_eq!(token_of(fake.requests.lock().unwrap().last().unwrap()), "three");
    // A role that may do nothing: one more login, and no more.
    let before = fake.connections();
    fake.answer("403 Forbidden", &json!({"errors": ["permission denied"]}));
    fake.answer("200 OK", &login("four"));
    fake.answer("403 Forbidden", &json!({"errors": ["permission denied"]}));
    assert!(matches!(fake.decrypt("vault:v1:e"), Err(Failure::Denied(_))));
    assert_eq!(fake.connections() - before, 3);
    // It does not log in again for each request.
    fake.answer("403 Forbidden", &json!({"errors": ["permission denied"]}));
    assert!(matches!(fake.decrypt("vault:v1:f"), Err(Failure::Denied(_))));
    assert_eq!(fake.connections() - before, 4);
    fake.clock.advance_ms(10_000);
    fake.answer("403 Forbidden", &json!({"errors": ["permission denied"]}));
    fake.answer("200 OK", &login("five"));
    fake.answer("200 OK", &plaintext(&[5; 32]));
    assert_eq!(fake.decrypt("vault:v1:f").unwrap(), [5; 32]);
    assert_eq!(token_of(fake.requests.lock().unwrap().last().unwrap()), "five");
}

#[test]
fn addresses_and_mounts_are_checked() {
    let create = |address: &str, mount: &str| {
        Vault::new(address, mount, Auth::TokenFile("token".into()), None, Environment::default()).is_ok()
    };
    assert!(
        create("https://vault.example:8200", "transit") && create("http://127.0.0.1:8200/", "lab/transit")
    );
    for address in [
        "http://vault.example:8200",
        "vault.example",
        "https://token@vault.example",
        "https://vault.example/?a=b",
    ] {
        assert!(!create(address, "transit"), "{address}");
    }
    for mount in ["", "/transit", "transit/", "../sys", "a b", "a?b"] {
        assert!(!create("https://vault.example", mount), "{mount}");
    }
}
