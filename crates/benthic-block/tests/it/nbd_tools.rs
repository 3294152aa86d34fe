//! The NBD server, used by other projects' clients.

use crate::support::{Server, image};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const MIB: u64 = 1 << 20;

/// Runs a program, which must succeed, and returns its output.
fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new("timeout")
        .args(["60", program])
        .args(args)
        .output()
        .unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // The status of `timeout` for a program that does not exist.
    assert_ne!(
        output.status.code(),
        Some(127),
        "{program} is missing; install qemu-utils, libnbd-bin, python3-libnbd and fio"
    );
    assert!(
        output.status.success(),
        "{program} {args:?} failed: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Removes spaces, for comparison with JSON that a program indents.
fn compact(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// A file of 64 MiB with data at both ends and in the middle, and holes between.
fn sparse_file(server: &Server) -> PathBuf {
    let path = server.dir.path().join("source");
    let file = fs::File::create(&path).unwrap();
    file.set_len(64 * MIB).unwrap();
    let data: Vec<u8> = (0..3 * MIB).map(|at| (at * 31 % 251) as u8).collect();
    for offset in [0, 20 * MIB + 512, 61 * MIB] {
        std::os::unix::fs::FileExt::write_all_at(&file, &data, offset).unwrap();
    }
    path
}

#[test]
fn nbdinfo_shows_the_export() {
    let server = Server::start(image(64 * MIB));
    let info = compact(&run("nbdinfo", &["--json", &server.uri()]));
    for expected in [
        r#""structured":true"#,
        r#""export-name":"pool/image""#,
        r#""description":"atestimage""#,
        r#""export-size":67108864"#,
        r#""can_multi_conn":true"#,
        r#""can_fast_zero":true"#,
        r#""can_fua":true"#,
        r#""block_size_minimum":1"#,
        r#""block_size_maximum":33554432"#,
        r#""base:allocation""#,
    ] {
        assert!(info.contains(expected), "{expected} is not in {info}");
    }
    let list = run("nbdinfo", &["--list", &format!("nbd+unix://?socket={}", server.path().display())]);
    assert!(list.contains("pool/image"), "{list}");
    let map = compact(&run("nbdinfo", &["--map", "--json", &server.uri()]));
    assert_eq!(map, r#"[{"offset":0,"length":67108864,"type":3,"description":"hole,zero"}]"#);
    server.stop();
}

#[test]
fn nbdcopy_copies_there_and_back() {
    let server = Server::start(image(64 * MIB));
    let source = sparse_file(&server);
    let copy = server.dir.path().join("copy");
    fs::File::create(&copy).unwrap().set_len(64 * MIB).unwrap();
    run("nbdcopy", &["--flush", source.to_str().unwrap(), &server.uri()]);
    run("nbdcopy", &["--connections=4", &server.uri(), copy.to_str().unwrap()]);
    assert!(fs::read(source).unwrap() == fs::read(copy).unwrap());
    server.stop();
}

#[test]
fn qemu_img_converts_compares_and_maps() {
    let server = Server::start(image(64 * MIB));
    let source = sparse_file(&server);
    let (source, uri) = (source.to_str().unwrap(), &server.uri());
    run("qemu-img", &["convert", "-n", "-W", "-m", "8", "-f", "raw", "-O", "raw", source, uri]);
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", source, uri]);
    let map = compact(&run("qemu-img", &["map", "--output=json", uri]));
    assert!(
        map.contains(r#""zero":true,"data":false"#) && map.contains(r#""zero":false,"data":true"#),
        "{map}"
    );
    let back = server.dir.path().join("back");
    run("qemu-img", &["convert", "-O", "qcow2", uri, back.to_str().unwrap()]);
    run("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", source, back.to_str().unwrap()]);
    server.stop();
}

#[test]
fn qemu_io_patterns_hold() {
    let server = Server::start(image(64 * MIB));
    let mut args = vec!["-f", "raw"];
    for command in [
        "write -P 1 0 1M",
        "write -f -P 2 1M 64k",
        "write -P 3 5000 3000",
        "flush",
        "read -P 2 1M 64k",
        "read -P 3 5000 3000",
        "read -P 1 8000 1000",
        "write -z 4k 8k",
        "write -z -u 64k 64k",
        "write -z -f 200000 100",
        "read -P 0 4k 8k",
        "read -P 0 64k 64k",
        "read -P 0 200000 100",
        "read -P 1 200100 100",
        "discard 512k 256k",
        "read -P 0 512k 256k",
        "aio_write -P 7 8M 4M",
        "aio_write -P 8 12M 4M",
        "aio_flush",
        "read -P 7 8M 4M",
        "read -P 8 12M 4M",
    ] {
        args.extend(["-c", command]);
    }
    let uri = server.uri();
    args.push(&uri);
    let output = run("qemu-io", &args);
    assert!(!output.contains("failed"), "{output}");
    server.stop();
}

/// mkfs.btrfs discards 2 TB at once, which QEMU and the kernel pass on as requests of almost 4 GiB.
#[test]
fn python_discards_and_zeroes_huge_ranges() {
    let server = Server::start(image(2 << 40));
    let script = r#"
length = 0xffff_f000
h.pwrite(b"x" * 4096, 1 << 40)
at = (1 << 40) - (1 << 31)
h.trim(length, at)
assert h.pread(4096, 1 << 40) == bytes(4096)
h.pwrite(b"y" * 4096, 1 << 40, nbd.CMD_FLAG_FUA)
h.zero(length, at, nbd.CMD_FLAG_FAST_ZERO)
assert h.pread(4096, 1 << 40) == bytes(4096)
try:
    h.zero(4096, 0, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE)
    assert False
except nbd.Error as error:
    assert error.errno == "ENOTSUP", error
h.zero(4096, 0, nbd.CMD_FLAG_NO_HOLE)
# The image's objects have 4 MiB.
mib = 1 << 20
extents = []
h.block_status(16 * mib, 0, lambda context, offset, entries, error: extents.extend(entries))
assert extents == [4 * mib, 0, 12 * mib, 3], extents
chunks = []
def chunk(data, offset, status, error):
    chunks.append((offset, status))
h.pread_structured(16 * mib, 0, chunk)
assert chunks == [(0, nbd.READ_DATA), (4 * mib, nbd.READ_HOLE)], chunks
h.cache(1 << 20, 0)
h.flush()
"#;
    let connect = format!("h.add_meta_context('base:allocation')\nh.connect_uri('{}')", server.uri());
    // Debian's module is not visible to a Python that is earlier in the path.
    run("/usr/bin/python3", &["-m", "nbd", "-c", &connect, "-c", script]);
    server.stop();
}

#[test]
fn fio_verifies_what_it_wrote() {
    let server = Server::start(image(64 * MIB));
    let uri = format!("--uri={}", server.uri());
    run(
        "fio",
        &[
            "--name=verify",
            "--ioengine=nbd",
            &uri,
            "--rw=randrw",
            "--bsrange=512-128k",
            "--blockalign=512",
            "--size=64m",
            "--io_size=64m",
            "--iodepth=32",
            "--verify=crc32c",
            "--do_verify=1",
            "--verify_state_save=0",
            "--serialize_overlap=1",
        ],
    );
    server.stop();
}

/// A property test with libnbd: requests in flight on two connections, which do not overlap, and
/// then reads, against the same changes of an array. PROPTEST_RNG_SEED sets the seed.
#[test]
fn random_requests_of_libnbd_match_an_array() {
    let server = Server::start(image(8 * MIB));
    let script = r#"
import os, random
seed = int(os.environ.get("PROPTEST_RNG_SEED", random.getrandbits(32)))
print("seed", seed)
rng = random.Random(seed)
size = h.get_size()
expected = bytearray(size)
other = nbd.NBD()
other.set_request_structured_replies(False)
other.connect_uri(URI)
handles = [h, other]

def wait(cookies):
    for handle, cookie in cookies:
        while not handle.aio_command_completed(cookie):
            handle.poll(-1)

for round in range(60):
    edges = sorted({0, size, *(rng.choice([1, 512, 4096]) * rng.randrange(64) + rng.randrange(size // 2**18) * 2**18
                               for _ in range(16))})
    edges = [edge for edge in edges if edge <= size]
    cookies, buffers = [], []
    for start, end in zip(edges, edges[1:]):
        length = min(end - start, rng.choice([1, 700, 4096, 100_000, 2**20]))
        handle = rng.choice(handles)
        fua = rng.choice([0, nbd.CMD_FLAG_FUA])
        kind = rng.choice(["write", "write", "zero", "allocate", "trim"])
        data = rng.randbytes(length) if kind == "write" else bytes(length)
        if kind == "write":
            buffer = nbd.Buffer.from_bytearray(bytearray(data))
            buffers.append(buffer)
            cookie = handle.aio_pwrite(buffer, start, flags=fua)
        elif kind == "trim":
            cookie = handle.aio_trim(length, start, flags=fua)
        else:
            keep = nbd.CMD_FLAG_NO_HOLE if kind == "allocate" else 0
            cookie = handle.aio_zero(length, start, flags=fua | keep)
        cookies.append((handle, cookie))
        expected[start:start + length] = data
    wait(cookies)
    rng.choice(handles).flush()
    for _ in range(8):
        start = rng.randrange(size)
        length = min(size - start, rng.choice([1, 5000, 2**18]))
        assert rng.choice(handles).pread(length, start) == expected[start:start + length], (round, start, length)
for handle in handles:
    assert handle.pread(size, 0) == expected
    handle.shutdown()
"#;
    let uri = server.uri();
    let connect = format!("URI = '{uri}'\nh.connect_uri(URI)");
    run("/usr/bin/python3", &["-m", "nbd", "-c", &connect, "-c", script]);
    server.stop();
}
