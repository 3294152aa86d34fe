//! `benthic console serve`: a web page to inspect a store and to try things, with a JSON interface.
//!
//! One process serves the page and answers its requests from the session's store. Features of other
//! programs, such as SQL, come from child processes that run the same programs as users do, so that
//! this program stays small. All connections are futures of one task: requests wait for the store,
//! and the store's work runs on threads of the engine.

mod access;
mod arrays;
mod buckets;
mod children;
mod classes;
mod data;
mod http;
mod objects;
mod pages;
mod plan;
mod preview;
mod query;
mod reply;
mod router;
mod tables;

use crate::commands::health::{LibraryArgs, PollArgs};
use crate::commands::hosts::Hosts;
use crate::commands::status::{Board, Page};
use access::Access;
use benthic_core::{Environment, Error, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::serving::{TlsArgs, listen};
use benthic_program::session::Session;
use benthic_program::{interrupt, local};
use children::Children;
use clap::{Args, Subcommand};
use serde_json::json;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Semaphore;

pub const EXAMPLES: &str = "Example:\n  benthic console serve";

/// Seconds between two polls of a cluster.
const POLL_INTERVAL_S: u64 = 15;

/// The state that all request handlers share.
pub struct Console<'a> {
    pub session: &'a Session,
    pub access: Access,
    pub hosts: Hosts,
    /// The status page of a cluster; `None` for other stores.
    pub page: Option<Arc<Page>>,
    pub children: Children,
    pub is_writable: bool,
    pub s3_pool: String,
    /// The account whose users may sign in with their keys.
    pub account: Option<String>,
    /// A place for checking a key.
    pub sign_ins: Semaphore,
    pub uploads: Arc<Semaphore>,
}

#[derive(Subcommand)]
pub enum ConsoleCommand {
    /// Serve a web page to browse objects, call classes, query tables and see the health of a
    /// cluster
    Serve(ServeArgs),
}

#[derive(Args)]
#[command(
    after_help = "Open the printed URL: the part after # is the token that signs you in. The token changes at each start, unless \
    --token-file names one. Scripts send it as `Authorization: Bearer TOKEN`; docs/guide/console.md describes the JSON \
    endpoints. The page needs no internet.\n\n\
    The console changes nothing in the store unless --writable is given. Tables, arrays and S3 need the programs benthic-sql, \
    benthic-array and benthic-s3 beside this one. Addresses other than loopback need --tls-cert and --tls-key.\n\n\
    Examples:\n  benthic console serve\n  \
    benthic console serve --writable --store ceph:\n  \
    benthic console serve --listen 0.0.0.0:8129 --tls-cert cert.pem --tls-key key.pem --account operators"
)]
pub struct ServeArgs {
    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8129")]
    listen: SocketAddr,
    /// Additional Host header to accept, for example behind a proxy; on loopback, the defaults are
    /// localhost and the addresses
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Allow uploads, deletions, statements and methods that change data
    #[arg(long)]
    writable: bool,
    /// Account of the S3 gateway whose users may sign in with their keys; they may all that the
    /// token allows
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Use the token in this file, 32 to 256 letters, digits, - and _, instead of a random one
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArgs,
    /// Pool of the S3 gateway's index
    #[arg(long, value_name = "POOL", default_value = "s3")]
    s3_pool: String,
    #[command(flatten)]
    libraries: LibraryArgs,
}

pub async fn run(command: ConsoleCommand, session: &Session) -> Outcome {
    let ConsoleCommand::Serve(args) = command;
    args.tls.check_address(args.listen)?;
    let tls = args.tls.acceptor(&["http/1.1"])?;
    let environment = Environment::default();
    let token = match &args.token_file {
        Some(path) => read_token(path)?,
        None => access::random_token(&*environment.random)?,
    };
    // A cluster may be down now and come back later. A directory without a store stays without one.
    let is_cluster = session.is_cluster()?;
    if !is_cluster {
        let store = session.store().await?;
        if args.writable {
            store.check_writable()?;
        }
    }
    let (listener, address) = listen(args.listen).await?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let page = Arc::new(Page::new(POLL_INTERVAL_S, Hosts::new(address, &args.host)?));
    let console = Console {
        session,
        access: Access::new(&token, address.port(), scheme, Environment::default()),
        hosts: Hosts::new(address, &args.host)?,
        page: is_cluster.then(|| Arc::clone(&page)),
        children: Children::new(session)?,
        is_writable: args.writable,
        s3_pool: args.s3_pool,
        account: args.account,
        sign_ins: Semaphore::new(1),
        uploads: data::upload_slots(),
    };
    let url = format!("{scheme}://{address}/");
    let access = if args.writable { "it may change data" } else { "read-only" };
    session.out.result(
        format_args!("serving the console ({access}) at {url}#token={token}"),
        || json!({ "url": url, "token": token, "writable": args.writable }),
    )?;
    session.out.flush()?;
    let polls = async {
        if is_cluster {
            let poll = PollArgs { libraries: args.libraries.clone(), ..PollArgs::default() };
            Board::new(poll, None, POLL_INTERVAL_S, session).run(&page, session).await
        } else {
            std::future::pending().await
        }
    };
    tokio::select! {
        () = http::serve(listener, tls, &console) => {}
        () = polls => {}
        () = interrupt::wait() => {}
    }
    Err(Failure::Interrupted)
}

fn read_token(path: &Path) -> Result<String> {
    let data = local::read_file(path)?.data;
    let token = std::str::from_utf8(&data).unwrap_or_default().trim();
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if (32..=256).contains(&token.len()) && token.bytes().all(is_safe) {
        return Ok(token.to_owned());
    }
    let message = "the token must be 32 to 256 letters, digits, - and _; `openssl rand -hex 32` makes one";
    Err(Error::invalid_argument(message).with("path", path.display()))
}
