//! NBD over TLS, with the clients of libnbd and QEMU, which use GnuTLS: certificates and shared
//! keys.

use crate::nbd::{Server, tool};
use crate::support::{Home, pattern};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const IMAGE_BYTES: usize = 4 << 20;
/// NBD's greeting has as many bytes.
const GREETING_BYTES: usize = 18;
const STARTTLS: u32 = 5;
const LIST: u32 = 3;

fn openssl(dir: &Path, args: &str) {
    let run = Command::new("openssl").current_dir(dir).args(args.split(' ')).output();
    let run = run.unwrap_or_else(|error| panic!("openssl: {error}; `make nbd-packages` installs it"));
    assert!(run.status.success(), "openssl {args}: {}", String::from_utf8_lossy(&run.stderr));
}

/// Creates a directory with an authority, a server's certificate and a client's, by the names that
/// libnbd and QEMU use.
fn certificates(home: &Home, name: &str) -> PathBuf {
    let dir = home.path(name);
    std::fs::create_dir(&dir).unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&dir, &format!("req -x509 {key} -days 2 -subj /CN={name} -keyout ca-key.pem -out ca-cert.pem"));
    for (of, purpose) in [("server", "serverAuth"), ("client", "clientAuth")] {
        let extensions = format!("extendedKeyUsage={purpose}\nsubjectAltName=IP:127.0.0.1,DNS:localhost\n");
        std::fs::write(dir.join("extensions"), extensions).unwrap();
        openssl(&dir, &format!("req {key} -subj /CN={of} -keyout {of}-key.pem -out {of}.csr"));
        openssl(
            &dir,
            &format!(
                "x509 -req -in {of}.csr -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2 \
                 -extfile extensions -out {of}-cert.pem"
            ),
        );
    }
    dir
}

/// The server's options; with `clients`, only clients with a certificate may connect.
fn options(dir: &Path, clients: bool) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    let mut options = ["--tls-cert", &file("server-cert.pem"), "--tls-key", &file("server-key.pem")]
        .map(str::to_owned)
        .to_vec();
    if clients {
        options.extend(["--tls-client-ca".to_owned(), file("ca-cert.pem")]);
    }
    options
}

fn serve(home: &Home, options: &[String]) -> Server {
    let args: Vec<&str> = options.iter().map(String::as_str).chain(["p/i"]).collect();
    Server::listen(home, "127.0.0.1:0", &args)
}

fn with_certificates(uri: &str, dir: &Path) -> String {
    format!("{uri}?tls-certificates={}", dir.display())
}

fn nbdinfo(uri: &str) -> Output {
    Command::new("nbdinfo").arg(uri).output().unwrap()
}

#[test]
fn clients_with_a_certificate_use_the_image() {
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", "4MiB"]);
    let dir = certificates(&home, "ours");
    let server = serve(&home, &options(&dir, true));
    let uri = with_certificates(server.first_uri(), &dir);
    let data = pattern(IMAGE_BYTES);
    let file = home.path("data").display().to_string();
    std::fs::write(&file, &data).unwrap();
    assert!(tool("nbdinfo", &[&uri]).contains("with TLS"));
    tool("nbdcopy", &["--requests=16", &file, &uri]);
    let copy = home.path("copy").display().to_string();
    tool("nbdcopy", &["--requests=16", &uri, &copy]);
    assert!(std::fs::read(&copy).unwrap() == data);
    let (_, address) = server.first_uri().split_once("://").unwrap();
    let (host, port) = address.strip_suffix("/p/i").unwrap().split_once(':').unwrap();
    let credentials = format!("tls-creds-x509,id=tls,endpoint=client,dir={}", dir.display());
    let options =
        format!("driver=nbd,server.type=inet,server.host={host},server.port={port},export=p/i,tls-creds=tls");
    let raw = format!("driver=raw,file.filename={file}");
    tool("qemu-img", &["compare", "--object", &credentials, "--image-opts", &raw, &options]);

    // A client of another authority, one without a certificate, and one without TLS.
    let others = certificates(&home, "others");
    std::fs::copy(dir.join("ca-cert.pem"), others.join("ca-cert.pem")).unwrap();
    assert!(!nbdinfo(&with_certificates(server.first_uri(), &others)).status.success());
    for name in ["client-cert.pem", "client-key.pem"] {
        std::fs::remove_file(others.join(name)).unwrap();
    }
    assert!(!nbdinfo(&with_certificates(server.first_uri(), &others)).status.success());
    let plain = server.first_uri().replace("nbds://", "nbd://");
    let refused = Command::new("qemu-img").args(["info", &plain]).output().unwrap();
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("the server requires TLS"), "{message}");
    assert!(tool("nbdinfo", &[&uri]).contains("with TLS"));
    server.stop();
}

#[test]
fn clients_without_a_certificate_check_that_of_the_server() {
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", "4MiB"]);
    let (dir, others) = (certificates(&home, "ours"), certificates(&home, "others"));
    let server = serve(&home, &options(&dir, false));
    for name in ["client-cert.pem", "client-key.pem"] {
        std::fs::remove_file(dir.join(name)).unwrap();
    }
    assert!(nbdinfo(&with_certificates(server.first_uri(), &dir)).status.success());
    assert!(!nbdinfo(&with_certificates(server.first_uri(), &others)).status.success());

    // Nothing goes on in the clear: neither before TLS, nor with data that are sent together with
    // the request for it.
    let address = server.first_uri().strip_prefix("nbds://").unwrap().strip_suffix("/p/i").unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    client.read_exact(&mut [0; GREETING_BYTES]).unwrap();
    let option = |number: u32| [&b"\0\0\0\x03IHAVEOPT"[4..], &number.to_be_bytes(), &[0; 4]].concat();
    client.write_all(&[&[0, 0, 0, 3][..], &option(LIST)].concat()).unwrap();
    let mut reply = [0; 20];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[12..16], 0x8000_0005_u32.to_be_bytes());
    let mut message = vec![0; u32::from_be_bytes(reply[16..].try_into().unwrap()) as usize];
    client.read_exact(&mut message).unwrap();
    client.write_all(&[option(STARTTLS), option(LIST)].concat()).unwrap();
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[12..16], 1_u32.to_be_bytes());
    let mut rest = Vec::new();
    // The server may reset the connection.
    let _ = client.read_to_end(&mut rest);
    // At most an alert of TLS.
    assert!(rest.is_empty() || rest[0] == 21, "{rest:?}");
    server.stop();
}

/// Creates a directory with a file of keys by the name that QEMU uses.
fn keys(home: &Home, name: &str, text: &str) -> PathBuf {
    let dir = home.path(name);
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("keys.psk"), text).unwrap();
    dir
}

#[test]
fn clients_with_a_shared_key_use_the_image() {
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", "64MiB"]);
    let (alice, bob) = (format!("alice:{}\n", "0a1b".repeat(16)), format!("bob:{}\n", "ff".repeat(16)));
    let dir = keys(&home, "ours", &format!("{bob}{alice}"));
    let file = dir.join("keys.psk").display().to_string();
    let server = serve(&home, &["--tls-psk".to_owned(), file.clone()]);
    let address = server.first_uri().strip_prefix("nbds://").unwrap();
    let uri = |user: &str, file: &str| format!("nbds://{user}@{address}?tls-psk-file={file}");
    let data = pattern(64 << 20);
    let [source, copy] = ["data", "copy"].map(|name| home.path(name).display().to_string());
    std::fs::write(&source, &data).unwrap();
    for user in ["alice", "bob"] {
        let uri = uri(user, &file);
        assert!(tool("nbdinfo", &[&uri]).contains("with TLS"));
        tool("nbdcopy", &["--connections=4", "--requests=16", &source, &uri]);
        tool("nbdcopy", &["--connections=4", "--requests=16", &uri, &copy]);
        assert!(std::fs::read(&copy).unwrap() == data);
    }
    let credentials = format!("tls-creds-psk,id=tls,endpoint=client,username=alice,dir={}", dir.display());
    let (host, port) = address.strip_suffix("/p/i").unwrap().split_once(':').unwrap();
    let options =
        format!("driver=nbd,server.type=inet,server.host={host},server.port={port},export=p/i,tls-creds=tls");
    let raw = format!("driver=raw,file.filename={source}");
    tool("qemu-img", &["compare", "--object", &credentials, "--image-opts", &raw, &options]);

    // An unknown name, another key, a certificate, and no TLS.
    let others = keys(&home, "others", &format!("carol:{}\nalice:{}\n", "0a1b".repeat(16), "00".repeat(32)));
    let other_file = others.join("keys.psk").display().to_string();
    assert!(!nbdinfo(&uri("carol", &other_file)).status.success());
    assert!(!nbdinfo(&uri("alice", &other_file)).status.success());
    let certificates = certificates(&home, "certificates");
    assert!(!nbdinfo(&with_certificates(server.first_uri(), &certificates)).status.success());
    assert!(!nbdinfo(&format!("nbd://{address}")).status.success());
    assert!(tool("nbdinfo", &[&uri("alice", &file)]).contains("with TLS"));
    server.stop();
}

#[test]
fn unusable_keys_are_refused() {
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", "4MiB"]);
    let bad = keys(&home, "bad", "alice:00").join("keys.psk").display().to_string();
    let serve = ["image", "serve", "p/i", "--listen", "127.0.0.1:0", "--tls-psk"];
    for (kind, args) in [
        ("not_found", vec!["none.psk"]),
        ("invalid_argument", vec![&*bad]),
        ("usage", vec![&bad, "--tls-cert", "cert.pem", "--tls-key", "key.pem"]),
    ] {
        home.fails_with(kind, &[&serve[..], &args].concat());
    }
}

#[test]
fn unusable_certificates_are_refused() {
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", "4MiB"]);
    let (dir, others) = (certificates(&home, "ours"), certificates(&home, "others"));
    let path = |dir: &Path, name: &str| dir.join(name).display().to_string();
    let (certificate, key) = (path(&dir, "server-cert.pem"), path(&dir, "server-key.pem"));
    let empty = home.path("empty").display().to_string();
    std::fs::write(&empty, "").unwrap();
    let serve = ["image", "serve", "p/i", "--listen", "127.0.0.1:0", "--tls-cert"];
    for (kind, args) in [
        ("not_found", vec!["none.pem", "--tls-key", &key]),
        ("invalid_argument", vec![&*certificate, "--tls-key", &path(&others, "server-key.pem")]),
        ("invalid_argument", vec![&certificate, "--tls-key", &certificate]),
        ("invalid_argument", vec![&empty, "--tls-key", &key]),
        ("invalid_argument", vec![&certificate, "--tls-key", &key, "--tls-client-ca", &empty]),
        ("usage", vec![&certificate]),
    ] {
        home.fails_with(kind, &[&serve[..], &args].concat());
    }
}
