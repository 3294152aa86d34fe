//! The results as text: the tables on the terminal, and the sentences that the HTML report also
//! has.

use super::Findings;
use super::phases::Phase;
use super::published::{Published, Run};
use benthic_program::html::Figure;
use benthic_program::units;
use std::fmt::Display;

pub const PHASE_HEADS: [&str; 7] =
    ["", "time", "objects/s", "MiB/s", "round trips", "to the store", "from the store"];

pub const PUBLISHED_FORM: &str = "The published form is the experiment of the book Mastering Ceph (Nick Fisk, Packt 2017, \
    chapter 6): the storage computes the MD5 of one object and stores it as the object's attribute, 1,000 times, then a \
    client does the same; the book measured 0.126 s in storage and 7.735 s at the client, 61 times as long.";

/// The results of the experiment, as ratios of the client to the storage: the bytes moved for all
/// objects, and round trips and time of the published form on its first object.
pub fn figures(findings: &Findings) -> Vec<Figure> {
    let mut figures = Vec::new();
    if let [_, in_storage, at_client, ..] = findings.phases.as_slice()
        && let (Some(storage_bytes), Some(client_bytes)) =
            (in_storage.crossed_both_ways(), at_client.crossed_both_ways())
    {
        let place = if findings.ceph { "" } else { ", both within one process: no network here" };
        figures.push(Figure::of_ratio(
            ratio(client_bytes, storage_bytes),
            ["fewer", "more"],
            "bytes moved to digest all objects",
            format!(
                "{} in storage, {} at the client{place}",
                units::size(storage_bytes),
                units::size(client_bytes)
            ),
        ));
    }
    let Some(Published { size_bytes, in_storage, durable, buffered, .. }) = findings.published.first() else {
        return figures;
    };
    let times = findings.repeat;
    let form = format!("the published form, on {}", units::size(*size_bytes));
    figures.push(Figure::of_ratio(
        ratio(durable.round_trips, in_storage.round_trips),
        ["fewer", "more"],
        &format!("round trips to digest one object {times} times"),
        format!("{form}: {} in storage, {} at the client", in_storage.round_trips, durable.round_trips),
    ));
    let once =
        |run: &Run| format!(", or {:.3} s if it waits for the disk only once, at the end", run.seconds);
    figures.push(Figure::of_ratio(
        durable.seconds / in_storage.seconds.max(1e-9),
        ["less", "more"],
        &format!("time to digest one object {times} times"),
        format!(
            "{form}: {:.3} s in storage, {:.3} s at the client{}",
            in_storage.seconds,
            durable.seconds,
            buffered.as_ref().map(once).unwrap_or_default()
        ),
    ));
    figures
}

#[expect(clippy::cast_precision_loss, reason = "only for display")]
fn ratio(client: u64, storage: u64) -> f64 {
    client as f64 / storage.max(1) as f64
}

pub fn setting(findings: &Findings) -> String {
    format!(
        "store {}, pool {}, {} jobs, one round trip to the store {:.2} ms",
        findings.store, findings.pool, findings.jobs, findings.round_trip_ms
    )
}

/// The number of objects and their bytes.
pub fn totals(findings: &Findings) -> String {
    let (objects, bytes) =
        findings.phases.first().map_or((0, 0), |load| (load.sizes.objects, load.sizes.bytes));
    format!("{}, {}: {}", units::count(objects, "object"), units::size(bytes), findings.data)
}

pub fn explain_phases(findings: &Findings) -> String {
    if !findings.ceph {
        return "In the embedded engine, code and data share one process, so a digest in storage saves no network \
            traffic: both rows read the same bytes from the same disk. The digest in storage runs first, with colder \
            caches, and also stores every digest durably as an attribute; the client stores nothing. On a Ceph \
            cluster, all bytes \"from the store\" would cross the network. A digest in storage would transfer 32 \
            characters, and the machine that stores an object would compute its digest."
            .to_owned();
    }
    let crossed = |index| findings.phases.get(index).and_then(Phase::crossed_both_ways).unwrap_or(0);
    let (in_storage, at_client) = (crossed(1), crossed(2));
    format!(
        "Each object was digested by the OSD that stores it. That transferred {} over the network in both directions; \
        the digests at the client transferred {}, {:.0} times as much. (This counts payload: data, attributes, and input \
        and output of methods.) The OSDs also stored every digest, replicated, as an attribute; the client stored \
        nothing. If the OSDs and the client share one machine, its cores do all the work and there is no real \
        network, so the rates say little.",
        units::size(in_storage),
        units::size(at_client),
        ratio(at_client, in_storage)
    )
}

pub fn explain_repetitions(findings: &Findings) -> String {
    const REPETITION: &str = "Every repetition is one stat, one read of the whole object, one MD5 and one attribute \
        write. In storage, all repetitions of a call are one operation, so each call commits the attribute once.";
    if findings.ceph {
        return format!(
            "{REPETITION} The client waits for three round trips each time, the last one for the commit on every \
             replica, and all data that it reads cross the network. One round trip takes {:.2} ms here; the gain grows \
             with the distance to the cluster.",
            findings.round_trip_ms
        );
    }
    format!(
        "{REPETITION} The client commits it every time: \"durable\" waits for the disk each time, \"buffered\" waits \
         once, at the end. Most of the gain over \"durable\" is this wait; the gain over \"buffered\" is not."
    )
}

pub fn summary(findings: &Findings) -> String {
    let mut lines: Vec<String> = figures(findings)
        .into_iter()
        .map(|Figure { value, label, detail }| format!("{value:>8} {label}: {detail}"))
        .collect();
    lines.extend([String::new(), setting(findings), totals(findings), String::new(), line(&PHASE_HEADS)]);
    lines.extend(findings.phases.iter().map(|phase| line(&phase_cells(phase))));
    lines.extend([String::new(), verdict(findings), String::new()]);
    lines.extend(wrap(&explain_phases(findings)));
    lines.extend([
        String::new(),
        format!("One object, {} times stat + read + MD5 + set attribute:", findings.repeat),
    ]);
    lines.extend(findings.published.iter().map(published_line));
    lines.push(String::new());
    lines.extend(wrap(PUBLISHED_FORM));
    lines.extend(wrap(&explain_repetitions(findings)));
    lines.join("\n")
}

pub fn verdict(findings: &Findings) -> String {
    if findings.mismatches.is_empty() {
        let objects = findings.phases.first().map_or(0, |load| load.sizes.objects);
        let skipped = match findings.skipped.len() {
            0 => String::new(),
            skipped => format!(" Skipped: {skipped}."),
        };
        return format!(
            "{}: the digests of the storage, the client and md5sum are the same.{skipped}",
            units::count(objects, "object")
        );
    }
    let mut lines = vec![format!("{} digests DIFFER:", findings.mismatches.len())];
    lines.extend(findings.mismatches.iter().map(|mismatch| {
        format!(
            "  {} in_storage={} at_client={} expected={}",
            units::one_line(&mismatch.object),
            mismatch.in_storage,
            mismatch.at_client,
            mismatch.expected
        )
    }));
    lines.join("\n")
}

pub fn gain(client_seconds: f64, storage_seconds: f64) -> String {
    format!("{:.1}×", client_seconds / storage_seconds.max(1e-9))
}

/// The cells of a phase, in the columns of [`PHASE_HEADS`].
pub fn phase_cells(phase: &Phase) -> [String; 7] {
    let crossed = |bytes: Option<u64>| bytes.map_or("-".to_owned(), units::size);
    [
        phase.name.to_owned(),
        format!("{:.2} s", phase.seconds),
        format!("{:.0}", units::per_s(phase.sizes.objects, phase.seconds)),
        format!("{:.1}", units::mib_per_s(phase.sizes.bytes, phase.seconds)),
        phase.round_trips.map_or("-".to_owned(), |count| count.to_string()),
        crossed(phase.sent_bytes),
        crossed(phase.received_bytes),
    ]
}

fn line(cells: &[impl Display; 7]) -> String {
    let [name, time, objects_per_s, mib_per_s, round_trips, sent, received] = cells;
    format!("{name:<22}{time:>10}{objects_per_s:>11}{mib_per_s:>9}{round_trips:>13}{sent:>14}{received:>16}")
}

fn published_line(row: &Published) -> String {
    let storage = row.in_storage.seconds;
    let mut line = format!(
        "{:<12}{:<34}",
        units::size(row.size_bytes),
        format!("in storage {storage:.3} s ({})", units::count(row.calls, "call"))
    );
    for (name, run) in row.at_client() {
        let cell = format!("{name} {:.3} s ({})", run.seconds, gain(run.seconds, storage));
        line.push_str(&format!("{cell:<36}"));
    }
    line.truncate(line.trim_end().len());
    line
}

fn wrap(text: &str) -> Vec<String> {
    const COLUMNS: usize = 100;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
