//! `benthic csi`: runs the driver for Kubernetes.

use benthic_core::{Action, Error, Result};
use benthic_csi::driver::Config;
use benthic_csi::{Driver, identity, server};
use benthic_program::exit::Outcome;
use benthic_program::interrupt;
use benthic_program::session::Session;
use benthic_program::uri::StoreUri;
use clap::Args;
use serde_json::json;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

/// Arguments of `benthic csi`.
#[derive(Args)]
#[command(
    after_help = "Serves the services Identity, Controller and Node on one socket. On a cluster, run one driver for the \
    controller and one on each node. A node attaches volumes with `benthic image attach`, which needs root and goes on when \
    the driver ends.\n\n\
    Example:\n  benthic --store ceph: csi --endpoint unix:///csi/csi.sock --node-id worker-1 --pool kubernetes"
)]
pub struct CsiArgs {
    /// The socket of the driver: unix:///PATH
    #[arg(long, value_name = "URI", env = "CSI_ENDPOINT", value_parser = parse_endpoint)]
    endpoint: PathBuf,
    /// The name of this node in the orchestrator
    #[arg(long, value_name = "NAME", env = "CSI_NODE_ID")]
    node_id: String,
    /// Pool that may have volumes; can be repeated, and the first one is the default of storage
    /// classes
    #[arg(long, value_name = "POOL", default_value = "kubernetes")]
    pool: Vec<String>,
    /// Directory for the state of attached volumes, which a reboot must empty
    #[arg(long, value_name = "DIR", default_value = "/run/benthic/csi")]
    state: PathBuf,
}

fn parse_endpoint(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix("unix:").unwrap_or(text);
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.starts_with('/') {
        return Ok(path.into());
    }
    Err("name a socket with an absolute path, such as unix:///csi/csi.sock".to_owned())
}

pub async fn run(args: CsiArgs, session: &Session) -> Outcome {
    let program = std::env::current_exe()
        .map_err(|error| Error::io(Action::Admin, "cannot find the directory of this program", error))?;
    let config = Config {
        store: absolute(session.uri())?,
        pools: args.pool,
        node_id: args.node_id,
        program: program.with_file_name("benthic"),
        state: args.state,
    };
    let driver = Driver::new(config)?;
    let endpoint = args.endpoint.display().to_string();
    let listener = bind(&args.endpoint).await.map_err(|error| error.with("endpoint", &endpoint))?;
    session.out.result(
        format_args!("serving {} on unix://{endpoint}", identity::NAME),
        || json!({ "driver": identity::NAME, "endpoint": format!("unix://{endpoint}") }),
    )?;
    session.out.flush()?;
    let served = server::serve(listener, driver.clone(), interrupt::wait()).await;
    // It may be gone already.
    let _ = fs::remove_file(&args.endpoint);
    let closed = driver.close().await;
    Ok(served.and(closed)?)
}

/// The same store, also for a process in another directory.
fn absolute(uri: &str) -> Result<String> {
    let StoreUri::File(directory) = uri.parse()? else { return Ok(uri.to_owned()) };
    let directory = std::path::absolute(&directory)
        .map_err(|error| Error::io(Action::Admin, "cannot find the store's directory", error))?;
    Ok(StoreUri::File(directory).to_string())
}

/// Listens on a socket. Replaces the socket of a driver that was killed.
async fn bind(path: &Path) -> Result<UnixListener> {
    let cannot = |error| Error::io(Action::Admin, "cannot listen on the endpoint", error);
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            match UnixStream::connect(path).await {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                _ => {
                    let message = "another driver listens on the endpoint; stop it first";
                    return Err(Error::already_exists(message));
                }
            }
            fs::remove_file(path).map_err(cannot)?;
            UnixListener::bind(path).map_err(cannot)
        }
        bound => bound.map_err(cannot),
    }
}
