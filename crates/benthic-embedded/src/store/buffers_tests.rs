use super::{BUFFER_BYTES_MIN, Buffers, IDLE_BYTES_MAX};
use std::sync::Arc;

#[test]
fn a_buffer_is_reused_after_its_last_reader() {
    let buffers = Arc::new(Buffers::default());
    let mut buffer = buffers.take(BUFFER_BYTES_MIN + 10);
    buffer.as_mut().fill(7);
    let first = buffer.freeze();
    let place = first.as_ptr();
    let part = first.slice(5..9);
    drop(first);
    assert_eq!(buffers.idle.lock().len_bytes, 0, "a part of it is in use");
    assert_eq!(part, [7; 4][..]);
    drop(part);
    let shorter = buffers.take(BUFFER_BYTES_MIN).freeze();
    assert_eq!((shorter.as_ptr(), shorter.len()), (place, BUFFER_BYTES_MIN));
    drop(shorter);
    assert_ne!(buffers.take(4 * BUFFER_BYTES_MIN).as_ref().as_ptr(), place, "it is too short");
}

#[test]
fn idle_buffers_take_limited_memory() {
    let buffers = Arc::new(Buffers::default());
    let lengths = [1, BUFFER_BYTES_MIN - 1, BUFFER_BYTES_MIN, IDLE_BYTES_MAX / 3, IDLE_BYTES_MAX + 1];
    let many: Vec<_> = (0..100).map(|index| buffers.take(lengths[index % 5]).freeze()).collect();
    drop(many);
    let idle = buffers.idle.lock();
    assert!(idle.len_bytes <= IDLE_BYTES_MAX && idle.len_bytes > IDLE_BYTES_MAX / 3);
    assert_eq!(idle.len_bytes, idle.buffers.iter().map(Vec::len).sum::<usize>());
    assert!(idle.buffers.iter().all(|buffer| buffer.len() >= BUFFER_BYTES_MIN));
}
