//! Limits: the engine refuses oversized operations before it writes anything, and queues operations
//! above the in-flight limit without blocking a thread.

use crate::support::{OwnPool, block_on, id, kind};
use benthic_core::limits::{OBJECT_BYTES_MAX, OPERATION_BYTES_MAX};
use benthic_core::{ErrorKind, WriteOp};
use futures::FutureExt;
use futures::future::try_join_all;

#[test]
fn operations_over_a_limit_are_refused_before_anything_is_written() {
    let own = OwnPool::new("over");
    let most = bytes::Bytes::from(vec![1_u8; OPERATION_BYTES_MAX as usize + 1]);
    let refused = |object: &str, op: WriteOp| {
        let error = block_on(own.pool.write(&id(object), op)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("pool={}", own.pool.name())), "{error}");
        assert!(text.contains(&format!("object={object}")), "{error}");
    };
    refused("new", WriteOp::new().write_full(most.clone()));
    refused("new", WriteOp::new().set_xattr("a", "1").append(most.clone()));
    refused("new", WriteOp::new().create(true).write(OBJECT_BYTES_MAX, "x"));
    refused("new", WriteOp::new().write(OBJECT_BYTES_MAX - 1, "xx"));
    refused("new", WriteOp::new().create(true).truncate(OBJECT_BYTES_MAX));
    assert_eq!(kind(block_on(own.pool.stat(&id("new")))), Some(ErrorKind::NotFound), "a partial object");

    // Exactly at the limits.
    block_on(own.pool.write_full(&id("o"), most.slice(1..))).unwrap();
    block_on(own.pool.write(&id("o"), WriteOp::new().append(most.slice(1..)))).unwrap();
    let before = block_on(own.pool.stat(&id("o"))).unwrap();
    assert_eq!(before.0.size_bytes, OBJECT_BYTES_MAX);
    // Only the OSD can detect that this exceeds a limit. It applies no step.
    refused("o", WriteOp::new().set_xattr("a", "1").append("x"));
    assert_eq!(block_on(own.pool.stat(&id("o"))).unwrap(), before);
    assert_eq!(kind(block_on(own.pool.get_xattr(&id("o"), "a"))), Some(ErrorKind::NotFound));
}

/// Exceeds the engine's own limit of 256 MiB in flight. All reads complete, and a dropped read
/// frees its space. `outage.rs` checks that the others wait, which requires an OSD that does not
/// answer.
#[test]
fn reads_over_the_in_flight_limit_all_complete() {
    let own = OwnPool::new("bytes");
    let data = bytes::Bytes::from(vec![4_u8; 4 << 20]);
    let objects: Vec<_> = (0..4).map(|index| id(&index.to_string())).collect();
    block_on(try_join_all(objects.iter().map(|object| own.pool.write_full(object, data.clone())))).unwrap();
    // 40 reads of 32 MiB reserve five times the limit.
    let requested = objects.iter().cycle().take(40);
    let mut reads: Vec<_> = requested.map(|object| own.pool.read_range(object, 0, 32 << 20)).collect();
    for read in reads.split_off(20) {
        // The read is dropped while in flight or queued.
        let _ = read.now_or_never();
    }
    let read = block_on(try_join_all(reads)).unwrap();
    assert!(read.iter().all(|found| *found == data));
}
