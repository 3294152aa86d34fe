//! The NBD server, tested with a client that sends raw bytes.

use crate::ram::Ram;
use crate::support::{Client, NAME, Server, export, image, info_data, meta_data, request_bytes};
use benthic_block::Image;
use benthic_block::nbd::{Address, CONNECTIONS_MAX, Exports, Listener, Options, serve};
use benthic_core::ErrorKind;
use benthic_testkit::wait;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const MIB: u64 = 1 << 20;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const WRITE_ZEROES: u16 = 6;
const BLOCK_STATUS: u16 = 7;

const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
const DF: u16 = 4;
const REQ_ONE: u16 = 8;
const FAST_ZERO: u16 = 16;

const EPERM: u32 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const EOVERFLOW: u32 = 75;
const ENOTSUP: u32 = 95;
const ESHUTDOWN: u32 = 108;

const ERR_UNSUP: u32 = 0x8000_0001;
const ERR_INVALID: u32 = 0x8000_0003;
const ERR_UNKNOWN: u32 = 0x8000_0006;
const ERR_TOO_BIG: u32 = 0x8000_0009;

#[track_caller]
pub fn wait_until(condition: impl Fn() -> bool) {
    benthic_testkit::wait::until("the server", condition);
}

#[test]
fn refused_options_do_not_end_the_handshake() {
    let server = Server::start(image(MIB));
    let mut client = Client::connect(&server);
    let error = |replies: Vec<(u32, Vec<u8>)>| replies.last().unwrap().0;
    assert_eq!(error(client.option(5, b"")), ERR_UNSUP, "STARTTLS");
    assert_eq!(error(client.option(12345, b"some data")), ERR_UNSUP);
    assert_eq!(error(client.option(3, b"x")), ERR_INVALID, "LIST with data");
    assert_eq!(error(client.option(8, b"x")), ERR_INVALID, "STRUCTURED_REPLY with data");
    assert_eq!(error(client.option(7, &vec![0; 100_000])), ERR_TOO_BIG);
    assert_eq!(error(client.option(7, b"\xff\xff\xff\xffname")), ERR_INVALID, "false length");
    assert_eq!(error(client.option(7, &info_data("other", &[]))), ERR_UNKNOWN);
    assert_eq!(error(client.option(7, &info_data(&"x".repeat(5000), &[]))), ERR_INVALID);
    let early = client.option(10, &meta_data(NAME, &["base:allocation"]));
    assert_eq!(error(early), ERR_INVALID, "SET_META_CONTEXT before STRUCTURED_REPLY");
    let list = client.option(3, b"");
    assert_eq!(list[0].0, 2);
    assert_eq!(list[0].1[4..], *b"pool/imagea test image");

    let replies = client.option(6, &info_data("", &[1, 2, 3]));
    let infos: Vec<&[u8]> =
        replies.iter().filter(|(kind, _)| *kind == 3).map(|(_, data)| &data[..]).collect();
    assert_eq!(infos[0][..10], [&[0, 0][..], &MIB.to_be_bytes()].concat());
    assert_eq!(infos[1], [0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0]);
    assert_eq!(infos[2], b"\0\x01pool/image");
    assert_eq!(infos[3], b"\0\x02a test image");
    assert_eq!(client.option(2, b""), [(1, vec![])]);
    client.assert_closed();
    server.stop();
}

#[test]
fn export_name_starts_the_transmission() {
    let server = Server::start(image(MIB));
    let mut client = Client::connect(&server);
    client.send_option(1, NAME.len() as u32, NAME.as_bytes());
    assert_eq!(u64::from_be_bytes(client.bytes()), MIB);
    let flags = u16::from_be_bytes(client.bytes());
    assert_eq!(flags, 1 | 4 | 8 | 32 | 64 | 256 | 1024 | 2048);
    client.request(READ, 0, 1, 0, 3);
    assert_eq!((client.simple(), client.data(3)), ((0, 1), vec![0; 3]));

    let mut client = Client::connect(&server);
    client.send_option(1, 5, b"other");
    client.assert_closed();
}

#[test]
fn a_broken_client_loses_its_connection() {
    let server = Server::start(image(MIB));
    let mut client = Client::connect(&server);
    client.0.write_all(&[7; 16]).unwrap();
    client.assert_closed();

    let mut client = Client::go(&server, false);
    client.0.write_all(&[7; 28]).unwrap();
    client.assert_closed();

    let mut client = Client::connect(&server);
    for _ in 0..256 {
        client.option(99, b"");
    }
    client.assert_closed();
    // Others are served.
    Client::go(&server, true);
    server.stop();
}

#[test]
fn requests_are_checked() {
    let server = Server::start(image(MIB));
    for structured in [false, true] {
        let mut client = Client::go(&server, structured);
        let mut check = |command, flags, offset, len, expected: u32| {
            client.request(command, flags, 7, offset, len);
            if command == WRITE {
                client.0.write_all(&vec![1; len as usize]).unwrap();
            }
            let label = format!("command {command} flags {flags} offset {offset} len {len}");
            let found = match structured {
                false => {
                    let (errno, cookie) = client.simple();
                    assert_eq!(cookie, 7, "{label}");
                    if command == READ && errno == 0 {
                        client.data(len as usize);
                    }
                    errno
                }
                true => match &client.chunks().last().unwrap() {
                    (_, 0x8001, 7, data) => u32::from_be_bytes(data[..4].try_into().unwrap()),
                    (_, 0, 7, _) => 0,
                    chunk => panic!("{label}: {chunk:?}"),
                },
            };
            assert_eq!(found, expected, "{label}");
        };
        check(READ, 0, MIB - 1, 1, 0);
        check(READ, 0, MIB, 0, 0);
        check(READ, 0, MIB, 1, EINVAL);
        check(READ, 0, MIB + 1, 0, EINVAL);
        check(READ, 0, u64::MAX, 2, EINVAL);
        check(READ, 0, 0, u32::MAX, EOVERFLOW);
        check(READ, FUA, 0, 1, 0);
        check(READ, DF, 0, 100, if structured { 0 } else { EINVAL });
        check(WRITE, 0, MIB - 2, 2, 0);
        check(WRITE, 0, MIB, 0, 0);
        check(WRITE, 0, MIB - 2, 3, ENOSPC);
        check(WRITE, 0, u64::MAX, 3, ENOSPC);
        check(WRITE, NO_HOLE, 0, 3, EINVAL);
        check(WRITE, 1 << 10, 0, 3, EINVAL);
        check(WRITE, 0, 0, (32 << 20) + 1, EOVERFLOW);
        check(TRIM, 0, 0, MIB as u32, 0);
        check(TRIM, FUA, MIB, 0, 0);
        check(TRIM, 0, 1, MIB as u32, EINVAL);
        check(WRITE_ZEROES, NO_HOLE, 5, 10_000, 0);
        check(WRITE_ZEROES, FAST_ZERO, 5, 10_000, 0);
        check(WRITE_ZEROES, FAST_ZERO | NO_HOLE, 5, 10_000, ENOTSUP);
        check(WRITE_ZEROES, 0, 5, u32::MAX, ENOSPC);
        check(CACHE, 0, 0, MIB as u32, 0);
        check(CACHE, 0, 0, u32::MAX, EINVAL);
        check(FLUSH, 0, 0, 0, 0);
        check(FLUSH, FUA, 0, 0, 0);
        check(FLUSH, 0, 0, 1, EINVAL);
        check(BLOCK_STATUS, 0, 0, 1, EINVAL);
        check(99, 0, 0, 0, EINVAL);
        client.request(DISCONNECT, 0, 1, 0, 0);
        client.assert_closed();
    }
    server.stop();
}

#[test]
fn a_read_only_export_refuses_changes() {
    let server = Server::start(Arc::new(Ram { read_only: true, ..Ram::new(MIB) }));
    let mut client = Client::go(&server, true);
    client.write(0, 1, 0, b"data");
    assert_eq!(client.chunk_error(), EPERM);
    for command in [TRIM, WRITE_ZEROES] {
        client.request(command, 0, 1, 0, 100);
        assert_eq!(client.chunk_error(), EPERM);
    }
    client.request(FLUSH, 0, 1, 0, 0);
    assert_eq!(client.chunks(), [(1, 0, 1, vec![])]);
    server.stop();
}

#[test]
fn errors_of_the_image_have_an_errno_and_a_text() {
    let ram = Arc::new(Ram::new(MIB));
    let server = Server::start(Arc::clone(&ram) as Arc<dyn Image>);
    let mut client = Client::go(&server, true);
    for (kind, errno) in [
        (ErrorKind::Conflict, ESHUTDOWN),
        (ErrorKind::PermissionDenied, EPERM),
        (ErrorKind::InvalidArgument, EINVAL),
        (ErrorKind::LimitExceeded, ENOSPC),
        (ErrorKind::Corrupt, EIO),
    ] {
        *ram.error.lock() = Some(kind);
        client.write(0, 5, 0, b"data");
        let chunks = client.chunks();
        assert_eq!(chunks[0].3[..4], errno.to_be_bytes());
        assert!(chunks[0].3.ends_with(b"the test wants this write to fail"));
    }
    server.stop();
}

#[test]
fn fua_writes_are_durable_and_flushes_flush() {
    let ram = Arc::new(Ram::new(MIB));
    let server = Server::start(Arc::clone(&ram) as Arc<dyn Image>);
    let mut client = Client::go(&server, false);
    client.write(0, 1, 0, b"data");
    client.simple();
    assert_eq!(ram.durable_writes.load(Ordering::SeqCst), 0);
    client.write(FUA, 1, 0, b"data");
    client.simple();
    for command in [TRIM, WRITE_ZEROES] {
        client.request(command, FUA, 1, 0, 100);
        client.simple();
    }
    assert_eq!(ram.durable_writes.load(Ordering::SeqCst), 3);
    assert_eq!(ram.flushes.load(Ordering::SeqCst), 0);
    client.request(FLUSH, 0, 1, 0, 0);
    client.simple();
    assert_eq!(ram.flushes.load(Ordering::SeqCst), 1);
    server.stop();
    assert_eq!(ram.flushes.load(Ordering::SeqCst), 2, "the stop flushes");
}

#[test]
fn reads_show_holes() {
    let server = Server::start(Arc::new(Ram::new(MIB)));
    let mut client = Client::go(&server, true);
    client.write(0, 1, 8192, &[7; 4096]);
    client.chunks();
    client.request(READ, 0, 2, 4096, 1 << 17);
    let chunks = client.chunks();
    let hole = |offset: u64, len: u32| [&offset.to_be_bytes()[..], &len.to_be_bytes()].concat();
    assert_eq!(chunks[0], (0, 2, 2, hole(4096, 4096)));
    assert_eq!(chunks[1], (0, 1, 2, [&8192u64.to_be_bytes()[..], &[7; 4096]].concat()));
    assert_eq!(chunks[2], (0, 2, 2, hole(12288, (1 << 17) - 8192)));
    assert_eq!(chunks[3], (1, 0, 2, vec![]));
    client.request(READ, DF, 3, 4096, 1 << 17);
    let chunks = client.chunks();
    assert_eq!((chunks.len(), chunks[0].1, chunks[0].3.len()), (2, 1, (1 << 17) + 8));
    server.stop();
}

#[test]
fn block_status_has_the_negotiated_contexts() {
    let image = Arc::new(Ram::new(8 << 30));
    futures::executor::block_on(image.create_snapshot("monday")).unwrap();
    let server = Server::start(image);
    let mut client = Client::connect(&server);
    client.option(8, b"");
    let names = |replies: Vec<(u32, Vec<u8>)>| -> Vec<String> {
        let contexts = replies.iter().filter(|(kind, _)| *kind == 4);
        contexts.map(|(_, data)| String::from_utf8(data[4..].to_vec()).unwrap()).collect()
    };
    let all = ["base:allocation", "benthic:snapshot-diff/monday"];
    assert_eq!(names(client.option(9, &meta_data(NAME, &[]))), all);
    assert_eq!(names(client.option(9, &meta_data(NAME, &["benthic:"]))), all[1..]);
    assert_eq!(names(client.option(9, &meta_data(NAME, &["other:"]))), [""; 0]);
    assert_eq!(names(client.option(10, &meta_data(NAME, &["base:allocation", all[1], "x:y"]))), all);
    client.option(7, &info_data(NAME, &[]));

    client.write(0, 1, 4096, &[1; 4096]);
    client.chunks();
    let status = |context: u32, extents: &[(u32, u32)]| {
        let mut data = context.to_be_bytes().to_vec();
        for (len, flags) in extents {
            data.extend([len.to_be_bytes(), flags.to_be_bytes()].concat());
        }
        data
    };
    client.request(BLOCK_STATUS, 0, 2, 0, u32::MAX);
    let rest = u32::MAX - 8192;
    assert_eq!(
        client.chunks(),
        [
            (0, 5, 2, status(0, &[(4096, 3), (4096, 0), (rest, 3)])),
            (0, 5, 2, status(1, &[(4096, 0), (4096, 1), (rest, 0)])),
            (1, 0, 2, vec![]),
        ]
    );
    client.request(BLOCK_STATUS, REQ_ONE, 3, 1, 8000);
    assert_eq!(client.chunks()[0].3, status(0, &[(4095, 3)]));
    client.request(BLOCK_STATUS, 0, 3, 0, 0);
    assert_eq!(client.chunk_error(), EINVAL);
    server.stop();
}

#[test]
fn contexts_of_another_export_do_not_count() {
    let exports = vec![export("pool/other", image(MIB)), export(NAME, image(MIB))];
    let server = Server::start_with(exports, Options::default());
    let mut client = Client::connect(&server);
    client.option(8, b"");
    assert_eq!(client.option(7, &info_data("", &[])).last().unwrap().0, ERR_UNKNOWN);
    client.option(10, &meta_data("pool/other", &["base:allocation"]));
    client.option(7, &info_data(NAME, &[]));
    client.request(BLOCK_STATUS, 0, 3, 0, 512);
    assert_eq!(client.chunk_error(), EINVAL);
    server.stop();
}

#[test]
fn a_disconnect_completes_the_requests_in_flight() {
    let ram = Arc::new(Ram::holding(MIB));
    let server = Server::start(Arc::clone(&ram) as Arc<dyn Image>);
    let mut client = Client::go(&server, false);
    client.write(0, 1, 0, b"abc");
    client.request(DISCONNECT, 0, 0, 0, 0);
    wait_until(|| ram.started_writes.load(Ordering::SeqCst) == 1);
    ram.writes.add_permits(1);
    assert_eq!(client.simple(), (0, 1));
    client.assert_closed();

    let mut client = Client::go(&server, false);
    client.write(0, 1, 3, b"def");
    // A write whose data does not arrive is not done.
    client.0.write_all(&request_bytes(WRITE, 0, 2, 0, 100)).unwrap();
    drop(client);
    wait_until(|| ram.started_writes.load(Ordering::SeqCst) == 2);
    ram.writes.add_permits(10);
    server.stop();
    let data = futures::executor::block_on(ram.read(0, 8)).unwrap();
    assert_eq!(data, &b"abcdef\0\0"[..]);
}

#[test]
fn a_stop_completes_the_accepted_requests() {
    let ram = Arc::new(Ram::holding(MIB));
    let mut server = Server::start(Arc::clone(&ram) as Arc<dyn Image>);
    let mut client = Client::go(&server, false);
    let idle = Client::go(&server, true);
    let negotiating = Client::connect(&server);
    for cookie in 0..10 {
        client.write(0, cookie, cookie, &[cookie as u8 + 1]);
    }
    wait_until(|| ram.started_writes.load(Ordering::SeqCst) == 10);
    server.request_stop();
    idle.assert_closed();
    negotiating.assert_closed();
    client.request(READ, 0, 99, 0, 10);
    ram.writes.add_permits(10);
    let mut cookies: Vec<_> = (0..10).map(|_| client.simple()).collect();
    cookies.sort_unstable();
    assert_eq!(cookies, (0..10).map(|cookie| (0, cookie)).collect::<Vec<_>>());
    client.assert_closed();
    server.stop();
    assert_eq!(ram.flushes.load(Ordering::SeqCst), 1);
}

/// The client is gone and cannot get a reply, but the write is complete before the flush.
#[test]
fn a_stop_waits_for_writes_of_lost_clients() {
    let ram = Arc::new(Ram::holding(64 * MIB));
    let mut server = Server::start(Arc::clone(&ram) as Arc<dyn Image>);
    let mut client = Client::go(&server, false);
    client.write(0, 1, 0, b"abc");
    client.request(READ, 0, 2, 0, 32 << 20);
    wait_until(|| ram.started_writes.load(Ordering::SeqCst) == 1);
    drop(client);
    server.request_stop();
    wait::pause(Duration::from_millis(300));
    assert!(!server.has_ended());
    assert_eq!(ram.flushes.load(Ordering::SeqCst), 0);
    ram.writes.add_permits(1);
    server.stop();
    assert_eq!(futures::executor::block_on(ram.read(0, 3)).unwrap(), &b"abc"[..]);
}

/// A slow image, unlike a slow client, may delay the stop.
#[test]
fn a_stop_sends_late_replies() {
    let ram = Arc::new(Ram::holding(MIB));
    let mut server = Server::start(Arc::clone(&ram) as Arc<dyn Image>);
    let mut client = Client::go(&server, false);
    client.write(0, 1, 0, b"abc");
    wait_until(|| ram.started_writes.load(Ordering::SeqCst) == 1);
    server.request_stop();
    wait::pause(Duration::from_millis(5_500));
    ram.writes.add_permits(1);
    assert_eq!(client.simple(), (0, 1));
    server.stop();
}

#[test]
fn a_client_that_never_reads_blocks_only_itself() {
    let server = Server::start(image(64 * MIB));
    let slow: Vec<_> = (0..4)
        .map(|_| {
            let client = Client::go(&server, false);
            client.0.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
            for cookie in 0..100_000 {
                if (&client.0).write_all(&request_bytes(READ, 0, cookie, 0, 32 << 20)).is_err() {
                    break;
                }
            }
            client
        })
        .collect();
    let mut client = Client::go(&server, false);
    for cookie in 0..10 {
        client.request(READ, 0, cookie, 0, 1 << 20);
        assert_eq!(client.simple(), (0, cookie));
        client.data(1 << 20);
    }
    // The requests of a slow client end once it reads.
    let mut one = slow.into_iter().next().unwrap();
    for _ in 0..3 {
        assert_eq!(one.simple().0, 0);
        one.data(32 << 20);
    }
    drop(one);
    server.stop();
}

#[test]
fn a_client_that_never_reads_does_not_prevent_a_stop() {
    let ram = Arc::new(Ram::new(64 * MIB));
    let server = Server::start(Arc::clone(&ram) as Arc<dyn Image>);
    let mut client = Client::go(&server, false);
    client.request(READ, 0, 1, 0, 32 << 20);
    client.write(0, 2, 0, b"data");
    wait_until(|| ram.started_writes.load(Ordering::SeqCst) == 1);
    server.stop();
}

/// Bytes that are random except for the magic of an option or a request.
#[test]
fn random_messages_do_not_stop_the_server() {
    let server = Server::start(image(MIB));
    let mut state = 1u64;
    let mut random = |len: usize| -> Vec<u8> {
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Small numbers reach more of the server than large ones.
                let byte = (state >> 56) as u8;
                if state >> 40 & 3 == 0 { byte } else { byte & 1 }
            })
            .collect()
    };
    for round in 0..300 {
        let mut client =
            if round % 2 == 0 { Client::connect(&server) } else { Client::go(&server, round % 3 == 0) };
        for _ in 0..20 {
            let magic = if round % 2 == 0 { &b"IHAVEOPT"[..] } else { &[0x25, 0x60, 0x95, 0x13] };
            let message = [magic, &random(if round % 2 == 0 { 3 } else { 1 }), &random(40)].concat();
            if client.0.write_all(&message).is_err() {
                break;
            }
        }
    }
    let mut client = Client::go(&server, false);
    client.request(FLUSH, 0, 1, 0, 0);
    assert_eq!(client.simple(), (0, 1));
    server.stop();
}

#[test]
fn many_connections_are_served_at_once() {
    let server = Server::start(image(MIB));
    let mut clients: Vec<_> = (0..200).map(|_| Client::go(&server, false)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.write(0, 1, number as u64 * 512, &[number as u8; 512]);
    }
    for client in &mut clients {
        assert_eq!(client.simple(), (0, 1));
    }
    for (number, client) in clients.iter_mut().rev().enumerate() {
        client.request(READ, 0, 2, number as u64 * 512, 512);
        assert_eq!(client.simple(), (0, 2));
        assert_eq!(client.data(512), [number as u8; 512]);
    }
    server.stop();
}

#[test]
fn thousands_of_connections_do_not_stop_the_server() {
    let server = Server::start(image(MIB));
    let mut clients: Vec<_> = (0..CONNECTIONS_MAX).map(|_| Client::go(&server, false)).collect();
    for _ in 0..2_000 {
        // Above the limit: the server closes the connection without a greeting.
        let mut refused = UnixStream::connect(server.path()).unwrap();
        assert_eq!(refused.read(&mut [0]).unwrap(), 0);
    }
    for client in [0, CONNECTIONS_MAX - 1] {
        clients[client].request(FLUSH, 0, 1, 0, 0);
        assert_eq!(clients[client].simple(), (0, 1));
    }
    drop(clients);
    wait_until(|| {
        let mut stream = UnixStream::connect(server.path()).unwrap();
        stream.read(&mut [0]).unwrap() == 1
    });
    server.stop();
}

#[test]
fn pipelined_requests_of_one_connection_are_all_answered() {
    let server = Server::start(image(MIB));
    let mut client = Client::go(&server, false);
    let writer = client.0.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for cookie in 0..5_000 {
            (&writer).write_all(&request_bytes(WRITE, 0, cookie, cookie % 100, 1)).unwrap();
            (&writer).write_all(&[1]).unwrap();
        }
    });
    let mut cookies: Vec<_> = (0..5_000).map(|_| client.simple().1).collect();
    sender.join().unwrap();
    cookies.sort_unstable();
    assert!(cookies.into_iter().eq(0..5_000));
    server.stop();
}

#[test]
fn only_a_stale_socket_is_replaced() {
    let server = Server::start(image(MIB));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bind =
        |path| runtime.block_on(Listener::bind(Address::Unix(path))).map(drop).map_err(|error| error.kind());
    assert_eq!(bind(server.path()), Err(ErrorKind::AlreadyExists));
    let file = server.dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert_eq!(bind(file.clone()), Err(ErrorKind::AlreadyExists));
    assert!(file.exists());
    let stale = server.dir.path().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(stale.exists());
    assert_eq!(bind(stale.clone()), Ok(()));
    assert!(!stale.exists());
    server.stop();
}

#[test]
fn tcp_clients_are_served() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(Listener::bind(Address::Tcp(([127, 0, 0, 1], 0).into()))).unwrap();
    let Address::Tcp(address) = *listener.address() else { panic!() };
    let exports = Exports::new(vec![export(NAME, image(MIB))]);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let served = runtime.spawn(serve(listener, exports, Options::default(), async { drop(stopped.await) }));
    let mut greeting = [0; 16];
    std::net::TcpStream::connect(address).unwrap().read_exact(&mut greeting).unwrap();
    assert_eq!(greeting, *b"NBDMAGICIHAVEOPT");
    drop(stop);
    runtime.block_on(served).unwrap().unwrap();
}
