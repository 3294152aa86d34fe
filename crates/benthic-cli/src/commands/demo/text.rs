//! The results as text: the tables on the terminal, and the sentences that the HTML report also
//! has.

use super::Findings;
use super::phases::Phase;
use super::published::Published;
use benthic_program::units;
use std::fmt::Display;

pub const PHASE_HEADS: [&str; 8] =
    ["", "objects", "bytes", "time", "objects/s", "MiB/s", "to the store", "from the store"];

pub fn setting(findings: &Findings) -> String {
    format!(
        "store {}, pool {}, {} jobs, one round trip to the store {:.2} ms",
        findings.store, findings.pool, findings.jobs, findings.round_trip_ms
    )
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
        the digests at the client transferred {}, {} times as much. (This counts payload: data, attributes, and input \
        and output of methods.) The OSDs also stored every digest, replicated, as an attribute; the client stored \
        nothing. If the OSDs and the client share one machine, its cores do all the work and there is no real \
        network, so the rates say little.",
        units::size(in_storage),
        units::size(at_client),
        at_client / in_storage.max(1)
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
    let mut lines = vec![setting(findings), String::new(), line(&PHASE_HEADS)];
    lines.extend(findings.phases.iter().map(|phase| line(&phase_cells(phase))));
    lines.extend([String::new(), verdict(findings), String::new()]);
    lines.extend(wrap(&explain_phases(findings)));
    lines.extend([
        String::new(),
        format!("One object, {} times stat + read + MD5 + set attribute:", findings.repeat),
    ]);
    lines.extend(findings.published.iter().map(published_line));
    lines.push(String::new());
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
    format!("{:.1}x", client_seconds / storage_seconds.max(1e-9))
}

/// The cells of a phase, in the columns of [`PHASE_HEADS`].
pub fn phase_cells(phase: &Phase) -> [String; 8] {
    let crossed = |bytes: Option<u64>| bytes.map_or("-".to_owned(), units::size);
    [
        phase.name.to_owned(),
        phase.sizes.objects.to_string(),
        units::size(phase.sizes.bytes),
        format!("{:.2} s", phase.seconds),
        format!("{:.0}", units::per_s(phase.sizes.objects, phase.seconds)),
        format!("{:.1}", units::mib_per_s(phase.sizes.bytes, phase.seconds)),
        crossed(phase.sent_bytes),
        crossed(phase.received_bytes),
    ]
}

fn line(cells: &[impl Display; 8]) -> String {
    let [name, objects, bytes, time, objects_per_s, mib_per_s, sent, received] = cells;
    format!(
        "{name:<22}{objects:>9}{bytes:>12}{time:>10}{objects_per_s:>11}{mib_per_s:>9}{sent:>14}{received:>16}"
    )
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
