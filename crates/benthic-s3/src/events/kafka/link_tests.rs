use super::{Link, Login};
use crate::events::kafka::{Access, wire};
use crate::identity::Sasl;
use benthic_core::Environment;
use bytes::{BufMut, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// The answer to ApiVersions, without its length and id.
const VERSIONS: &[u8] = b"\0\0\0\0\0\x02\0\0\0\x03\0\x0b\0\x03\0\0\0\x0c";

fn access(login: Option<Sasl>) -> Access {
    let login = login.map(|sasl| Login { sasl, user: "gateway".to_owned(), password: "secret".to_owned() });
    Access { tls: None, login, random: Environment::default().random }
}

/// A false broker.
struct Broker(DuplexStream);

impl Broker {
    /// Reads a request; returns its id, and the data after its head.
    async fn request(&mut self) -> (i32, Vec<u8>) {
        let mut request = vec![0; self.0.read_u32().await.expect("a request") as usize];
        self.0.read_exact(&mut request).await.expect("a request");
        let id = i32::from_be_bytes([request[4], request[5], request[6], request[7]]);
        // The key, the version, the id, and the name of the client.
        (id, request[8 + 12..].to_vec())
    }

    async fn answer(&mut self, id: i32, body: &[u8]) {
        let mut out = BytesMut::new();
        out.put_u32(body.len() as u32 + 4);
        out.put_i32(id);
        out.put_slice(body);
        self.0.write_all(&out).await.expect("the gateway reads");
    }

    /// Answers requests with these bodies, and returns the requests.
    async fn answer_all(&mut self, bodies: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut requests = Vec::new();
        for body in bodies {
            let (id, request) = self.request().await;
            requests.push(request);
            self.answer(id, body).await;
        }
        requests
    }
}

/// Opens a connection to a broker that gives these answers and then closes it.
async fn opened(login: Option<Sasl>, bodies: &[&[u8]]) -> (Result<(), String>, Vec<Vec<u8>>) {
    let (gateway, broker) = tokio::io::duplex(4096);
    let mut broker = Broker(broker);
    let access = access(login);
    let serve = async move { broker.answer_all(bodies).await };
    let (link, requests) = tokio::join!(Link::open(Box::new(gateway), &access), serve);
    (link.map(drop), requests)
}

#[tokio::test]
async fn a_login_with_a_password() {
    let (link, requests) =
        opened(Some(Sasl::Plain), &[VERSIONS, b"\0\0\0\0\0\x01\0\x05PLAIN", b"\0\0\xff\xff\0\0\0\0"]).await;
    assert_eq!(link, Ok(()));
    assert_eq!(requests[1..], [b"\0\x05PLAIN".to_vec(), b"\0\0\0\x0f\0gateway\0secret".to_vec()]);
}

#[tokio::test]
async fn logins_that_fail_give_their_reason() {
    let handshake: &[u8] = b"\0\0\0\0\0\0";
    for (login, answers, reason) in [
        (Sasl::Plain, [VERSIONS, b"\0\x21\0\0\0\x01\0\x06GSSAPI"].as_slice(), "it permits GSSAPI"),
        (
            Sasl::Plain,
            &[VERSIONS, handshake, b"\0\x3a\0\x02no\0\0\0\0"],
            "SASL_AUTHENTICATION_FAILED (58): no",
        ),
        (Sasl::Plain, &[VERSIONS, handshake], "closed the connection"),
        (Sasl::ScramSha256, &[VERSIONS, handshake, b"\0\0\xff\xff\0\0\0\x03r=x"], "invalid challenge"),
        (Sasl::ScramSha512, &[VERSIONS, handshake, b"\0\0\xff\xff\0\0\0\x02\xff\xff"], "does not speak"),
    ] {
        let (link, requests) = opened(Some(login), answers).await;
        let error = link.unwrap_err();
        assert!(error.contains(reason), "{error}");
        assert!(!error.contains("secret"));
        // With SCRAM, the password is never sent.
        let is_sent = requests.iter().any(|request| request.windows(6).any(|part| part == b"secret"));
        assert!(!is_sent || matches!(login, Sasl::Plain));
    }
}

#[tokio::test]
async fn servers_of_other_protocols_and_invalid_answers_are_refused() {
    for bytes in [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(),
        // An alert of TLS, and lengths below and above the limits.
        b"\x15\x03\x03\0\x02\x02\x46\0",
        &[0, 0, 0, 3, 0, 0, 0],
        &[0, 0x20, 0, 1, 0, 0, 0, 1],
        &[0xff; 1024],
        // The answer to another request.
        b"\0\0\0\x04\0\0\0\x07",
        // A version list that is cut.
        b"\0\0\0\x06\0\0\0\x01\0\0",
        // One that claims to be long.
        b"\0\0\0\x0a\0\0\0\x01\0\0\x7f\xff\xff\xff",
    ] {
        let (gateway, mut broker) = tokio::io::duplex(4096);
        let access = access(None);
        let serve = async move {
            broker.write_all(bytes).await.unwrap();
            broker
        };
        let (link, _broker) = tokio::join!(Link::open(Box::new(gateway), &access), serve);
        assert!(link.err().unwrap().contains("does not speak Kafka"), "{bytes:?}");
    }
    // An answer that ends too early.
    let (gateway, mut broker) = tokio::io::duplex(4096);
    let access = access(None);
    let serve = async move { broker.write_all(b"\0\0\x10\0\0\0\0\x01\0\0").await.unwrap() };
    let (link, ()) = tokio::join!(Link::open(Box::new(gateway), &access), serve);
    assert!(link.err().unwrap().contains("closed the connection"));
}

#[tokio::test]
async fn requests_have_different_ids() {
    let (gateway, broker) = tokio::io::duplex(4096);
    let mut broker = Broker(broker);
    let access = access(None);
    let serve = async {
        broker.answer_all(&[VERSIONS, b"first", b""]).await;
        let (id, _) = broker.request().await;
        assert_eq!(id, 4);
        // An answer to the request before.
        broker.answer(3, b"late").await;
    };
    let ask = async {
        let mut link = Link::open(Box::new(gateway), &access).await.unwrap();
        assert_eq!(link.ask(wire::METADATA, b"").await.unwrap(), &b"first"[..]);
        assert_eq!(link.ask(wire::METADATA, b"").await.unwrap(), &b""[..]);
        assert!(link.ask(wire::METADATA, b"").await.is_err());
    };
    tokio::join!(serve, ask);
}
