//! The HTTP responses of the status page: its HTML, style and script, which are part of the
//! program, and the JSON of the last poll.

use crate::commands::hosts::Hosts;
use crate::commands::serving::{self, Answer, Freshness};
use bytes::Bytes;
use hyper::{Request, StatusCode};
use std::sync::{Mutex, PoisonError};

pub const HTML: &str = include_str!("page.html");
pub const STYLE: &str = include_str!("page.css");
pub const SCRIPT: &str = include_str!("page.js");
/// The part of the script that the console uses, too.
pub const ELEMENTS: &str = include_str!("elements.js");

pub struct Page {
    json: Mutex<Bytes>,
    freshness: Freshness,
    hosts: Hosts,
}

impl Page {
    pub fn new(interval_s: u64, hosts: Hosts) -> Page {
        Page { json: Mutex::default(), freshness: Freshness::new(interval_s), hosts }
    }

    /// Shows the result of a new poll.
    pub fn show(&self, json: String) {
        self.replace_data(json);
        self.freshness.renew();
    }

    /// Replaces the data without marking them as fresh, for a poll that failed.
    pub fn replace_data(&self, json: String) {
        *self.json.lock().unwrap_or_else(PoisonError::into_inner) = json.into();
    }

    /// Answers a request. Every response has the security headers.
    pub fn answer<T>(&self, request: &Request<T>) -> Answer {
        let answer = if self.hosts.allow(request) {
            serving::answer_reads(request, || self.at(request.uri().path()))
        } else {
            let message = "this server does not accept this Host header; `benthic status serve --host NAME` adds a name\n";
            serving::line(StatusCode::MISDIRECTED_REQUEST, message)
        };
        serving::with_security_headers(answer)
    }

    /// The JSON of the last poll.
    pub fn data(&self) -> Answer {
        let json = self.json.lock().unwrap_or_else(PoisonError::into_inner).clone();
        serving::answer(StatusCode::OK, "application/json", json)
    }

    fn at(&self, path: &str) -> Answer {
        let (kind, body) = match path {
            "/" => ("text/html; charset=utf-8", HTML),
            "/page.css" => ("text/css; charset=utf-8", STYLE),
            "/page.js" => ("text/javascript; charset=utf-8", SCRIPT),
            "/elements.js" => ("text/javascript; charset=utf-8", ELEMENTS),
            "/status.json" => return self.data(),
            "/-/health" => return self.freshness.answer(),
            _ => {
                return serving::line(
                    StatusCode::NOT_FOUND,
                    "this server has only /, /status.json and /-/health\n",
                );
            }
        };
        serving::answer(StatusCode::OK, kind, body)
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
