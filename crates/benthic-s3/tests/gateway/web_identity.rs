//! Identity providers that do not behave.

use crate::upstream::far::{RUNTIME, in_memory};
use base64_simd::URL_SAFE_NO_PAD;
use benthic_core::{Environment, ManualClock};
use benthic_s3::identity::{Identities, OidcProvider};
use benthic_s3::web_identity::{Failure, Issuers, Refusal, Token};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const DISCOVERY: &str = "/idp/.well-known/openid-configuration";

fn base64(data: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode_to_string(data.as_ref())
}

/// A provider, and a gateway's cache of its keys.
struct Idp {
    url: String,
    pages: Arc<Mutex<HashMap<&'static str, Vec<u8>>>>,
    connections: Arc<AtomicU64>,
    pair: EcdsaKeyPair,
    provider: OidcProvider,
    clock: Arc<ManualClock>,
    issuers: Issuers,
}

impl Idp {
    fn start(permits_private: bool) -> Idp {
        let listener = RUNTIME.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}/idp", listener.local_addr().unwrap());
        let pages: Arc<Mutex<HashMap<&'static str, Vec<u8>>>> = Arc::default();
        let connections = Arc::new(AtomicU64::new(0));
        let (shared, count) = (Arc::clone(&pages), Arc::clone(&connections));
        RUNTIME.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Relaxed);
                let pages = Arc::clone(&shared);
                tokio::spawn(async move {
                    let mut request = vec![0; 8 << 10];
                    let len = stream.read(&mut request).await.unwrap_or(0);
                    let path = String::from_utf8_lossy(&request[..len]);
                    let path = path.split(' ').nth(1).unwrap_or_default();
                    let page = pages.lock().unwrap().get(path).cloned();
                    match page {
                        Some(page) => drop(stream.write_all(&page).await),
                        // Hangs until the client gives up.
                        None => drop(stream.read(&mut request).await),
                    }
                    let _ = stream.shutdown().await;
                });
            }
        });
        let signing = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(signing, &SystemRandom::new()).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(signing, pkcs8.as_ref(), &SystemRandom::new()).unwrap();
        let clock = Arc::new(ManualClock::default());
        let environment = Environment { clock: Arc::clone(&clock) as _, ..Environment::default() };
        let provider = RUNTIME.block_on(async {
            let identities = Identities::new(in_memory(), None, environment.clone());
            identities.create_account("lab").await.unwrap();
            let clients = BTreeSet::from(["s3".to_owned()]);
            identities.create_oidc_provider("lab", &url, clients, BTreeSet::new()).await.unwrap();
            identities.oidc_providers("lab").await.unwrap().remove(0).1
        });
        let idp = Idp {
            url,
            pages,
            connections,
            pair,
            provider,
            clock,
            issuers: Issuers::new(permits_private, environment),
        };
        idp.set(DISCOVERY, &idp.discovery("keys"));
        idp.set("/idp/keys", &json!({"keys": [idp.key("a")]}));
        idp
    }

    fn discovery(&self, keys: &str) -> Value {
        json!({"issuer": self.url, "jwks_uri": format!("{}/{keys}", self.url)})
    }

    fn key(&self, id: &str) -> Value {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        json!({"kty": "EC", "crv": "P-256", "kid": id, "x": base64(x), "y": base64(y)})
    }

    fn set(&self, path: &'static str, document: &Value) {
        let document = document.to_string();
        self.answer(
            path,
            &format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{document}", document.len()),
        );
    }

    fn answer(&self, path: &'static str, answer: &str) {
        self.pages.lock().unwrap().insert(path, answer.as_bytes().to_vec());
    }

    fn token(&self, key_id: &str, changes: &Value) -> String {
        let mut claims = json!({"iss": self.url, "sub": "ada", "aud": "s3", "exp": 10_000_000});
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let header = json!({"alg": "ES256", "kid": key_id});
        let signed = format!("{}.{}", base64(header.to_string()), base64(claims.to_string()));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", base64(signature))
    }

    fn verify(&self, key_id: &str, changes: &Value) -> Result<String, Failure> {
        let token = self.token(key_id, changes);
        let verified = self.issuers.verify("lab", &self.provider, Token::parse(&token).unwrap());
        RUNTIME.block_on(verified).map(|claims| claims.subject)
    }

    fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }
}

fn is_invalid(result: &Result<String, Failure>) -> bool {
    matches!(result, Err(Failure::Refused(Refusal::Invalid(_))))
}

#[test]
fn keys_are_cached_and_invented_key_ids_reach_the_provider_rarely() {
    let idp = Idp::start(true);
    assert_eq!(idp.verify("a", &json!({})).unwrap(), "ada");
    assert_eq!(idp.connections(), 2);
    for _ in 0..20 {
        assert_eq!(idp.verify("a", &json!({})).unwrap(), "ada");
        assert_eq!(idp.verify("invented", &json!({})), Err(Failure::Refused(Refusal::UnknownKey)));
    }
    assert_eq!(idp.connections(), 2);
    // A new key is found after ten seconds, and the old one is gone then.
    idp.set("/idp/keys", &json!({"keys": [idp.key("b")]}));
    idp.clock.advance_ms(10_000);
    assert_eq!(idp.verify("b", &json!({})).unwrap(), "ada");
    assert_eq!(idp.verify("a", &json!({})), Err(Failure::Refused(Refusal::UnknownKey)));
    assert_eq!(idp.connections(), 4);
    // A provider that is down costs nobody a key that is known, for an hour.
    idp.answer(DISCOVERY, "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n");
    idp.clock.advance_ms(10_000);
    assert_eq!(idp.verify("c", &json!({})), Err(Failure::Refused(Refusal::UnknownKey)));
    assert_eq!(idp.verify("b", &json!({})).unwrap(), "ada");
    idp.clock.advance_ms(60 * 60 * 1_000);
    assert_eq!(idp.verify("b", &json!({})), Err(Failure::NoKeys));
}

#[test]
fn tokens_for_others_are_refused() {
    let idp = Idp::start(true);
    assert!(idp.verify("a", &json!({"aud": ["other", "s3"]})).is_ok());
    assert!(idp.verify("a", &json!({"aud": "other", "azp": "s3"})).is_ok());
    for changes in [
        json!({"aud": "other"}),
        json!({"aud": []}),
        json!({"aud": Value::Null}),
        json!({"azp": "other"}),
        json!({"iss": format!("{}/", idp.url)}),
        json!({"iss": "https://idp.example"}),
    ] {
        let token = idp.token("a", &changes);
        let Ok(token) = Token::parse(&token) else { continue };
        let verified =
            RUNTIME.block_on(idp.issuers.verify("lab", &idp.provider, token)).map(|claims| claims.subject);
        assert!(is_invalid(&verified), "{changes}");
    }
    assert_eq!(idp.verify("a", &json!({"exp": -100})), Err(Failure::Refused(Refusal::Expired)));
}

#[test]
fn bad_providers_give_no_keys() {
    let ok = |text: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len());
    let many = json!({"keys": vec![json!({"kty": "EC", "crv": "P-256", "x": "A".repeat(43), "y": "A".repeat(43)}); 10_000]});
    let redirect = "HTTP/1.1 302 Found\r\nlocation: /idp/keys\r\ncontent-length: 0\r\n\r\n".to_owned();
    for (path, answer) in [
        (DISCOVERY, ok("no json")),
        (DISCOVERY, ok(r#"{"issuer": "https://other.example", "jwks_uri": "https://other.example/keys"}"#)),
        (DISCOVERY, redirect.clone()),
        (DISCOVERY, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_owned()),
        (DISCOVERY, "no HTTP".to_owned()),
        (DISCOVERY, format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1 << 20))),
        ("/idp/keys", redirect),
        ("/idp/keys", ok(&many.to_string())),
        ("/idp/keys", ok(&"x".repeat(300 << 10))),
        ("/idp/keys", ok("{}")),
    ] {
        let idp = Idp::start(true);
        idp.answer(path, &answer);
        assert_eq!(idp.verify("a", &json!({})), Err(Failure::NoKeys), "{answer:.100}");
        // The gateway does not ask again at once.
        let asked = idp.connections();
        assert_eq!(idp.verify("a", &json!({})), Err(Failure::NoKeys));
        assert_eq!(idp.connections(), asked);
    }
    for address in
        ["http://idp.example/keys", "file:///etc/passwd", "keys", "https://user:password@idp.example/keys"]
    {
        let idp = Idp::start(true);
        idp.set(DISCOVERY, &json!({"issuer": idp.url, "jwks_uri": address}));
        assert_eq!(idp.verify("a", &json!({})), Err(Failure::NoKeys), "{address}");
        assert_eq!(idp.connections(), 1);
    }
}

#[test]
fn a_provider_that_hangs_stops_nobody_for_long() {
    let idp = Idp::start(true);
    idp.pages.lock().unwrap().clear();
    let tokens: Vec<String> = (0..50).map(|number| idp.token(&format!("{number}"), &json!({}))).collect();
    let all =
        tokens.iter().map(|token| idp.issuers.verify("lab", &idp.provider, Token::parse(token).unwrap()));
    let all = async {
        tokio::time::timeout(std::time::Duration::from_secs(20), futures::future::join_all(all)).await
    };
    let results = RUNTIME.block_on(all).unwrap();
    assert!(results.iter().all(|result| matches!(result, Err(Failure::NoKeys))));
    assert_eq!(idp.connections(), 1);
}

#[test]
fn a_client_that_disconnects_keeps_the_keys_from_nobody() {
    let idp = Idp::start(true);
    let token = idp.token("invented", &json!({}));
    RUNTIME.block_on(async {
        let verified = idp.issuers.verify("lab", &idp.provider, Token::parse(&token).unwrap());
        let _ = tokio::time::timeout(std::time::Duration::ZERO, verified).await;
    });
    assert_eq!(idp.verify("a", &json!({})).unwrap(), "ada");
    assert_eq!(idp.connections(), 2);
}

#[test]
fn an_account_with_many_providers_stops_no_others() {
    let idp = Idp::start(true);
    idp.pages.lock().unwrap().clear();
    idp.answer(DISCOVERY, "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n");
    let token = idp.token("a", &json!({}));
    let verify = |account: &str, provider: &OidcProvider| {
        let verified = idp.issuers.verify(account, provider, Token::parse(&token).unwrap());
        RUNTIME.block_on(verified).map(|claims| claims.subject)
    };
    // Each set of certificates counts as a provider. No time passes, so all stay in the cache.
    for number in 0..300 {
        let mut provider = idp.provider.clone();
        provider.thumbprints = BTreeSet::from([format!("{number:040x}")]);
        assert_eq!(verify("sea", &provider), Err(Failure::NoKeys));
    }
    assert_eq!(idp.connections(), 128);
    idp.set(DISCOVERY, &idp.discovery("keys"));
    idp.set("/idp/keys", &json!({"keys": [idp.key("a")]}));
    assert_eq!(verify("lab", &idp.provider).unwrap(), "ada");
}

#[test]
fn private_addresses_need_the_permission_of_the_operator() {
    let idp = Idp::start(false);
    assert_eq!(idp.verify("a", &json!({})), Err(Failure::NoKeys));
    assert_eq!(idp.connections(), 0);
    let public = Issuers::new(false, Environment::default());
    let private = Issuers::new(true, Environment::default());
    for (url, of_public, of_private) in [
        ("https://idp.example/realms/lab", true, true),
        ("https://idp.example", true, true),
        ("http://localhost:8080/auth/realms/demo", false, true),
        ("http://idp.example", false, false),
        ("https://IDP.example", false, false),
        ("https://idp.example:443/", false, false),
        ("https://idp.example/a/../b", false, false),
        ("https://idp.example/?a=b", false, false),
        ("https://idp.example/*", false, false),
        ("https://idp.example/ü", false, false),
    ] {
        assert_eq!(
            (public.check_url(url).is_ok(), private.check_url(url).is_ok()),
            (of_public, of_private),
            "{url}"
        );
    }
    assert!(public.check_url(&format!("https://idp.example/{}", "a".repeat(240))).is_err());
}
