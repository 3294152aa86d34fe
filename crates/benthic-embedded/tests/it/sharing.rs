//! Several processes open one directory: one owns it, the others go through its socket.

use crate::support::{block_on, id, noise, open, pool, with_pool};
use benthic_core::{ErrorKind, Store, WriteOp};
use benthic_testkit::wait;
use std::sync::Arc;

#[test]
fn the_second_opener_goes_through_the_socket() {
    let dir = tempfile::tempdir().unwrap();
    let (owner, first) = with_pool(dir.path());
    let client = open(dir.path());
    assert!(owner.is_owner() && !client.is_owner());
    let second = pool(&client);
    let large = noise(1, 64 << 20);
    block_on(second.write_full(&id("large"), large.clone())).unwrap();
    assert!(block_on(first.read_range(&id("large"), 0, 64 << 20)).unwrap() == large);
    assert!(block_on(second.read_range(&id("large"), 0, 64 << 20)).unwrap() == large);
    let error = block_on(second.stat(&id("missing"))).unwrap_err();
    assert_eq!(error.to_string(), block_on(first.stat(&id("missing"))).unwrap_err().to_string());
    assert_eq!(error.op(), "read");
}

#[test]
fn a_client_takes_over_when_the_owner_closes() {
    let dir = tempfile::tempdir().unwrap();
    let (owner, _) = with_pool(dir.path());
    let client = open(dir.path());
    let pool = pool(&client);
    // Writers run throughout and must not notice the change of owner.
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let pool = Arc::clone(&pool);
            std::thread::spawn(move || {
                for round in 0..200_u64 {
                    let object = id(&format!("{writer}/{round}"));
                    let op = WriteOp::new().create(true).write_full(noise(round, 2_000));
                    block_on(pool.write(&object, op)).unwrap();
                }
            })
        })
        .collect();
    wait::pause(std::time::Duration::from_millis(30));
    owner.close().unwrap();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert!(client.is_owner());
    for writer in 0..4 {
        for round in 0..200_u64 {
            let object = id(&format!("{writer}/{round}"));
            assert!(block_on(pool.read_range(&object, 0, 4_000)).unwrap() == noise(round, 2_000));
        }
    }
}

#[test]
fn a_client_survives_two_changes_of_the_owner() {
    let dir = tempfile::tempdir().unwrap();
    let (first, _) = with_pool(dir.path());
    let (second, third) = (open(dir.path()), open(dir.path()));
    let pools = [pool(&second), pool(&third)];
    first.close().unwrap();
    for (index, pool) in pools.iter().enumerate() {
        block_on(pool.write_full(&id(&index.to_string()), "x")).unwrap();
    }
    assert_ne!(second.is_owner(), third.is_owner());
    second.close().unwrap();
    block_on(pools[1].stat(&id("0"))).unwrap();
    assert!(third.is_owner());
}

#[test]
fn a_store_closes_after_its_directory_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = with_pool(dir.path());
    std::fs::remove_dir_all(dir.path()).unwrap();
    let (done, closed) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(store.close().is_err()));
    // The close may fail to write its final state. The test checks only that it returns.
    closed.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
}

#[test]
fn garbage_on_the_socket_does_no_harm() {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    let dir = tempfile::tempdir().unwrap();
    let (_owner, pool) = with_pool(dir.path());
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"BNTHSK02\xff\xff\xff\xff",
        b"BNTHSK02\x09\0\0\0\x01\0\0\0\0\0\0\0\xee",
        b"",
    ] {
        let mut stream = UnixStream::connect(dir.path().join("control.sock")).unwrap();
        stream.write_all(garbage).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    block_on(pool.write_full(&id("o"), "x")).unwrap();
    let error = block_on(pool.stat(&id("missing"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_request_that_is_too_large_is_rejected_through_the_socket() {
    let dir = tempfile::tempdir().unwrap();
    let (_owner, _) = with_pool(dir.path());
    let client = open(dir.path());
    let name = "x".repeat(80 << 20);
    assert_eq!(block_on(client.create_pool(&name)).unwrap_err().kind(), ErrorKind::LimitExceeded);
    let request = benthic_core::ListRequest { prefix: name, ..benthic_core::ListRequest::default() };
    assert_eq!(block_on(pool(&client).list(request)).unwrap_err().kind(), ErrorKind::LimitExceeded);
    block_on(client.list_pools()).unwrap();
}

#[test]
fn a_client_without_a_greeting_does_not_delay_the_close() {
    let dir = tempfile::tempdir().unwrap();
    let (owner, _) = with_pool(dir.path());
    let silent = std::os::unix::net::UnixStream::connect(dir.path().join("control.sock")).unwrap();
    owner.close().unwrap();
    drop(silent);
}

#[test]
fn buffered_writes_are_durable_after_the_owner_closes() {
    let dir = tempfile::tempdir().unwrap();
    let (owner, _) = with_pool(dir.path());
    let client = open(dir.path());
    let pool = pool(&client);
    for round in 0..20_u64 {
        let op = WriteOp::new().write_full(noise(round, 9_000)).buffered();
        block_on(pool.write(&id(&round.to_string()), op)).unwrap();
    }
    owner.close().unwrap();
    block_on(client.flush()).unwrap();
    for round in 0..20_u64 {
        assert!(
            block_on(pool.read_range(&id(&round.to_string()), 0, 10_000)).unwrap() == noise(round, 9_000)
        );
    }
}
