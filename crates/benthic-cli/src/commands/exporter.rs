//! `benthic exporter`: serves the health of a Ceph cluster to Prometheus. It polls the cluster at a
//! fixed interval. Requests get the result of the last poll, so they put no load on the cluster.

use crate::commands::health::PollArgs;
use crate::commands::health::watcher::Watcher;
use crate::commands::serving::{self, Answer, Freshness};
use benthic_ceph::health::metrics;
use benthic_core::Result;
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::serving::listen;
use benthic_program::session::Session;
use bytes::Bytes;
use clap::Args;
use hyper::StatusCode;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[derive(Args)]
#[command(
    after_help = "GET /metrics returns the result of the last poll: the report of `benthic health`, the content of pools and \
    the I/O of clients. GET /-/health returns 200 while polls succeed. While no monitor answers, also at the start, the \
    metrics say so, and the exporter connects when one answers. Metrics that Ceph's own exporter has too have its names; \
    all others begin with benthic_. The exporter speaks plain HTTP and has no users: listen where only Prometheus can \
    connect. docs/guide/health-alerts.yml has alert rules.\n\n\
    Example:\n  benthic exporter --listen 127.0.0.1:9128 --probe-pool scratch --store ceph:"
)]
pub struct ExporterArgs {
    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9128")]
    listen: SocketAddr,
    /// Seconds between two polls of the cluster; requests cause no polls
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    interval: u64,
    #[command(flatten)]
    poll: PollArgs,
}

/// The metrics of the last poll.
struct LastPoll {
    text: Mutex<Bytes>,
    /// Time of the last successful poll.
    unix_s: AtomicU64,
    freshness: Freshness,
}

pub async fn run(args: ExporterArgs, session: &Session) -> Outcome {
    tokio::select! {
        ended = export(args, session) => ended,
        // A poll may wait for a daemon that does not answer.
        () = interrupt::wait() => Err(Failure::Interrupted),
    }
}

async fn export(args: ExporterArgs, session: &Session) -> Outcome {
    let (listener, address) = listen(args.listen).await?;
    let mut watcher = Watcher::new(args.poll, session).with_pools().with_calls();
    let last = Arc::new(LastPoll {
        text: Mutex::default(),
        unix_s: AtomicU64::default(),
        freshness: Freshness::new(args.interval),
    });
    // Poll once before serving, so that invalid arguments or caps are reported at the start, if a
    // monitor answers.
    last.poll(&mut watcher).await?;
    let url = format!("http://{address}/metrics");
    session.out.result(format_args!("serving {url}"), || json!({ "url": url }))?;
    session.out.flush()?;
    let answering = Arc::clone(&last);
    tokio::spawn(serving::serve(listener, move |request| {
        serving::answer_reads(request, || answering.answer(request.uri().path()))
    }));
    loop {
        tokio::time::sleep(Duration::from_secs(args.interval)).await;
        if let Err(error) = last.poll(&mut watcher).await {
            session.out.warning(&error);
            last.fail();
        }
    }
}

impl LastPoll {
    async fn poll(&self, watcher: &mut Watcher<'_>) -> Result<()> {
        let (report, overview) = watcher.poll_with_overview().await?;
        let text = metrics::text(&report, &overview) + &watcher.calls_text();
        self.replace(text);
        self.unix_s.store(report.unix_s, Ordering::Relaxed);
        self.freshness.renew();
        Ok(())
    }

    /// Removes the values of the last poll after a poll that failed. Served on, they would show the
    /// cluster as it was.
    fn fail(&self) {
        self.replace(metrics::failed(self.unix_s.load(Ordering::Relaxed)));
    }

    fn replace(&self, text: String) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
    }

    fn answer(&self, path: &str) -> Answer {
        match path {
            "/metrics" => {
                let text = self.text.lock().unwrap_or_else(PoisonError::into_inner).clone();
                serving::answer(StatusCode::OK, metrics::CONTENT_TYPE, text)
            }
            "/-/health" => self.freshness.answer(),
            _ => serving::line(StatusCode::NOT_FOUND, "this server has only /metrics and /-/health\n"),
        }
    }
}
