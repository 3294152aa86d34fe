//! The log of a program, on stderr.

use serde_json::{Map, Value, json};
use std::fmt;
use std::io::IsTerminal;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts the log. With `--json`, each event is one line of JSON.
pub fn start(verbose: u8, as_json: bool) {
    let level = match verbose {
        0 => tracing::Level::WARN,
        1 => tracing::Level::INFO,
        2 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    // The crate of the S3 protocol logs client mistakes as errors. Show them at -vv only. Never
    // show its debug level, which has fields of requests; they may be secret.
    let is_logged = FilterFn::new(move |metadata| {
        let is_shown = verbose >= 2 && *metadata.level() <= tracing::Level::INFO;
        is_shown || !metadata.target().starts_with("s3s")
    });
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && !as_json)
        // Stderr may be a file on a full disk. To report on stderr that stderr cannot be written
        // would panic.
        .log_internal_errors(false);
    if as_json {
        log.event_format(JsonLines).finish().with(is_logged).init();
    } else {
        log.finish().with(is_logged).init();
    }
}

/// Formats an event as `{"log": {"time": …, "level": …, "target": …, "message": …}}`, with the
/// event's other fields beside `message`.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        let metadata = event.metadata();
        fields.0.insert("time".to_owned(), json!(time));
        fields.0.insert("level".to_owned(), json!(metadata.level().as_str()));
        fields.0.insert("target".to_owned(), json!(metadata.target()));
        writeln!(writer, "{}", json!({ "log": fields.0 }))
    }
}

struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), json!(format!("{value:?}")));
    }
}
