//! `benthic image serve`: the NBD server.

use super::limit::ClientLimitArgs;
use super::open::images;
use super::page;
use crate::commands::hosts::Hosts;
use crate::commands::serving;
use benthic_block::nbd::{self, Address, Encryption, Export, Exports, Listener, Options};
use benthic_block::{Image, ImageAddress, OpenMode};
use benthic_core::names::{check_pool_name, shell_word};
use benthic_core::{Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::serving::listen;
use benthic_program::session::Session;
use benthic_program::{interrupt, tls, units};
use benthic_psk::PskAcceptor;
use clap::Args;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

#[derive(Args)]
#[command(
    after_help = "Programs such as QEMU, nbdcopy and fio connect with the printed address. The server opens the images for \
    writing, and no other program can meanwhile; `image snap create`, `image snap rm` and `image resize` work, because they \
    ask the server. Ctrl-C completes the requests that the server has read, and then ends it.\n\n\
    NBD has no passwords: whoever reaches the address reads and writes the images. Prefer a Unix socket in a directory that \
    only its users can enter. On a network, use --tls-cert and --tls-client-ca: then every client must show a certificate \
    that your authority has signed, and nobody can read or change what is sent. --tls-psk does the same with keys that \
    server and clients share; it needs OpenSSL 3 on this machine.\n\n\
    --metrics serves latencies, errors, limits and clients of each image over plain HTTP, which has no passwords either: \
    at / a page for people, at /metrics numbers for Prometheus.\n\n\
    Examples:\n  benthic image serve --listen unix:/run/vms/nbd.sock vms/root\n  \
    qemu-system-x86_64 -drive format=raw,file=nbd:unix:/run/vms/nbd.sock:exportname=vms/root …\n  \
    benthic image serve --read-only vms/template@v1\n  \
    benthic image serve --metrics 127.0.0.1:9129 vms\n  \
    benthic image serve --listen 0.0.0.0:10809 --tls-cert cert.pem --tls-key key.pem --tls-client-ca ca.pem vms\n  \
    benthic image serve --listen 0.0.0.0:10809 --tls-psk keys.psk vms"
)]
pub struct ServeArgs {
    /// POOL for all its images, POOL/IMAGE, or POOL/IMAGE@SNAPSHOT, which is read-only
    #[arg(required = true, value_name = "POOL[/IMAGE]")]
    what: Vec<String>,
    /// unix:PATH or ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10809", value_parser = parse_listen)]
    listen: Address,
    /// Refuse changes, and leave the images to other writers
    #[arg(long)]
    read_only: bool,
    /// Take images from the program that has them open; its later writes fail
    #[arg(long, conflicts_with = "read_only")]
    take_over: bool,
    /// Require TLS; file with the certificate and its chain, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// File with the private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate of these authorities; file in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Require TLS, with one of the keys in this file, IDENTITY:HEXADECIMAL a line, as psktool
    /// writes it
    #[arg(long, value_name = "FILE", conflicts_with = "tls_cert")]
    tls_psk: Option<PathBuf>,
    #[command(flatten)]
    client_limits: ClientLimitArgs,
    /// Serve a status page and metrics for Prometheus on this address; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Log and count requests that take as many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    slow_ms: u64,
}

fn parse_listen(text: &str) -> Result<Address, String> {
    match text.strip_prefix("unix:") {
        Some("") => Err("the path of the socket is empty".to_owned()),
        Some(path) => Ok(Address::Unix(path.into())),
        None => text.parse::<SocketAddr>().map(Address::Tcp).map_err(|_| {
            "name a socket, such as unix:/run/nbd.sock, or an address, such as 127.0.0.1:10809".to_owned()
        }),
    }
}

pub async fn run(args: ServeArgs, session: &Session) -> Outcome {
    let options = Options {
        client_limits: args.client_limits.limits()?,
        slow_request: Duration::from_millis(args.slow_ms),
        tls: match (&args.tls_cert, &args.tls_key, &args.tls_psk) {
            (Some(certificates), Some(key), _) => {
                let acceptor = tls::acceptor(certificates, key, args.tls_client_ca.as_deref(), &[])?;
                Some(Encryption::Certificates(acceptor))
            }
            (_, _, Some(keys)) => Some(Encryption::SharedKeys(PskAcceptor::from_file(keys)?)),
            _ => None,
        },
    };
    let addresses = find(&args.what, session).await?;
    // A taken address shows before any image is opened.
    let listener = Listener::bind(args.listen.clone()).await?;
    let metrics = if let Some(address) = args.metrics { Some(listen(address).await?) } else { None };
    let mut opened = Vec::new();
    let served = match open_all(&args, &addresses, session, &mut opened).await {
        Err(error) => Err(error.into()),
        Ok(()) => serve(listener, metrics, &opened, options, session).await,
    };
    let mut closed = Ok(());
    for (_, image) in &opened {
        closed = closed.and(image.close().await);
    }
    served.and(closed.map_err(Into::into))
}

/// The images that the arguments name.
async fn find(what: &[String], session: &Session) -> Result<Vec<ImageAddress>> {
    let mut found: Vec<ImageAddress> = Vec::new();
    for text in what {
        let named = if text.contains('/') {
            vec![text.parse()?]
        } else {
            check_pool_name(text)?;
            let names = images(session, text).await?.list().await?;
            let address = |image| ImageAddress { pool: text.clone(), image, snapshot: None };
            names.into_iter().map(address).collect()
        };
        for address in named {
            if !found.contains(&address) {
                found.push(address);
            }
        }
    }
    if found.is_empty() {
        return Err(Error::not_found("there is no image to serve; `benthic image create` creates one"));
    }
    Ok(found)
}

async fn open_all(
    args: &ServeArgs,
    addresses: &[ImageAddress],
    session: &Session,
    opened: &mut Vec<(String, Arc<dyn Image>)>,
) -> Result<()> {
    for address in addresses {
        let image = open_image(address, args.read_only, args.take_over, session).await?;
        opened.push((address.to_string(), image));
    }
    Ok(())
}

/// Opens an image to serve it.
pub async fn open_image(
    address: &ImageAddress,
    read_only: bool,
    take_over: bool,
    session: &Session,
) -> Result<Arc<dyn Image>> {
    let mode = match (read_only || address.snapshot.is_some(), take_over) {
        (true, _) => OpenMode::ReadOnly,
        (false, true) => OpenMode::TakeOver,
        (false, false) => OpenMode::Write,
    };
    let images = images(session, &address.pool).await?;
    images.open(&address.image, address.snapshot.as_deref(), mode).await
}

async fn serve(
    listener: Listener,
    metrics: Option<(TcpListener, SocketAddr)>,
    opened: &[(String, Arc<dyn Image>)],
    options: Options,
    session: &Session,
) -> Outcome {
    let mut exports = Vec::new();
    for (name, image) in opened {
        let info = image.info();
        let access = if info.read_only { "read-only" } else { "read and write" };
        let description = format!("{}, {access}", units::size(info.size_bytes));
        let uri = uri(listener.address(), name, options.tls.is_some());
        session.out.result(
            format_args!("serving {name} ({description}) as {}", shell_word(&uri)),
            || json!({ "image": name, "uri": uri }),
        )?;
        exports.push(Export::new(name.clone(), description, Arc::clone(image)));
    }
    let exports = Exports::new(exports);
    if let Some((listener, address)) = metrics {
        let page_url = format!("http://{address}/");
        let url = format!("{page_url}metrics");
        session.out.result(
            format_args!("serving metrics as {url}, and a page as {page_url}"),
            || json!({ "metrics_url": url, "page_url": page_url }),
        )?;
        let (metrics, hosts) = (exports.metrics(), Hosts::new(address, &[])?);
        tokio::spawn(serving::serve(listener, move |request| page::answer(&metrics, &hosts, request)));
    }
    session.out.flush()?;
    nbd::serve(listener, exports, options, interrupt::wait()).await?;
    Ok(())
}

/// The address of an export by the NBD URI specification.
pub fn uri(address: &Address, name: &str, tls: bool) -> String {
    let (scheme, name) = (if tls { "nbds" } else { "nbd" }, escape(name));
    match address {
        Address::Unix(path) => format!("{scheme}+unix:///{name}?socket={}", escape(&path.to_string_lossy())),
        Address::Tcp(address) => format!("{scheme}://{address}/{name}"),
    }
}

fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~@".contains(&byte);
    text.bytes().fold(String::new(), |escaped, byte| match byte {
        byte if plain(byte) => escaped + char::from(byte).encode_utf8(&mut [0; 4]),
        byte => escaped + &format!("%{byte:02X}"),
    })
}
