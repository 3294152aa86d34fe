//! Runs a benchmark at several places at once.

use super::BenchCommand;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use serde_json::{Value, json};
use std::fmt::Write;

pub async fn run(command: &BenchCommand, session: &Session) -> Outcome {
    let places = &command.load().places;
    places.check()?;
    // Check the pool once here, so that an error common to all places is reported once, before
    // anything is written.
    session.pool(&command.load().pool).await?;
    let found = places.run_all(session, |place| args(command, place)).await?;
    let rows: Vec<(&String, &Value)> = places.from.iter().zip(&found).collect();
    let sum = |name: &str| found.iter().filter_map(|value| value[name].as_f64()).sum::<f64>();
    let (mib_per_s, operations_per_s) = (sum("mib_per_s"), sum("operations_per_s"));
    let mut text =
        format!("{:<16} {:>12} {:>14} {:>12} {:>12}", "from", "MiB/s", "operations/s", "p50 ms", "p99 ms");
    let number = |value: &Value, name: &str| value[name].as_f64().unwrap_or(f64::NAN);
    for (place, value) in &rows {
        let of = |name| number(value, name);
        let _ = write!(
            text,
            "\n{:<16} {:>12.1} {:>14.1} {:>12.3} {:>12.3}",
            units::one_line(place),
            of("mib_per_s"),
            of("operations_per_s"),
            of("latency_ms_p50"),
            of("latency_ms_p99")
        );
    }
    let _ = write!(text, "\n{:<16} {mib_per_s:>12.1} {operations_per_s:>14.1}", "total");
    session.out.result(text, || {
        let places = rows.iter().map(|(place, value)| {
            let mut value = (*value).clone();
            value["place"] = json!(place);
            value
        });
        json!({
            "mib_per_s": mib_per_s,
            "operations_per_s": operations_per_s,
            "places": places.collect::<Vec<_>>(),
        })
    })
}

/// The arguments for one place: the same load, with a label of its own for the objects it writes.
fn args(command: &BenchCommand, place: &str) -> Vec<String> {
    let load = command.load();
    let own = || format!("{}{}", load.label, place.replace(|c: char| !c.is_ascii_alphanumeric(), ""));
    let mut args = vec!["bench".to_owned()];
    let mut add = |name: &str, label: &str, more: Vec<String>| {
        args.push(name.to_owned());
        args.extend(load.args(label));
        args.extend(more);
    };
    let more = |size_bytes: u64, flags: &[(bool, &str)]| -> Vec<String> {
        let flags = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| (*flag).to_owned());
        ["--size".to_owned(), size_bytes.to_string()].into_iter().chain(flags).collect()
    };
    match command {
        BenchCommand::Write(write) => {
            let flags = [(write.buffered, "--buffered"), (write.keep, "--keep")];
            add("write", &own(), more(write.size, &flags));
        }
        BenchCommand::Seq(read) => add("seq", &load.label, more(read.size, &[(read.keep, "--keep")])),
        BenchCommand::Rand(read) => add("rand", &load.label, more(read.size, &[(read.keep, "--keep")])),
        BenchCommand::Exec(exec) => {
            let call = [("--class", &exec.class), ("--method", &exec.method), ("--input", &exec.input)];
            let call = call.into_iter().flat_map(|(option, value)| [option.to_owned(), value.clone()]);
            add("exec", &own(), more(exec.size, &[]).into_iter().chain(call).collect());
        }
    }
    args
}
