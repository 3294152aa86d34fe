//! OpenSSL's own client: the protocol's demands beyond the behaviour of NBD's clients.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use benthic_psk::PskAcceptor;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const KEY: &str = "00112233445566778899aabbccddeeff";

/// Sends everything back that a client sends.
async fn echo(listener: TcpListener, acceptor: PskAcceptor) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = acceptor.accept(socket).await else { continue };
        let mut data = [0; 100];
        while let Ok(len @ 1..) = stream.read(&mut data).await {
            stream.write_all(&data[..len]).await.unwrap();
            stream.flush().await.unwrap();
        }
    }
}

/// Runs a test with the address of a server.
fn with_server(test: impl FnOnce(&str)) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("keys.psk");
    std::fs::write(&file, format!("alice:{KEY}\n")).unwrap();
    let acceptor = PskAcceptor::from_file(&file).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    runtime.spawn(echo(listener, acceptor));
    test(&address);
}

fn client(address: &str, options: &[&str]) -> Child {
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", address, "-psk_identity", "alice", "-psk", KEY]).args(options);
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn keys_of_a_connection_are_updated() {
    with_server(|address| {
        let mut client = client(address, &["-tls1_3"]);
        let mut output = BufReader::new(client.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut notes = BufReader::new(client.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut input = client.stdin.take().unwrap();
        for text in ["first", "second", "third"] {
            input.write_all(format!("{text}\n").as_bytes()).unwrap();
            assert!(output.by_ref().any(|line| line == text), "{text}");
            // The client updates its key, and asks the server to update its own.
            input.write_all(b"K\n").unwrap();
            assert!(notes.by_ref().any(|line| line == "KEYUPDATE"), "{text}");
        }
        input.write_all(b"Q\n").unwrap();
        assert!(client.wait().unwrap().success());
    });
}

#[test]
fn older_versions_of_tls_are_refused() {
    with_server(|address| {
        let mut client = client(address, &["-tls1_2", "-cipher", "PSK"]);
        drop(client.stdin.take());
        assert!(!client.wait().unwrap().success());
    });
}
