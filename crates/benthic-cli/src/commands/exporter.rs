//! `benthic exporter`: serves the health of a Ceph cluster to Prometheus. It polls the cluster at a
//! fixed interval. Requests get the result of the last poll, so they put no load on the cluster.

use crate::commands::health::LookArgs;
use crate::commands::health::watcher::Watcher;
use crate::commands::serving::{self, Answer, Freshness};
use benthic_ceph::health::metrics;
use benthic_core::Result;
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::session::Session;
use bytes::Bytes;
use clap::Args;
use hyper::StatusCode;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Arguments of `benthic exporter`.
#[derive(Args)]
#[command(
    after_help = "GET /metrics has what `benthic health` saw at its last look, what pools hold and what clients do with them; \
    /-/health is 200 while it looks. While no monitor answers that is told, also at the start, and it connects when one does. \
    What Ceph's own exporter tells too has its names, the rest begins with benthic_. It speaks plain HTTP and knows no users: \
    listen where only Prometheus comes. Rules for alerts are in docs/guide/health-alerts.yml.\n\n\
    Example:\n  benthic exporter --listen 127.0.0.1:9128 --probe-pool scratch --store ceph:"
)]
pub struct ExporterArgs {
    /// Address and port; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9128")]
    listen: SocketAddr,
    /// Seconds between two looks at the cluster, whoever asks how often
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    interval: u64,
    #[command(flatten)]
    look: LookArgs,
}

/// The metrics of the last poll.
struct Seen {
    text: Mutex<Bytes>,
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
    let (listener, address) = serving::listen(args.listen).await?;
    let mut watcher = Watcher::new(args.look, session).with_pools().with_calls();
    let seen = Arc::new(Seen { text: Mutex::default(), freshness: Freshness::new(args.interval) });
    // Poll once before serving, so that invalid arguments or caps are reported at the start, if a
    // monitor answers.
    seen.look(&mut watcher).await?;
    let url = format!("http://{address}/metrics");
    session.out.result(format_args!("serving {url}"), || json!({ "url": url }))?;
    session.out.flush()?;
    let answering = Arc::clone(&seen);
    tokio::spawn(serving::serve(listener, move |request| {
        serving::reads_only(request, || answering.answer(request.uri().path()))
    }));
    loop {
        tokio::time::sleep(Duration::from_secs(args.interval)).await;
        if let Err(error) = seen.look(&mut watcher).await {
            // The data of the last poll become stale. `/-/health` and the metrics show that.
            session.out.warning(&error);
        }
    }
}

impl Seen {
    async fn look(&self, watcher: &mut Watcher<'_>) -> Result<()> {
        let (report, overview) = watcher.look_around().await?;
        let text = metrics::text(&report, &overview) + &watcher.calls_text();
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
        self.freshness.renew();
        Ok(())
    }

    fn answer(&self, path: &str) -> Answer {
        match path {
            "/metrics" => {
                let text = self.text.lock().unwrap_or_else(PoisonError::into_inner).clone();
                serving::answer(StatusCode::OK, metrics::CONTENT_TYPE, text)
            }
            "/-/health" => self.freshness.answer(),
            _ => serving::line(StatusCode::NOT_FOUND, "/metrics and /-/health are here\n"),
        }
    }
}
