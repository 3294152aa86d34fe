//! Extended headers of NBD: lengths of 64 bits.

use crate::nbd::wait_until;
use crate::ram::Ram;
use crate::support::{Chunk, Client, NAME, Server, image, info_data, meta_data};
use benthic_block::Image;
use benthic_testkit::wait;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const WRITE_ZEROES: u16 = 6;
const BLOCK_STATUS: u16 = 7;

const NO_HOLE: u16 = 2;
const FAST_ZERO: u16 = 16;
const PAYLOAD_LEN: u16 = 32;

const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const EOVERFLOW: u32 = 75;
const ENOTSUP: u32 = 95;

const EXPORT_NAME: u32 = 1;
const GO: u32 = 7;
const STRUCTURED_REPLY: u32 = 8;
const SET_META_CONTEXT: u32 = 10;
const EXTENDED_HEADERS: u32 = 11;

/// A client that has negotiated extended headers.
struct Extended(Client);

impl Extended {
    fn go(server: &Server) -> Extended {
        let mut client = Client::connect(server);
        assert_eq!(client.option(EXTENDED_HEADERS, b""), [(1, vec![])]);
        let contexts = client.option(SET_META_CONTEXT, &meta_data(NAME, &["base:allocation"]));
        assert_eq!(contexts.len(), 2);
        assert_eq!(client.option(GO, &info_data(NAME, &[])).last().unwrap().0, 1);
        Extended(client)
    }

    fn send(&mut self, command: u16, flags: u16, offset: u64, len: u64) {
        let header = [
            &0x21e4_1c71_u32.to_be_bytes()[..],
            &flags.to_be_bytes(),
            &command.to_be_bytes(),
            &7_u64.to_be_bytes(),
            &offset.to_be_bytes(),
            &len.to_be_bytes(),
        ];
        self.0.0.write_all(&header.concat()).unwrap();
    }

    /// Sends a request and its data, and reads the chunks of the reply.
    fn call(&mut self, command: u16, flags: u16, offset: u64, len: u64, data: &[u8]) -> Vec<Chunk> {
        self.send(command, flags, offset, len);
        self.0.0.write_all(data).unwrap();
        let mut chunks = vec![self.chunk(offset)];
        while chunks.last().unwrap().0 != 1 {
            chunks.push(self.chunk(offset));
        }
        chunks
    }

    /// Reads a chunk of the reply to a request at `offset`.
    fn chunk(&mut self, offset: u64) -> Chunk {
        assert_eq!(self.0.bytes(), 0x6e8a_278c_u32.to_be_bytes());
        let (flags, kind) = (u16::from_be_bytes(self.0.bytes()), u16::from_be_bytes(self.0.bytes()));
        let cookie = u64::from_be_bytes(self.0.bytes());
        assert_eq!(u64::from_be_bytes(self.0.bytes()), offset);
        let len = u64::from_be_bytes(self.0.bytes());
        (flags, kind, cookie, self.0.data(usize::try_from(len).unwrap()))
    }

    /// The error of a request, or 0.
    fn errno(&mut self, command: u16, flags: u16, offset: u64, len: u64, data: &[u8]) -> u32 {
        match &self.call(command, flags, offset, len, data).last().unwrap() {
            (1, 0x8001, 7, data) => u32::from_be_bytes(data[..4].try_into().unwrap()),
            (1, 0, 7, _) => 0,
            chunk => panic!("{chunk:?}"),
        }
    }
}

#[test]
fn extended_headers_are_negotiated_once() {
    let server = Server::start(image(MIB));
    let mut client = Client::connect(&server);
    let error = |replies: Vec<(u32, Vec<u8>)>| replies.last().unwrap().0;
    assert_eq!(error(client.option(EXTENDED_HEADERS, b"x")), 0x8000_0003, "with data");
    assert_eq!(client.option(STRUCTURED_REPLY, b""), [(1, vec![])]);
    assert_eq!(client.option(EXTENDED_HEADERS, b""), [(1, vec![])]);
    assert_eq!(error(client.option(EXTENDED_HEADERS, b"")), 0x8000_0003, "again");
    assert_eq!(error(client.option(STRUCTURED_REPLY, b"")), 0x8000_000a, "back to structured replies");
    client.send_option(EXPORT_NAME, NAME.len() as u32, NAME.as_bytes());
    client.assert_closed();
    server.stop();
}

#[test]
fn one_request_covers_a_large_image() {
    const SIZE: u64 = 12 * GIB;
    let server = Server::start(image(SIZE));
    let mut client = Extended::go(&server);
    let status = |extents: &[(u64, u64)]| {
        let mut data = [0_u32.to_be_bytes(), (extents.len() as u32).to_be_bytes()].concat();
        for (len, flags) in extents {
            data.extend([len.to_be_bytes(), flags.to_be_bytes()].concat());
        }
        data
    };
    let done = (1, 0, 7, vec![]);
    let hole = vec![(0, 6, 7, status(&[(SIZE, 3)])), done.clone()];
    assert_eq!(client.call(BLOCK_STATUS, 0, 0, SIZE, b""), hole);

    let at = 9 * GIB;
    assert_eq!(client.errno(WRITE, PAYLOAD_LEN, at, 4096, &[1; 4096]), 0);
    let data = [&at.to_be_bytes()[..], &[1; 4096]].concat();
    assert_eq!(client.call(READ, 0, at, 4096, b""), [(0, 1, 7, data), done.clone()]);
    let extents = status(&[(at, 3), (4 * MIB, 0), (SIZE - at - 4 * MIB, 3)]);
    assert_eq!(client.call(BLOCK_STATUS, 0, 0, SIZE, b""), [(0, 6, 7, extents), done]);

    for command in [TRIM, WRITE_ZEROES] {
        assert_eq!(client.errno(command, 0, 1, SIZE, b""), if command == TRIM { EINVAL } else { ENOSPC });
        assert_eq!(client.errno(WRITE, PAYLOAD_LEN, at, 4096, &[1; 4096]), 0);
        assert_eq!(client.errno(command, 0, 0, SIZE, b""), 0);
        assert_eq!(client.call(BLOCK_STATUS, 0, 0, SIZE, b""), hole);
    }
    // Requests whose time depends on the length of their range have a limit.
    assert_eq!(client.errno(CACHE, 0, 0, SIZE, b""), EOVERFLOW);
    assert_eq!(client.errno(WRITE_ZEROES, NO_HOLE, 0, SIZE, b""), EOVERFLOW);
    assert_eq!(client.errno(WRITE_ZEROES, NO_HOLE | FAST_ZERO, 0, SIZE, b""), ENOTSUP);
    assert_eq!(client.errno(WRITE_ZEROES, NO_HOLE, 0, 8 * MIB, b""), 0);
    assert_eq!(client.errno(READ, 0, 0, 4 * GIB, b""), EOVERFLOW);
    server.stop();
}

/// Its rest keeps its space, which a trim may do.
#[test]
fn a_stop_ends_a_large_trim_early() {
    const SIZE: u64 = 1 << 40;
    let ram = Arc::new(Ram::holding(SIZE));
    let mut server = Server::start(Arc::clone(&ram) as Arc<dyn Image>);
    let (mut client, idle) = (Extended::go(&server), Client::connect(&server));
    client.send(TRIM, 0, 0, SIZE);
    let steps = || ram.started_writes.load(Ordering::SeqCst);
    wait_until(|| steps() == 1);
    server.request_stop();
    idle.assert_closed();
    while !server.has_ended() {
        ram.writes.add_permits(1);
        wait::pause(Duration::from_millis(20));
    }
    assert!(steps() < 10, "{}", steps());
    assert_eq!(client.chunk(0), (1, 0, 7, vec![]));
    server.stop();
}

#[test]
fn block_status_of_a_huge_image_ends_early() {
    let server = Server::start(image(1 << 40));
    let mut client = Extended::go(&server);
    let chunks = client.call(BLOCK_STATUS, 0, 0, 1 << 40, b"");
    let len = u64::from_be_bytes(chunks[0].3[8..16].try_into().unwrap());
    assert!((GIB..1 << 40).contains(&len), "{len}");
    server.stop();
}

/// Only a write has data. Its flag should say so, but QEMU's client does not set it. Data of other
/// requests are skipped.
#[test]
fn only_writes_have_data() {
    let server = Server::start(image(MIB));
    let mut client = Extended::go(&server);
    assert_eq!(client.errno(WRITE, 0, 0, 100, &[7; 100]), 0);
    assert_eq!(client.call(READ, 0, 0, 100, b"")[0].3[8..], [7; 100]);
    for command in [READ, FLUSH, TRIM, WRITE_ZEROES, BLOCK_STATUS, CACHE] {
        assert_eq!(client.errno(command, PAYLOAD_LEN, 0, 100, &[9; 100]), EINVAL, "{command}");
    }
    assert_eq!(client.errno(WRITE, PAYLOAD_LEN, MIB, 100, &[9; 100]), ENOSPC);
    assert_eq!(client.errno(READ, 0, u64::MAX, u64::MAX, b""), EOVERFLOW);
    assert_eq!(client.errno(TRIM, 0, u64::MAX, u64::MAX, b""), EINVAL);
    assert_eq!(client.errno(FLUSH, 0, 0, 0, b""), 0);
    for (flag, len) in [(PAYLOAD_LEN, (32 << 20) + 1), (PAYLOAD_LEN, u64::MAX), (0, (32 << 20) + 1)] {
        let mut client = Extended::go(&server);
        client.send(WRITE, flag, 0, len);
        client.0.assert_closed();
    }
    let mut client = Extended::go(&server);
    client.0.0.write_all(&crate::support::request_bytes(READ, 0, 1, 0, 1)).unwrap();
    client.0.0.write_all(&[0; 4]).unwrap();
    client.0.assert_closed();
    server.stop();
}
