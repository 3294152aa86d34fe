//! Fuzzes the input of block images: bytes of NBD clients, files of changes, and stored headers.

use benthic_block::diff::{Change, DiffReader};
use benthic_block::nbd::{self, Address, Export, Exports, Listener, Options};
use benthic_block::pool::PoolImages;
use benthic_block::{CreateOptions, Geometry, Images, OpenMode};
use benthic_core::{Durability, Environment, ErrorKind, ListRequest, Namespaces, Store, WriteOp, names};
use benthic_embedded::{MemStore, Options as StoreOptions};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

pub type Target = fn(&[u8]);

pub const TARGETS: [(&str, Target); 3] =
    [("image_diff", image_diff), ("image_header", image_header), ("nbd", nbd)];

const SIZE_BYTES: u64 = 100_000;
/// A client's answer to the greeting, and its choice of the export `i`.
const GO: &[u8] = b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x07\0\0\0\x01i\0\0";
/// The same after it has negotiated extended headers.
const EXTENDED_GO: &[u8] = b"\0\0\0\x03IHAVEOPT\0\0\0\x0b\0\0\0\0IHAVEOPT\0\0\0\x07\0\0\0\x07\0\0\0\x01i\0\0";
const TIMEOUT: Duration = Duration::from_secs(20);

/// A file of changes. The records of a valid one stay within the size that it gives.
pub fn image_diff(input: &[u8]) {
    let Ok(mut reader) = DiffReader::open(input) else { return };
    let size_bytes = reader.header().size_bytes;
    loop {
        match reader.next_change() {
            Ok(None) => return,
            Ok(Some(Change::Zero { offset_bytes, len_bytes })) => {
                assert!(offset_bytes + len_bytes <= size_bytes);
            }
            Ok(Some(Change::Write { offset_bytes, len_bytes })) => {
                assert!(offset_bytes + len_bytes <= size_bytes);
                let mut left_bytes = len_bytes;
                while left_bytes > 0 {
                    let Ok(data) = reader.read_data(1 << 16) else { return };
                    assert!(!data.is_empty());
                    left_bytes -= data.len() as u64;
                }
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                return;
            }
        }
    }
}

/// The stored header of an image: any bytes if the first byte is even, and otherwise changes of
/// single bytes of a valid one. The header is refused, or the image is used.
pub fn image_header(input: &[u8]) {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime starts");
    runtime.block_on(async {
        let images = images().await;
        let pool = images.1.open_pool("p").await.expect("the pool exists");
        let namespace = Namespaces::One(names::IMAGES_NAMESPACE.to_owned());
        let request = ListRequest { namespaces: namespace, ..ListRequest::default() };
        let objects = pool.list(request).await.expect("the pool is listed").objects;
        let header = objects.iter().find(|object| object.name().starts_with("header."));
        let header = header.expect("the image has a header");
        let mut bytes = pool.read_range(header, 0, 1 << 20).await.expect("the header is read").to_vec();
        match input.split_first() {
            Some((first, changes)) if first % 2 == 1 => {
                for change in changes.chunks_exact(2) {
                    let at = usize::from(change[0]) % bytes.len();
                    bytes[at] = change[1];
                }
            }
            _ => bytes = input.get(1..).unwrap_or_default().to_vec(),
        }
        pool.write(header, WriteOp::new().write_full(bytes)).await.expect("a valid write succeeds");
        let Ok(image) = images.0.open("i", None, OpenMode::Write).await else { return };
        let end = image.info().size_bytes;
        for at in [0, 5_000, end.saturating_sub(5)] {
            let _ = image.write(at, vec![1; 5].into(), Durability::Buffered).await;
            let _ = image.read(at, 5.min(end - at.min(end))).await;
        }
        let _ = image.create_snapshot("s").await;
        let _ = image.remove_snapshot("s").await;
        let _ = image.resize(1_000).await;
        let _ = image.close().await;
        let _ = images.0.remove("i").await;
    });
}

/// A pool with the image `i`.
async fn images() -> (PoolImages, Arc<dyn Store>) {
    let store: Arc<dyn Store> =
        MemStore::new(StoreOptions::default().with_classes(benthic_classes::registry()));
    store.create_pool("p").await.expect("a pool is created");
    let pool = store.open_pool("p").await.expect("the pool exists");
    let images = PoolImages::new(Arc::clone(&store), pool, Environment::default());
    let options = CreateOptions::new(SIZE_BYTES, Geometry::default());
    images.create("i", options).await.expect("an image is created");
    (images, store)
}

/// A server that runs as long as the process.
struct Server {
    socket: PathBuf,
    _dir: tempfile::TempDir,
    _runtime: Runtime,
}

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a directory is created");
    let socket = dir.path().join("nbd");
    let runtime =
        Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime starts");
    let listener =
        runtime.block_on(Listener::bind(Address::Unix(socket.clone()))).expect("the socket is free");
    let image = runtime.block_on(async {
        images().await.0.open("i", None, OpenMode::Write).await.expect("the image is free")
    });
    let exports = Exports::new(vec![Export::new("i".to_owned(), "an image".to_owned(), image)]);
    runtime.spawn(nbd::serve(listener, exports, Options::default(), std::future::pending()));
    Server { socket, _dir: dir, _runtime: runtime }
});

/// The bytes of a client. The remainder of the first byte divided by 4 selects their meaning: the
/// part after the choice of an export (1), the same with extended headers (3), and otherwise the
/// whole conversation. The server ends the connection, and serves the next client.
pub fn nbd(input: &[u8]) {
    let Some((first, sent)) = input.split_first() else { return };
    let mut client = UnixStream::connect(&SERVER.socket).expect("the server runs");
    client.set_read_timeout(Some(TIMEOUT)).expect("a time is set");
    client.set_write_timeout(Some(TIMEOUT)).expect("a time is set");
    let mut reader = client.try_clone().expect("a descriptor is free");
    let answer = std::thread::spawn(move || {
        let mut answer = Vec::new();
        // The server may reset the connection.
        match reader.read_to_end(&mut answer) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("the server hangs"),
            _ => answer,
        }
    });
    let start = match first % 4 {
        1 => GO,
        3 => EXTENDED_GO,
        _ => &[],
    };
    // Fails once the server has closed the connection.
    let _ = client.write_all(start).and_then(|()| client.write_all(sent));
    let _ = client.shutdown(Shutdown::Write);
    let answer = answer.join().expect("the server answers");
    assert!(answer.starts_with(b"NBDMAGICIHAVEOPT"), "the server does not greet");
}
