//! `benthic status serve`: serves a status page of a Ceph cluster. It polls the cluster at a fixed
//! interval. Requests get the result of the last poll, so they put no load on the cluster.

mod last_known;
mod page;

use crate::commands::health::watcher::Watcher;
use crate::commands::health::{LibraryArgs, PollArgs};
use crate::commands::hosts::Hosts;
use crate::commands::serving;
use benthic_ceph::health::history::{self, History, Sample};
use benthic_core::{Clock, Result, SystemClock, build};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::serving::listen;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use clap::{Args, Subcommand};
use last_known::LastKnown;
pub use page::{ELEMENTS, HTML, Page, SCRIPT, STYLE};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub const EXAMPLES: &str = "Example:\n  benthic status serve --store ceph:";

/// Minimum interval between writes of the history. It is also written at the end.
const SAVE_MS: u64 = 60_000;

#[derive(Subcommand)]
pub enum StatusCommand {
    /// Serve a page with the state of a cluster, its problems and its history
    Serve(ServeArgs),
}

#[derive(Args)]
#[command(
    after_help = "The page is at /, its data are at /status.json, and /-/health returns 200 while polls succeed. The server needs no \
    other service and no internet. It changes nothing in the cluster; only --probe-pool writes one object of 4 KiB and \
    removes it. The server speaks plain HTTP and has no users: on addresses other than loopback, everybody who can connect \
    can read the page. The client needs the caps mon 'allow r', mgr 'allow r' and osd 'allow rx'. While no monitor answers, also at the \
    start, the page says so, and the server connects when one answers.\n\n\
    Examples:\n  benthic status serve --store ceph:\n  \
    benthic status serve --probe-pool scratch --history /var/lib/benthic/status --store ceph:"
)]
pub struct ServeArgs {
    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8128")]
    listen: SocketAddr,
    /// Additional Host header to accept, for example behind a proxy; on loopback, the defaults are
    /// localhost and the addresses
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Seconds between two polls of the cluster; requests cause no polls
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    interval: u64,
    /// Write, read and remove a small object in this pool at each poll, and show the latency
    #[arg(long, value_name = "POOL")]
    probe_pool: Option<String>,
    /// Save the history in this file, so that the next start continues it; a missing file is
    /// created
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    #[command(flatten)]
    libraries: LibraryArgs,
}

pub async fn run(command: StatusCommand, session: &Session) -> Outcome {
    let StatusCommand::Serve(args) = command;
    let (listener, address) = listen(args.listen).await?;
    let hosts = Hosts::new(address, &args.host)?;
    let poll = PollArgs { probe_pool: args.probe_pool, history: None, libraries: args.libraries };
    let mut board = Board::new(poll, args.history, args.interval, session);
    let page = Arc::new(Page::new(args.interval, hosts));
    // Poll once before serving, so that invalid arguments, caps or files are reported at the start,
    // if a monitor answers.
    tokio::select! {
        polled = board.poll(&page, session) => polled?,
        () = interrupt::wait() => return Err(Failure::Interrupted),
    }
    let url = format!("http://{address}/");
    session.out.result(format_args!("serving {url}"), || json!({ "url": url }))?;
    session.out.flush()?;
    let answering = Arc::clone(&page);
    let server = tokio::spawn(serving::serve(listener, move |request| answering.answer(request)));
    tokio::select! {
        () = board.repeat(&page, session) => {}
        () = interrupt::wait() => {}
    }
    server.abort();
    board.save(0).await?;
    Err(Failure::Interrupted)
}

/// Polls a cluster for a page.
pub struct Board<'a> {
    watcher: Watcher<'a>,
    history: History,
    last_known: LastKnown,
    file: Option<PathBuf>,
    /// The cluster that the history belongs to; empty until a monitor has answered.
    fsid: String,
    interval_s: u64,
    clock: SystemClock,
    saved_at_ms: u64,
    /// The JSON of the last poll.
    last: Value,
}

impl<'a> Board<'a> {
    /// With `file`, the history is saved there.
    pub fn new(poll: PollArgs, file: Option<PathBuf>, interval_s: u64, session: &'a Session) -> Board<'a> {
        Board {
            watcher: Watcher::new(poll, session).with_pools().with_calls().hourly(),
            history: History::default(),
            last_known: LastKnown::default(),
            file,
            fsid: String::new(),
            interval_s,
            clock: SystemClock,
            saved_at_ms: 0,
            last: Value::Null,
        }
    }

    /// Polls now and then again after each interval, until the future is dropped.
    pub async fn run(&mut self, page: &Page, session: &Session) {
        self.poll_and_save(page, session).await;
        self.repeat(page, session).await;
    }

    async fn repeat(&mut self, page: &Page, session: &Session) {
        loop {
            tokio::time::sleep(Duration::from_secs(self.interval_s)).await;
            self.poll_and_save(page, session).await;
        }
    }

    async fn poll_and_save(&mut self, page: &Page, session: &Session) {
        if let Err(error) = self.poll(page, session).await {
            session.out.warning(&error);
            self.show_failure(page, error.message());
        }
        if let Err(error) = self.save(SAVE_MS).await {
            // A failed write does not affect the page.
            session.out.warning(&error);
        }
    }

    async fn poll(&mut self, page: &Page, session: &Session) -> Result<()> {
        let (report, overview) = self.watcher.poll_with_overview().await?;
        if self.fsid.is_empty() && !report.fsid.is_empty() {
            if let Err(error) = self.read_history(&report.fsid).await {
                if self.last.is_null() {
                    return Err(error);
                }
                // The first poll reached no monitor. Leave the file unchanged.
                self.file = None;
                session
                    .out
                    .warning(format_args!("{error}; the history is not saved there until the next start"));
            }
            // Set this only after reading the file, so that a file that was not read is never
            // overwritten.
            self.fsid.clone_from(&report.fsid);
        }
        self.history.add(&Sample::of(&report, overview.io), self.interval_s);
        self.last = json!({
            "version": 1,
            "benthic": build(),
            "interval_s": self.interval_s,
            "unix_s": report.unix_s,
            "error": null,
            "report": report,
            "io": overview.io,
            "recovery": overview.recovery,
            "places": overview.places,
            "pools": overview.pools,
            "last_known": self.last_known.update(&report, &overview),
            "classes": self.classes(),
            "calls": self.watcher.calls(),
            "history": self.history.json(report.unix_s),
        });
        page.show(self.last.to_string());
        Ok(())
    }

    /// Continues the history that the file has of this cluster.
    async fn read_history(&mut self, fsid: &str) -> Result<()> {
        if let Some(file) = self.file.clone() {
            let fsid = fsid.to_owned();
            let (history, readings) = blocking(move || history::read(&file, &fsid)).await?;
            self.history.merge_earlier(history);
            self.watcher.prepend_readings(readings);
        }
        Ok(())
    }

    fn classes(&self) -> Vec<Value> {
        let libraries = self.watcher.described().iter();
        let classes = libraries.flat_map(|library| library.classes.iter().map(move |class| (library, class)));
        let shown = |(library, class): (&benthic_core::LibraryInfo, &benthic_core::ClassInfo)| {
            let methods: Vec<&str> = class.methods.iter().map(|method| method.name.as_str()).collect();
            json!({
                "library": library.library,
                "class": class.name,
                "version": class.version,
                "summary": class.summary,
                "methods": methods,
            })
        };
        classes.map(shown).collect()
    }

    /// Shows on the page that the poll failed, so that its data are stale.
    fn show_failure(&mut self, page: &Page, why: &str) {
        self.history.record_gap();
        self.last["error"] = json!(why);
        page.replace_data(self.last.to_string());
    }

    /// Writes the history unless the last attempt was less than `apart_ms` ago.
    async fn save(&mut self, apart_ms: u64) -> Result<()> {
        let now_ms = self.clock.monotonic_ms();
        let is_soon = now_ms.saturating_sub(self.saved_at_ms) < apart_ms;
        let Some(file) = self.file.clone().filter(|_| !is_soon && !self.fsid.is_empty()) else {
            return Ok(());
        };
        // Count failed attempts too, so that a full disk is not retried at once.
        self.saved_at_ms = now_ms;
        let (fsid, history) = (self.fsid.clone(), self.history.clone());
        let readings = self.watcher.readings().to_vec();
        blocking(move || history::write(&file, &fsid, history, readings)).await
    }
}
