//! The MD5 of every object of a pool, computed by a class, compared with md5sum on the same files.

use crate::rounds::{Side, run_rounds};
use crate::{MIB, Setting, store};
use bench_harness::process::output;
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Outcome, noise, seconds, start};
use benthic_classes::digest::{Algorithm, client};
use benthic_core::{ObjectId, Pool};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const OBJECT_BYTES: usize = 1 << 20;
const OBJECTS: u64 = 1_024;
/// Files per md5sum process: few enough that all processes end at about the same time.
const FILES_EACH: u64 = 32;
/// Second number of calls in flight; the first is the number of cores.
const MORE_AT_ONCE: usize = 16;
const AIM: Aim = Aim::OfReference(0.9);
const LIST: &str = "list";

type Digests = BTreeMap<String, String>;

pub fn run(setting: &Setting) -> Outcome<Section> {
    let store = store::open(&setting.dir.join("store"))?;
    let pool = store::pool(&*store, "digest")?;
    let count = setting.count(OBJECTS);
    let objects = store::objects("object", count)?;
    let data = Bytes::from(noise(OBJECT_BYTES + 8 * OBJECTS as usize));
    let piece = |index: usize| data.slice(8 * index..8 * index + OBJECT_BYTES);
    store::fill(&*pool, &objects, piece)?;
    store::flush(&*store)?;
    let files = setting.dir.join("files");
    std::fs::create_dir(&files)?;
    for (index, object) in objects.iter().enumerate() {
        std::fs::write(files.join(object.name()), piece(index))?;
    }
    let names: Vec<&str> = objects.iter().map(ObjectId::name).collect();
    std::fs::write(files.join(LIST), names.join("\n"))?;
    let expected = md5sum(&files, setting.cores)?;
    if expected.len() as u64 != count {
        return Err(format!("md5sum hashed {} of {count} files", expected.len()).into());
    }
    let cores = setting.cores;
    let (pool, objects, files) = (&*pool, &objects[..], &files);
    let whole = &|run: &dyn Fn() -> Outcome<Digests>| -> Outcome<f64> {
        let stopwatch = start();
        let digests = run()?;
        let seconds = seconds(stopwatch);
        // Fail on a wrong digest, because the time of a wrong result is meaningless.
        if digests == expected { Ok(seconds) } else { Err("digests differ".into()) }
    };
    let mut sides: Vec<Side<'_>> = Vec::new();
    for at_once in [cores, MORE_AT_ONCE] {
        sides.push(Box::new(move |_| whole(&|| ours(pool, objects, at_once, false))));
        sides.push(Box::new(move |_| whole(&|| md5sum(files, at_once))));
        sides.push(Box::new(move |_| whole(&|| ours(pool, objects, at_once, true))));
    }
    let measured = run_rounds(setting, "digest", (count, OBJECT_BYTES as f64 / MIB), sides)?;
    store.close()?;
    let rows = [cores, MORE_AT_ONCE].into_iter().zip(measured.chunks(3)).flat_map(|(at_once, measured)| {
        let row = |what: &str, ours: &[f64], aim| {
            let what = format!("{what}, {at_once} in flight against {at_once} processes");
            Row::compared(what, "MiB/s", ours, &measured[1], aim)
        };
        [row("hashing only", &measured[0], AIM), row("kept", &measured[2], Aim::None)]
    });
    Ok(Section {
        title: "MD5 of a whole pool",
        note: format!(
            "{count} objects of 1 MiB, all in the page cache, against `xargs -P N -n {FILES_EACH} md5sum` of files with the \
             same bytes, N being what we have in flight; all digests are compared. Hashing only: `digest.compute`. Kept: \
             `digest.md5`, each digest durable as the object's attribute, and read back; md5sum keeps nothing."
        ),
        rows: rows.collect(),
    })
}

fn ours(pool: &dyn Pool, objects: &[ObjectId], in_flight: usize, kept: bool) -> Outcome<Digests> {
    let digests = RefCell::new(Digests::new());
    store::run(objects.len() as u64, in_flight, |index| {
        let (object, digests) = (&objects[index as usize], &digests);
        async move {
            let digest = match kept {
                true => client::store(pool, object, Algorithm::Md5, 1).await?,
                false => client::compute(pool, object, Algorithm::Md5, 1).await?,
            };
            digests.borrow_mut().insert(object.name().to_owned(), digest);
            Ok(())
        }
    })?;
    Ok(digests.into_inner())
}

fn md5sum(files: &Path, processes: usize) -> Outcome<Digests> {
    let mut command = Command::new("xargs");
    command.args(["-a", LIST, "-P", &processes.to_string(), "-n", &FILES_EACH.to_string(), "md5sum"]);
    let lines = String::from_utf8(output(command.current_dir(files))?)?;
    let pairs = lines.lines().filter_map(|line| line.split_once("  "));
    Ok(pairs.map(|(digest, name)| (name.to_owned(), digest.to_owned())).collect())
}
