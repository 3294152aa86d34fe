use super::{ALGORITHMS, Claims, Key, Refusal, TOKEN_BYTES_MAX, Token};
use base64_simd::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair,
};
use serde_json::{Value, json};

fn base64(data: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode_to_string(data.as_ref())
}

/// Signs a message.
type Sign = Box<dyn Fn(&[u8]) -> Vec<u8>>;

/// A key of a provider, and how to sign with it.
struct Signer {
    algorithm: &'static str,
    id: &'static str,
    jwk: Value,
    sign: Sign,
}

fn ecdsa(algorithm: &'static str, id: &'static str) -> Signer {
    let (curve, signing): (&str, &'static EcdsaSigningAlgorithm) = match algorithm {
        "ES256" => ("P-256", &ECDSA_P256_SHA256_FIXED_SIGNING),
        _ => ("P-384", &ECDSA_P384_SHA384_FIXED_SIGNING),
    };
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(signing, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(signing, pkcs8.as_ref(), &random).unwrap();
    let (x, y) = pair.public_key().as_ref()[1..].split_at(pair.public_key().as_ref().len() / 2);
    let jwk = json!({"kty": "EC", "crv": curve, "kid": id, "x": base64(x), "y": base64(y)});
    Signer {
        algorithm,
        id,
        jwk,
        sign: Box::new(move |data| pair.sign(&random, data).unwrap().as_ref().to_vec()),
    }
}

fn ed25519(id: &'static str) -> Signer {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": base64(pair.public_key())});
    Signer { algorithm: "EdDSA", id, jwk, sign: Box::new(move |data| pair.sign(data).as_ref().to_vec()) }
}

fn claims() -> Value {
    json!({"iss": "https://idp.example", "sub": "ada", "aud": "s3", "exp": 2_000, "nbf": 1_000, "iat": 1_000})
}

impl Signer {
    fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", base64(header.to_string()), base64(claims.to_string()));
        let signature = base64((self.sign)(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    fn token(&self, claims: &Value) -> String {
        self.sign_with(&json!({"alg": self.algorithm, "kid": self.id}), claims)
    }
}

fn keys(signers: &[&Signer]) -> Vec<Key> {
    let all: Vec<&Value> = signers.iter().map(|signer| &signer.jwk).collect();
    Key::parse_all(json!({ "keys": all }).to_string().as_bytes()).unwrap()
}

fn verify(token: &str, keys: &[Key]) -> Result<Claims, Refusal> {
    Token::parse(token)?.verify(keys)
}

fn is_invalid(result: &Result<Claims, Refusal>) -> bool {
    matches!(result, Err(Refusal::Invalid(_)))
}

#[test]
fn a_signed_token_says_what_its_provider_says() {
    for signer in [ecdsa("ES256", "a"), ecdsa("ES384", "b"), ed25519("c")] {
        let other = ecdsa("ES256", "other");
        let claims = verify(&signer.token(&claims()), &keys(&[&other, &signer])).unwrap();
        assert_eq!((claims.issuer.as_str(), claims.subject.as_str()), ("https://idp.example", "ada"));
        assert_eq!(claims.audiences, ["s3"]);
        // A token without the id of its key is valid if only one key fits.
        let unnamed = signer.sign_with(&json!({"alg": signer.algorithm}), &self::claims());
        assert!(verify(&unnamed, &keys(&[&signer])).is_ok());
        assert!(is_invalid(&verify(
            &unnamed,
            &keys(&[&signer, &ecdsa("ES256", "x"), &ecdsa("ES384", "y"), &ed25519("z")])
        )));
    }
}

#[test]
fn nobody_else_can_sign() {
    let (signer, other) = (ecdsa("ES256", "a"), ecdsa("ES256", "a"));
    let known = keys(&[&signer]);
    let good = signer.token(&claims());
    assert!(verify(&good, &known).is_ok());
    assert!(is_invalid(&verify(&other.token(&claims()), &known)));
    // Another payload, another header, and a signature that is cut, empty or in another form.
    let parts: Vec<&str> = good.split('.').collect();
    let admin =
        base64(json!({"iss": "https://idp.example", "sub": "admin", "aud": "s3", "exp": 2_000}).to_string());
    assert!(is_invalid(&verify(&format!("{}.{admin}.{}", parts[0], parts[2]), &known)));
    assert!(is_invalid(&verify(&format!("{}.{}.", parts[0], parts[1]), &known)));
    assert!(is_invalid(&verify(&format!("{}.{}.{}", parts[0], parts[1], &parts[2][..40]), &known)));
    // No signature at all.
    for algorithm in ["none", "None", "", "HS256", "HS512", "RS1", "ES256K"] {
        let header = base64(json!({"alg": algorithm, "kid": "a"}).to_string());
        for signature in ["", parts[2]] {
            assert!(
                is_invalid(&verify(&format!("{header}.{}.{signature}", parts[1]), &known)),
                "{algorithm}"
            );
        }
    }
    // An HMAC whose key is the public key in several forms.
    let header = json!({"alg": "HS256", "kid": "a"}).to_string();
    let signed = format!("{}.{}", base64(header), base64(claims().to_string()));
    for key in [signer.jwk.to_string(), signer.jwk["x"].as_str().unwrap().to_owned(), String::new()] {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), signed.as_bytes());
        assert!(is_invalid(&verify(&format!("{signed}.{}", base64(tag)), &known)));
    }
    // The algorithm of another kind of key, and an extension that must be understood.
    for header in [
        json!({"alg": "RS256", "kid": "a"}),
        json!({"alg": "ES384", "kid": "a"}),
        json!({"alg": "EdDSA", "kid": "a"}),
        json!({"alg": "ES256", "kid": "missing"}),
    ] {
        assert_eq!(verify(&signer.sign_with(&header, &claims()), &known).unwrap_err(), Refusal::UnknownKey);
    }
    let critical = json!({"alg": "ES256", "kid": "a", "crit": ["b64"], "b64": false});
    assert!(is_invalid(&verify(&signer.sign_with(&critical, &claims()), &known)));
}

#[test]
fn a_key_signs_only_as_its_provider_says() {
    let mut signer = ecdsa("ES256", "a");
    for (field, value) in [("alg", "ES384"), ("use", "enc")] {
        let old = signer.jwk.clone();
        signer.jwk[field] = json!(value);
        assert_eq!(verify(&signer.token(&claims()), &keys(&[&signer])).unwrap_err(), Refusal::UnknownKey);
        signer.jwk = old;
    }
    signer.jwk["alg"] = json!("ES256");
    signer.jwk["use"] = json!("sig");
    assert!(verify(&signer.token(&claims()), &keys(&[&signer])).is_ok());
    // Keys of unknown kinds and broken keys do not hide the others.
    let document = json!({"keys": [1, {"kty": "oct", "k": "AA"}, {"kty": "RSA", "n": "!", "e": "AQAB"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}, {"kty": "OKP", "crv": "X25519", "x": "AA"}, signer.jwk]});
    let known = Key::parse_all(document.to_string().as_bytes()).unwrap();
    assert_eq!(known.len(), 1);
    assert!(verify(&signer.token(&claims()), &known).is_ok());
    let many = json!({"keys": vec![signer.jwk.clone(); 10_000]}).to_string();
    for document in [many.as_str(), "", "[]", "{}", r#"{"keys": 1}"#] {
        assert!(Key::parse_all(document.as_bytes()).is_err());
    }
}

#[test]
fn malformed_tokens_are_refused() {
    let signer = ecdsa("ES256", "a");
    let known = keys(&[&signer]);
    let huge = signer.token(&json!({"iss": "x", "sub": "y", "exp": 1, "z": "z".repeat(TOKEN_BYTES_MAX)}));
    let deep = format!("{}1{}", "[".repeat(3_000), "]".repeat(3_000));
    let deep = format!("{}.{}.AAAA", base64(r#"{"alg":"ES256"}"#), base64(deep));
    for text in ["", ".", "..", "...", "a.b.c", "ü.ü.ü", "e30.e30.e30", "e30.e30", &huge, &deep] {
        assert!(is_invalid(&verify(text, &known)), "{text:.80}");
    }
    for (claim, value) in [
        ("iss", json!(1)),
        ("iss", json!("")),
        ("iss", Value::Null),
        ("sub", json!(["ada"])),
        ("sub", json!("x".repeat(256))),
        ("aud", json!({"s3": 1})),
        ("exp", json!("2000")),
        ("exp", Value::Null),
        ("nbf", json!("1000")),
        ("iat", json!([1_000])),
    ] {
        let mut wrong = claims();
        wrong[claim] = value.clone();
        assert!(is_invalid(&verify(&signer.token(&wrong), &known)), "{claim} {value}");
    }
}

#[test]
fn times_may_differ_by_a_minute() {
    let signer = ecdsa("ES256", "a");
    let known = keys(&[&signer]);
    let check = |changes: Value, now_s: u64| {
        let mut all = claims();
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        verify(&signer.token(&all), &known).unwrap().check_times(now_s * 1_000)
    };
    assert_eq!(check(json!({}), 1_500), Ok(()));
    assert_eq!(check(json!({}), 2_059), Ok(()));
    assert_eq!(check(json!({}), 2_060), Err(Refusal::Expired));
    assert_eq!(check(json!({}), 940), Ok(()));
    assert!(matches!(check(json!({}), 939), Err(Refusal::Rejected(_))));
    assert!(matches!(check(json!({"iat": 5_000}), 1_500), Err(Refusal::Rejected(_))));
    assert!(matches!(check(json!({"nbf": 5_000.5}), 1_500), Err(Refusal::Rejected(_))));
    assert_eq!(check(json!({"exp": -1}), 1_500), Err(Refusal::Expired));
}

#[test]
fn claims_become_condition_keys() {
    let facts = |changes: Value| {
        let mut all = claims();
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        Claims::parse(all.as_object().unwrap().clone()).unwrap().facts()
    };
    let found =
        facts(json!({"Groups": ["a", "b"], "level": 3, "ok": true, "deep": {"x": 1}, "oaud": "x"})).unwrap();
    assert_eq!(found["idp.example:groups"], ["a", "b"]);
    assert_eq!(
        (&found["idp.example:level"][..], &found["idp.example:ok"][..]),
        (&["3".to_owned()][..], &["true".to_owned()][..])
    );
    assert_eq!(
        (&found["idp.example:aud"], &found["idp.example:sub"][0]),
        (&vec!["s3".to_owned()], &"ada".to_owned())
    );
    assert!(!found.contains_key("idp.example:deep") && !found.contains_key("idp.example:oaud"));
    let with_party = facts(json!({"azp": "app", "aud": ["s3", "other"]})).unwrap();
    assert_eq!(with_party["idp.example:aud"], ["app"]);
    assert_eq!(with_party["idp.example:oaud"], ["s3", "other"]);
    assert_eq!(with_party["idp.example:app_id"], ["s3", "other"]);
    assert!(matches!(facts(json!({"groups": "a", "Groups": "b"})), Err(Refusal::Invalid(_))));
    // The names of claims cannot form the keys of other providers.
    let odd = json!({":8443/realms/lab:sub": "eve", "8443:sub": "eve", "": "x", "a b": "x", "\u{fc}": "x"});
    let odd = facts(odd).unwrap();
    assert_eq!(odd.keys().collect::<Vec<_>>(), facts(json!({})).unwrap().keys().collect::<Vec<_>>());
    assert_eq!(facts(json!({"a.b-c_1": "x"})).unwrap()["idp.example:a.b-c_1"], ["x"]);
    assert!(facts(json!({"groups": ["x".repeat(2_048)]})).is_ok());
    for long in [json!("x".repeat(2_049)), json!(["a", "x".repeat(2_049)])] {
        assert!(matches!(facts(json!({"groups": long})), Err(Refusal::Invalid(_))));
    }
}

#[test]
fn each_algorithm_has_a_kind_of_key() {
    let rsa = json!({"kty": "RSA", "n": base64([0xff; 256]), "e": "AQAB"});
    let known = json!({"keys": [ecdsa("ES256", "a").jwk, ecdsa("ES384", "b").jwk, ed25519("c").jwk, rsa]});
    let known = Key::parse_all(known.to_string().as_bytes()).unwrap();
    for algorithm in ALGORITHMS {
        let token = format!(
            "{}.{}.AAAA",
            base64(json!({"alg": algorithm}).to_string()),
            base64(claims().to_string())
        );
        assert!(Token::parse(&token).unwrap().names_one_of(&known), "{algorithm}");
        assert!(is_invalid(&verify(&token, &known)), "{algorithm}");
    }
}
