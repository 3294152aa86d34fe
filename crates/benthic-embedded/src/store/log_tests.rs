use super::{FRAME_HEADER_BYTES, Frame, Log, PIECE_BYTES, SEGMENT_HEADER_BYTES, SPARE, segments};
use benthic_core::codec::Encode;
use benthic_core::{ErrorKind, Result};
use std::fs;
use std::path::Path;

fn frame(first_lsn: u64, records: u64) -> Frame {
    let mut frame = Frame::new(first_lsn);
    (0..records).for_each(|i| frame.push(|out| out.put_u64(!(first_lsn + i))));
    frame
}

fn rotate(log: &mut Log, first_lsn: u64) {
    let next = log.next(first_lsn, 0).unwrap().unwrap();
    log.rotate(next, 0).unwrap();
    log.settle().unwrap();
}

/// A log of five frames: 1-2, 3 and 4-6 in one segment, 7 and 8 in the next.
fn five_frames(dir: &Path) {
    Log::create(dir).unwrap();
    let mut log = Log::open(dir, 0, 0, |_, _| Ok(())).unwrap().0;
    for (first, count) in [(1, 2), (3, 1), (4, 3)] {
        log.append(frame(first, count), 0).unwrap();
    }
    rotate(&mut log, 7);
    log.append(frame(7, 1), 0).unwrap();
    log.append(frame(8, 1), 0).unwrap();
}

/// The sequence numbers that replay sees. Each record holds the complement of its own number.
fn replayed(dir: &Path, applied_lsn: u64) -> Result<Vec<u64>> {
    let mut seen = Vec::new();
    Log::open(dir, applied_lsn, 0, |lsn, record| {
        assert_eq!(record.as_ref(), (!lsn).to_le_bytes());
        seen.push(lsn);
        Ok(())
    })?;
    Ok(seen)
}

#[test]
fn replay_returns_all_operations_after_the_applied_position() {
    let dir = tempfile::tempdir().unwrap();
    five_frames(dir.path());
    assert_eq!(replayed(dir.path(), 0).unwrap(), (1..=8).collect::<Vec<_>>());
    assert_eq!(replayed(dir.path(), 4).unwrap(), (5..=8).collect::<Vec<_>>());
    let mut log = Log::open(dir.path(), 0, 0, |_, _| Ok(())).unwrap().0;
    assert_eq!(segments(dir.path()).unwrap().len(), 2, "a segment with needed operations stays");
    log.cut().unwrap();
    assert_eq!(segments(dir.path()).unwrap().len(), 1);
    assert_eq!(replayed(dir.path(), 6).unwrap(), [7, 8]);
    assert_eq!(replayed(dir.path(), 8).unwrap(), Vec::<u64>::new());
    // The key-value store lacks operations that the log no longer contains.
    assert_eq!(replayed(dir.path(), 5).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn an_opened_log_accepts_more_frames() {
    let dir = tempfile::tempdir().unwrap();
    five_frames(dir.path());
    let (mut log, next_lsn) = Log::open(dir.path(), 2, 0, |_, _| Ok(())).unwrap();
    assert_eq!(next_lsn, 9);
    log.append(frame(9, 2), 0).unwrap();
    assert_eq!(replayed(dir.path(), 6).unwrap(), [7, 8, 9, 10]);
}

#[test]
fn a_last_frame_torn_at_any_byte_is_cut() {
    let reference = tempfile::tempdir().unwrap();
    five_frames(reference.path());
    let (_, last) = segments(reference.path()).unwrap().pop().unwrap();
    let whole = fs::read(&last).unwrap();
    let before = whole.len() - FRAME_HEADER_BYTES - 12;
    for cut in before..whole.len() {
        for zeros in [0, 512] {
            let dir = tempfile::tempdir().unwrap();
            five_frames(dir.path());
            let mut torn = whole[..cut].to_vec();
            torn.resize(cut + zeros, 0);
            fs::write(dir.path().join(last.file_name().unwrap()), torn).unwrap();
            assert_eq!(replayed(dir.path(), 0).unwrap(), (1..=7).collect::<Vec<_>>(), "cut at {cut}");
            assert_eq!(replayed(dir.path(), 0).unwrap().len(), 7, "and stays cut");
        }
    }
}

#[test]
fn every_flipped_byte_before_the_last_frame_is_found() {
    let reference = tempfile::tempdir().unwrap();
    five_frames(reference.path());
    for (index, (_, path)) in segments(reference.path()).unwrap().into_iter().enumerate() {
        let whole = fs::read(&path).unwrap();
        let last_frame = whole.len() - FRAME_HEADER_BYTES - 12;
        for at in 0..whole.len() {
            let dir = tempfile::tempdir().unwrap();
            five_frames(dir.path());
            let mut flipped = whole.clone();
            flipped[at] ^= 0x10;
            fs::write(dir.path().join(path.file_name().unwrap()), flipped).unwrap();
            let outcome = replayed(dir.path(), 0);
            if index == 1 && at >= last_frame {
                // A damaged last frame looks like a torn one.
                assert_eq!(outcome.unwrap(), (1..=7).collect::<Vec<_>>(), "flipped at {at}");
            } else {
                assert_eq!(
                    outcome.unwrap_err().kind(),
                    ErrorKind::Corrupt,
                    "segment {index} flipped at {at}"
                );
            }
        }
    }
}

#[test]
fn frames_may_cross_the_pieces_in_which_the_log_is_read() {
    let dir = tempfile::tempdir().unwrap();
    Log::create(dir.path()).unwrap();
    let mut log = Log::open(dir.path(), 0, 0, |_, _| Ok(())).unwrap().0;
    // The header of the second frame crosses the end of a piece.
    let first = PIECE_BYTES - FRAME_HEADER_BYTES - 4 - FRAME_HEADER_BYTES / 2;
    let lengths = [first, 10, 3 * PIECE_BYTES, PIECE_BYTES / 3, PIECE_BYTES, 1];
    for (lsn, len) in (1..).zip(lengths) {
        let mut frame = Frame::new(lsn);
        frame.push(|out| out.resize(out.len() + len, lsn as u8));
        log.append(frame, 0).unwrap();
    }
    drop(log);
    let replayed = || -> Result<Vec<usize>> {
        let mut seen = Vec::new();
        Log::open(dir.path(), 0, 0, |lsn, record| {
            assert!(record.iter().all(|byte| *byte == lsn as u8));
            seen.push(record.len());
            Ok(())
        })?;
        Ok(seen)
    };
    assert_eq!(replayed().unwrap(), lengths);

    let path = segments(dir.path()).unwrap().pop().unwrap().1;
    let whole = fs::read(&path).unwrap();
    let mut at = SEGMENT_HEADER_BYTES;
    for (index, len) in lengths.into_iter().enumerate() {
        at += FRAME_HEADER_BYTES + 4 + len;
        let mut damaged = whole.clone();
        damaged[at - 1] ^= 1;
        fs::write(&path, damaged).unwrap();
        match replayed() {
            Ok(seen) => assert_eq!(seen, lengths[..lengths.len() - 1], "only the last frame looks torn"),
            Err(error) => assert_eq!((error.kind(), index + 1 < lengths.len()), (ErrorKind::Corrupt, true)),
        }
    }
    assert_eq!(at, whole.len());
}

#[test]
fn a_lost_segment_is_found() {
    for lost in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        five_frames(dir.path());
        let (first_lsn, path) = segments(dir.path()).unwrap().swap_remove(lost);
        fs::remove_file(path).unwrap();
        let outcome = replayed(dir.path(), 0);
        if first_lsn == 1 {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Corrupt);
        } else {
            assert_eq!(outcome.unwrap(), (1..=6).collect::<Vec<_>>(), "a lost tail looks like an older log");
        }
    }
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(replayed(dir.path(), 0).unwrap_err().kind(), ErrorKind::Corrupt, "no segment at all");
}

#[test]
fn segments_left_by_a_checkpoint_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    five_frames(dir.path());
    let mut log = Log::open(dir.path(), 0, 0, |_, _| Ok(())).unwrap().0;
    rotate(&mut log, 9);
    log.append(frame(9, 1), 0).unwrap();
    // Removed names become durable in any order: here the first segment still exists and the second
    // does not.
    fs::remove_file(&segments(dir.path()).unwrap()[1].1).unwrap();
    assert_eq!(replayed(dir.path(), 8).unwrap(), [9]);
    assert_eq!(segments(dir.path()).unwrap().len(), 1);
}

#[test]
fn an_unfinished_segment_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    five_frames(dir.path());
    fs::write(dir.path().join(super::UNFINISHED), [0; 7]).unwrap();
    assert_eq!(replayed(dir.path(), 0).unwrap().len(), 8);
}

#[test]
fn data_that_looks_like_a_frame_is_not_replayed() {
    let dir = tempfile::tempdir().unwrap();
    Log::create(dir.path()).unwrap();
    // A frame of another segment, as a client could store it in an object.
    let mut fake = frame(1 << 40, 1);
    fake.seal(1);
    let fake = fake.bytes;
    let mut log = Log::open(dir.path(), 0, 0, |_, _| Ok(())).unwrap().0;
    let mut torn = Frame::new(1);
    torn.push(|out| out.extend_from_slice(&fake));
    log.append(torn, 0).unwrap();
    let path = segments(dir.path()).unwrap().pop().unwrap().1;
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(replayed(dir.path(), 0).unwrap(), Vec::<u64>::new(), "the torn frame is cut");
}

#[test]
fn frames_overwrite_the_zeros_after_them() {
    let dir = tempfile::tempdir().unwrap();
    Log::create(dir.path()).unwrap();
    let allocated_bytes = 4_096;
    let mut log = Log::open(dir.path(), 0, 0, |_, _| Ok(())).unwrap().0;
    let path = segments(dir.path()).unwrap().remove(0).1;
    log.append(frame(1, 1), allocated_bytes).unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().len(),
        allocated_bytes,
        "zeros up to the end of the allocated blocks"
    );
    log.append(frame(2, 3), allocated_bytes).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), allocated_bytes);
    let end_bytes = log.len_bytes;
    drop(log);

    assert_eq!(replayed(dir.path(), 0).unwrap(), [1, 2, 3, 4]);
    let mut log = Log::open(dir.path(), 0, 0, |_, _| Ok(())).unwrap().0;
    assert_eq!((log.len_bytes, log.segment().1), (end_bytes, 0), "zeros are no part of the log");
    log.append(frame(5, 1), allocated_bytes).unwrap();
    rotate(&mut log, 6);
    log.append(frame(6, 1), allocated_bytes).unwrap();
    drop(log);
    assert_eq!(replayed(dir.path(), 0).unwrap(), [1, 2, 3, 4, 5, 6], "nor of a segment that is not the last");
    // A zeroed frame is detected if another frame follows, or if the store was closed after it.
    let mut bytes = fs::read(&path).unwrap();
    bytes[end_bytes as usize..].fill(0);
    fs::write(&path, bytes).unwrap();
    assert_eq!(replayed(dir.path(), 0).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_reused_segment_file_does_not_replay_old_frames() {
    let dir = tempfile::tempdir().unwrap();
    Log::create(dir.path()).unwrap();
    let mut log = Log::open(dir.path(), 0, 0, |_, _| Ok(())).unwrap().0;
    for lsn in 1..=20 {
        log.append(frame(lsn, 1), 0).unwrap();
    }
    rotate(&mut log, 21);
    log.append(frame(21, 1), 0).unwrap();
    log.cut().unwrap();
    let spare_bytes = fs::metadata(dir.path().join(SPARE)).unwrap().len();
    rotate(&mut log, 22);
    assert!(!dir.path().join(SPARE).exists(), "it is in use");
    for lsn in [22, 23, 24] {
        log.append(frame(lsn, 1), 0).unwrap();
    }
    log.cut().unwrap();
    let end_bytes = log.len_bytes as usize;
    drop(log);
    let path = segments(dir.path()).unwrap().pop().unwrap().1;
    let whole = fs::read(&path).unwrap();
    assert_eq!(whole.len() as u64, spare_bytes, "old frames are behind the new ones");
    assert_eq!(replayed(dir.path(), 21).unwrap(), [22, 23, 24]);

    let frame_bytes = (end_bytes - 32) / 3;
    for (at, kind) in [(end_bytes - 1, None), (end_bytes - frame_bytes - 1, Some(ErrorKind::Corrupt))] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&path, damaged).unwrap();
        match replayed(dir.path(), 21) {
            Ok(seen) => assert_eq!((seen, kind), (vec![22, 23], None), "the last frame looks torn"),
            Err(error) => assert_eq!(Some(error.kind()), kind, "one before it was whole"),
        }
    }
    fs::write(&path, &whole).unwrap();
    let mut log = Log::open(dir.path(), 21, 0, |_, _| Ok(())).unwrap().0;
    log.trim().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), end_bytes as u64);
    assert_eq!(segments(dir.path()).unwrap().len(), 1);
    assert!(!dir.path().join(SPARE).exists());
    log.append(frame(25, 1), 0).unwrap();
    assert_eq!(replayed(dir.path(), 21).unwrap(), [22, 23, 24, 25]);
}
