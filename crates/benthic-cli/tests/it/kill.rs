//! Kills the real program with `kill -9` under parallel load. Every acknowledged operation must
//! persist.

use crate::support::Home;
use benthic_core::{ErrorKind, Fetch, ObjectId, Pool, Store, WriteOp};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_testkit::wait;
use futures::executor::block_on;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn rounds(usual: u64) -> u64 {
    if benthic_testkit::seed::is_long() { usual * 30 } else { usual }
}

/// Prints statistics, visible with `--nocapture`.
#[expect(clippy::print_stderr, reason = "a test has no other way to say how much it did")]
fn tell(counts: &str) {
    eprintln!("{counts}");
}

/// A delay within the load, different in every round.
fn moment(round: u64) -> Duration {
    Duration::from_millis(20 + round * 37 % 150)
}

fn content(index: u64) -> Vec<u8> {
    let len = [0, 10, 3_000, 5_000, 70_000, 200_000][index as usize % 6];
    index.to_string().into_bytes().into_iter().cycle().take(len).collect()
}

#[test]
fn every_file_that_was_reported_as_copied_is_there() {
    for round in 0..rounds(6) {
        let home = Home::with_pool();
        let files = 600;
        for index in 0..files {
            home.file(&format!("d/{index}"), content(index));
        }
        let mut copy = home.command(&["--json", "cp", "-r", "--jobs", "8", "d", "p"]);
        let mut copy = copy.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(copy.stdout.take().unwrap()).lines();
        let reader = std::thread::spawn(move || -> Vec<String> { lines.map_while(Result::ok).collect() });
        wait::pause(moment(round));
        copy.kill().unwrap();
        copy.wait().unwrap();
        let lines = reader.join().unwrap();
        let store = EmbeddedStore::open(&home.path("benthic-data"), false, options()).unwrap();
        let pool = block_on(store.open_pool("p")).unwrap();
        for line in &lines {
            // The kill may have truncated the last line.
            let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            let name = line["object"].as_str().unwrap();
            let expected = content(name.parse().unwrap());
            let data = block_on(pool.read_range(&ObjectId::new(name).unwrap(), 0, 1 << 20)).unwrap();
            assert!(data == expected, "round {round}: object {name}");
        }
        check_whole(&store, pool.as_ref());
    }
}

/// A move copies an object and then removes its source. A kill at any time leaves at least one of
/// them complete, and the next run completes the move.
#[test]
fn a_killed_move_loses_nothing_and_can_be_repeated() {
    let mut halfway = 0;
    for round in 0..rounds(6) {
        let home = Home::with_pool();
        let files = 300;
        for index in 0..files {
            home.file(&format!("d/{index}"), content(index));
        }
        home.ok(&["cp", "-r", "d", "p/from"]);
        let args = ["mv", "-r", "--jobs", "8", "p/from", "p/to"];
        let mut moving = home.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait::pause(moment(round));
        moving.kill().unwrap();
        moving.wait().unwrap();
        let check = |is_complete: bool| {
            let store = EmbeddedStore::open(&home.path("benthic-data"), false, options()).unwrap();
            let pool = block_on(store.open_pool("p")).unwrap();
            let mut moved = 0;
            for index in 0..files {
                let read = |prefix: &str| {
                    let object = ObjectId::new(format!("{prefix}/{index}")).unwrap();
                    block_on(pool.read_range(&object, 0, 1 << 20)).ok().map(|data| data.to_vec())
                };
                let (from, to) = (read("from"), read("to"));
                let expected = Some(content(index));
                assert!(
                    from == expected || to == expected && from.is_none(),
                    "round {round}: object {index}"
                );
                assert!(!is_complete || from.is_none(), "round {round}: object {index} was not removed");
                moved += u64::from(from.is_none());
            }
            check_whole(&store, pool.as_ref());
            store.close().unwrap();
            moved
        };
        let moved = check(false);
        halfway += u64::from(moved > 0 && moved < files);
        if moved < files {
            assert!(home.ok(&args).starts_with(&format!("moved {} ", files - moved)), "round {round}");
        }
        check(true);
    }
    tell(&format!("kills in the middle of a move: {halfway}"));
    assert!(halfway > 0, "some kill hit a move");
}

/// Writers in this process use the socket of an owner process, which the test kills repeatedly.
/// Each writer stores growing numbers in its own object, as data, attribute and omap value in one
/// operation.
#[test]
fn writers_through_a_killed_owner_lose_nothing() {
    const WRITERS: u64 = 4;
    let home = Home::with_pool();
    let dir = home.path("benthic-data");
    let mut last: Vec<(u64, u64)> = vec![(0, 0); WRITERS as usize];
    for round in 0..rounds(6) {
        let args =
            ["bench", "write", "p", "--seconds", "600", "--size", "9KiB", "--in-flight", "4", "--keep"];
        let mut owner = home.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while home.ok(&["ls", "p:benthic-bench"]).is_empty() {
            assert!(owner.try_wait().unwrap().is_none(), "round {round}: it runs");
        }
        let store = EmbeddedStore::open(&dir, false, options()).unwrap();
        let pool = block_on(store.open_pool("p")).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (pool, stop) = (Arc::clone(&pool), Arc::clone(&stop));
                let (mut acknowledged, mut tried) = last[writer as usize];
                std::thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        tried += 1;
                        match block_on(pool.write(&object(writer), write(tried))) {
                            Ok(_) => acknowledged = tried,
                            Err(error) => assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}"),
                        }
                    }
                    (acknowledged, tried)
                })
            })
            .collect();
        wait::pause(moment(round));
        owner.kill().unwrap();
        owner.wait().unwrap();
        // Lets some writers continue through the new owner, which is this process.
        wait::pause(Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        for (writer, thread) in writers.into_iter().enumerate() {
            let (acknowledged, tried) = thread.join().unwrap();
            let found = read(pool.as_ref(), writer as u64);
            assert!(
                (acknowledged..=tried).contains(&found),
                "round {round}: {acknowledged} <= {found} <= {tried}"
            );
            last[writer] = (found, tried);
        }
        assert!(store.is_owner(), "round {round}: the client took over");
        check_whole(&store, pool.as_ref());
        store.close().unwrap();
    }
    assert!(last.iter().all(|(acknowledged, _)| *acknowledged > rounds(6)), "the writers wrote: {last:?}");
}

/// Several programs write to one store: one owns it, the others go through its socket. The test
/// kills them at random moments, and the others take over or continue. Every copy that a program
/// reported must be complete.
#[test]
fn owners_and_clients_that_are_killed_together_lose_nothing() {
    const PROGRAMS: usize = 4;
    let (mut kills, mut reported) = (0, 0);
    for round in 0..rounds(4) {
        let home = Home::with_pool();
        for index in 0..300 {
            home.file(&format!("d/{index}"), content(index));
        }
        let mut programs: Vec<_> = (0..PROGRAMS)
            .map(|program| {
                let to = format!("p/{program}");
                let mut copy = home.command(&["--json", "cp", "-r", "--jobs", "4", "d", &to]);
                let mut copy = copy.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
                let lines = BufReader::new(copy.stdout.take().unwrap()).lines();
                let output = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<String>>());
                (copy, output)
            })
            .collect();
        // Kills all but one, in a different order each time, so that the owner dies first, last or
        // in between.
        for victim in 0..PROGRAMS - 1 {
            wait::pause(moment(round * 3 + victim as u64) / 2);
            let victim = (victim + round as usize) % PROGRAMS;
            programs[victim].0.kill().unwrap();
            programs[victim].0.wait().unwrap();
            kills += 1;
        }
        let last = (PROGRAMS - 1 + round as usize) % PROGRAMS;
        let mut survivor = programs[last].0.stderr.take().unwrap();
        let mut complaints = String::new();
        survivor.read_to_string(&mut complaints).unwrap();
        let status = programs[last].0.wait().unwrap();
        // A write whose owner died before it answered is reported as `outcome_unknown`. No other
        // failure is allowed.
        let expected = status.success() || complaints.contains("outcome_unknown");
        assert!(expected, "round {round}: {status}: {complaints}");
        let store = EmbeddedStore::open(&home.path("benthic-data"), false, options()).unwrap();
        let pool = block_on(store.open_pool("p")).unwrap();
        for (_, output) in programs {
            for line in output.join().unwrap() {
                // The kill may have truncated the last line. Failures are lines too.
                let Ok(line) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
                let Some(name) = line["object"].as_str().filter(|_| line["error"].is_null()) else {
                    continue;
                };
                let index = name.rsplit('/').next().unwrap().parse().unwrap();
                let data = block_on(pool.read_range(&ObjectId::new(name).unwrap(), 0, 1 << 20)).unwrap();
                assert!(data == content(index), "round {round}: object {name}");
                reported += 1;
            }
        }
        check_whole(&store, pool.as_ref());
        store.close().unwrap();
    }
    tell(&format!("kills={kills} reported={reported}"));
    assert!(reported > 100 * rounds(4), "they copied: reported={reported}");
}

/// A flush never succeeds if a killed owner lost buffered writes.
#[test]
fn a_flush_reports_buffered_writes_that_a_killed_owner_lost() {
    let home = Home::with_pool();
    let (mut failures, mut lost) = (0, 0);
    for round in 0..rounds(4) {
        let args =
            ["bench", "write", "p", "--seconds", "600", "--size", "1KiB", "--buffered", "--in-flight", "1"];
        let mut owner = home.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while home.ok(&["ls", "p:benthic-bench"]).is_empty() {
            assert!(owner.try_wait().unwrap().is_none(), "round {round}: it runs");
        }
        let store = EmbeddedStore::open(&home.path("benthic-data"), false, options()).unwrap();
        let pool = block_on(store.open_pool("p")).unwrap();
        let object = |index: u64| ObjectId::new(format!("{round}/{index}")).unwrap();
        let buffered = |index| block_on(pool.write(&object(index), WriteOp::new().create(true).buffered()));
        for index in 0..50 {
            buffered(index).unwrap();
        }
        owner.kill().unwrap();
        owner.wait().unwrap();
        let flushed = block_on(store.flush());
        let there = (0..50).filter(|index| block_on(pool.stat(&object(*index))).is_ok()).count();
        match flushed {
            Ok(()) => assert_eq!(there, 50, "round {round}: lost without a word"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
                failures += 1;
                lost += 50 - there;
            }
        }
        // The loss is reported once. After that, the store works.
        buffered(100).unwrap();
        block_on(store.flush()).unwrap();
        store.close().unwrap();
    }
    assert!(failures > 0, "some round killed the owner before the flush: lost={lost}");
}

fn options() -> Options {
    Options::default().with_classes(benthic_classes::registry())
}

fn object(writer: u64) -> ObjectId {
    ObjectId::new(format!("writer {writer}")).unwrap()
}

fn write(number: u64) -> WriteOp {
    // Some values are large enough to be written to the data file instead of the log.
    let len = if number.is_multiple_of(16) { 90_000 } else { 600 };
    WriteOp::new()
        .write_full(number.to_le_bytes().into_iter().cycle().take(len).collect::<Vec<u8>>())
        .set_xattr("number", number.to_le_bytes().to_vec())
        .omap_set([("number", number.to_le_bytes().to_vec())])
}

/// Reads the number in a writer's object and checks that data, attribute and omap agree, so no
/// operation is torn.
fn read(pool: &dyn Pool, writer: u64) -> u64 {
    let whole = Fetch::get_xattr("number").and(Fetch::read(0, 1 << 20)).and(Fetch::omap_get(["number"]));
    let (((number, data), page), _) = match block_on(pool.fetch(&object(writer), whole)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return 0,
        found => found.unwrap(),
    };
    let number = u64::from_le_bytes(number.as_ref().try_into().unwrap());
    let len = if number.is_multiple_of(16) { 90_000 } else { 600 };
    let expected: Vec<u8> = number.to_le_bytes().into_iter().cycle().take(len).collect();
    assert!(data == expected, "writer {writer}: data of {number}");
    assert_eq!(page.entries, [("number".into(), number.to_le_bytes().to_vec().into())]);
    number
}

fn check_whole(store: &EmbeddedStore, pool: &dyn Pool) {
    assert_eq!(block_on(store.fsck()).unwrap().findings, []);
    let mut after = None;
    loop {
        let page = block_on(pool.scrub(after)).unwrap();
        assert_eq!(page.damage, []);
        after = page.next;
        if after.is_none() {
            return;
        }
    }
}
