//! What is too large or too many: refused before anything is written, or made to wait without a thread.

use crate::support::{OwnPool, block_on, id, kind};
use benthic_core::limits::{OBJECT_BYTES_MAX, OPERATION_BYTES_MAX};
use benthic_core::{ErrorKind, WriteOp};
use futures::FutureExt;
use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};

#[test]
fn what_is_over_a_limit_is_refused_before_anything_is_written() {
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
    // Only the OSD knows that this is over: it applies none of it.
    refused("o", WriteOp::new().set_xattr("a", "1").append("x"));
    assert_eq!(block_on(own.pool.stat(&id("o"))).unwrap(), before);
    assert_eq!(kind(block_on(own.pool.get_xattr(&id("o"), "a"))), Some(ErrorKind::NotFound));
}

/// librados blocks the thread that sends at 1,024 operations or 100 MiB; a single thread would never go on.
#[test]
fn a_thousand_operations_are_kept_in_flight() {
    let own = OwnPool::new("thousand");
    let data = bytes::Bytes::from(vec![3_u8; 64 << 10]);
    let objects: Vec<_> = (0..3_000).map(|index| id(&format!("{}", index % 500))).collect();
    let writes = stream::iter(&objects).map(|object| own.pool.write_full(object, data.clone()));
    block_on(writes.buffer_unordered(1_000).try_for_each(|_| std::future::ready(Ok(())))).unwrap();
    let reads = stream::iter(&objects).map(|object| own.pool.read_range(object, 0, 1 << 20));
    let read = block_on(reads.buffer_unordered(1_000).try_collect::<Vec<_>>()).unwrap();
    assert!(read.len() == objects.len() && read.iter().all(|found| *found == data));
}

/// Over the engine's own limit of 256 MiB in flight: the rest waits its turn, and a dropped one leaves its place.
#[test]
fn more_bytes_than_may_be_in_flight_wait() {
    let own = OwnPool::new("bytes");
    let data = bytes::Bytes::from(vec![4_u8; 4 << 20]);
    let objects: Vec<_> = (0..4).map(|index| id(&index.to_string())).collect();
    block_on(try_join_all(objects.iter().map(|object| own.pool.write_full(object, data.clone())))).unwrap();
    let asked = objects.iter().cycle().take(40);
    // 40 times room for 32 MiB is five times what fits.
    let reads: Vec<_> = asked.map(|object| Box::pin(own.pool.read_range(object, 0, 32 << 20))).collect();
    let (kept, dropped): (Vec<_>, Vec<_>) =
        reads.into_iter().enumerate().partition(|(index, _)| index % 2 == 0);
    for (index, read) in dropped {
        assert!(read.now_or_never().is_none(), "read {index} was answered at once");
    }
    let read = block_on(try_join_all(kept.into_iter().map(|(_, read)| read))).unwrap();
    assert!(read.iter().all(|found| *found == data));
}
