//! The HTTP responses of `image serve --metrics`: a page for people, and the metrics for
//! Prometheus.

use super::limit;
use crate::commands::hosts::Hosts;
use crate::commands::serving::{self, Answer};
use benthic_block::nbd::{BOUNDS_US, ExportMetrics, Metrics};
use benthic_ceph::health::metrics::CONTENT_TYPE;
use hyper::{Request, StatusCode};
use serde_json::{Map, Value, json};

const HTML: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

pub fn answer<T>(metrics: &Metrics, hosts: &Hosts, request: &Request<T>) -> Answer {
    let answer = if hosts.allow(request) {
        serving::answer_reads(request, || at(metrics, request.uri().path()))
    } else {
        let message = "this server does not accept this Host header; use its address or localhost\n";
        serving::line(StatusCode::MISDIRECTED_REQUEST, message)
    };
    serving::with_security_headers(answer)
}

fn at(metrics: &Metrics, path: &str) -> Answer {
    let (kind, body) = match path {
        "/" => ("text/html; charset=utf-8", HTML.into()),
        "/page.css" => ("text/css; charset=utf-8", STYLE.into()),
        "/page.js" => ("text/javascript; charset=utf-8", SCRIPT.into()),
        "/status.json" => ("application/json", status(metrics).to_string()),
        "/metrics" => (CONTENT_TYPE, metrics.text()),
        _ => {
            return serving::line(
                StatusCode::NOT_FOUND,
                "this server has only /, /status.json and /metrics\n",
            );
        }
    };
    serving::answer(StatusCode::OK, kind, body)
}

fn status(metrics: &Metrics) -> Value {
    json!({ "bounds_us": BOUNDS_US, "images": metrics.exports().iter().map(describe).collect::<Vec<_>>() })
}

fn describe(export: &ExportMetrics) -> Value {
    let kinds = export.kinds.iter().map(|kind| {
        let value = json!({
            "latencies": kind.latencies,
            "bytes": kind.bytes,
            "errors": kind.errors,
            "slow": kind.slow,
        });
        (kind.label.to_owned(), value)
    });
    json!({
        "image": export.name,
        "size_bytes": export.info.size_bytes,
        "is_read_only": export.info.read_only,
        "clients": export.clients,
        "in_flight": export.in_flight,
        "waiting": export.waiting,
        "limits": limit::describe(&export.limits),
        "kinds": kinds.collect::<Map<_, _>>(),
    })
}
