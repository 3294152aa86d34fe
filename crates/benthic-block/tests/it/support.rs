//! A server in a thread, and a client that sends raw bytes.

use benthic_block::Image;
use benthic_block::nbd::{Address, Export, Exports, Listener, Metrics, Options, serve};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::oneshot;

pub const NAME: &str = "pool/image";

/// The image of most tests.
pub fn image(size_bytes: u64) -> Arc<dyn Image> {
    crate::memory_image(size_bytes)
}

pub fn export(name: &str, image: Arc<dyn Image>) -> Export {
    Export::new(name.to_owned(), "a test image".to_owned(), image)
}

pub struct Server {
    pub dir: TempDir,
    pub metrics: Metrics,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<benthic_core::Result<()>>>,
}

impl Server {
    pub fn start(image: Arc<dyn Image>) -> Server {
        Server::start_with(vec![export(NAME, image)], Options::default())
    }

    pub fn start_with(exports: Vec<Export>, options: Options) -> Server {
        let exports = Exports::new(exports);
        let metrics = exports.metrics();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nbd");
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = Listener::bind(Address::Unix(path)).await.unwrap();
                ready.send(()).unwrap();
                serve(listener, exports, options, async { drop(stopped.await) }).await
            })
        });
        is_ready.recv().unwrap();
        Server { dir, metrics, stop: Some(stop), thread: Some(thread) }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("nbd")
    }

    pub fn uri(&self) -> String {
        format!("nbd+unix:///{NAME}?socket={}", self.path().display())
    }

    pub fn request_stop(&mut self) {
        drop(self.stop.take());
    }

    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().unwrap().is_finished()
    }

    /// Stops the server, and waits until it has ended.
    pub fn stop(mut self) {
        self.request_stop();
        self.thread.take().unwrap().join().unwrap().unwrap();
        assert!(!self.path().exists());
    }
}

pub struct Client(pub UnixStream);

/// A chunk of a structured reply: flags, type, cookie, data.
pub type Chunk = (u16, u16, u64, Vec<u8>);

impl Client {
    /// Connects, and reads the greeting.
    pub fn connect(server: &Server) -> Client {
        let stream = UnixStream::connect(server.path()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut client = Client(stream);
        assert_eq!(client.bytes::<18>(), *b"NBDMAGICIHAVEOPT\0\x03");
        client.0.write_all(&3u32.to_be_bytes()).unwrap();
        client
    }

    /// Connects to the export [`NAME`].
    pub fn go(server: &Server, structured: bool) -> Client {
        let mut client = Client::connect(server);
        if structured {
            assert_eq!(client.option(8, b""), [(1, vec![])]);
        }
        client.start(NAME)
    }

    /// Connects to an export, without structured replies.
    pub fn go_to(server: &Server, export: &str) -> Client {
        Client::connect(server).start(export)
    }

    fn start(mut self, export: &str) -> Client {
        let replies = self.option(7, &info_data(export, &[]));
        assert_eq!(replies.last().unwrap().0, 1);
        self
    }

    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub fn data(&mut self, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        self.0.read_exact(&mut data).unwrap();
        data
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes())
    }

    /// Sends an option; returns its replies up to the last, as type and data.
    pub fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send_option(option, data.len() as u32, data);
        self.option_replies(option)
    }

    pub fn send_option(&mut self, option: u32, len: u32, data: &[u8]) {
        let header = [b"IHAVEOPT", &option.to_be_bytes()[..], &len.to_be_bytes()].concat();
        self.0.write_all(&header).unwrap();
        self.0.write_all(data).unwrap();
    }

    pub fn option_replies(&mut self, option: u32) -> Vec<(u32, Vec<u8>)> {
        let mut replies = Vec::new();
        loop {
            assert_eq!(u64::from_be_bytes(self.bytes()), 0x3e889045565a9);
            assert_eq!(self.u32(), option);
            let kind = self.u32();
            let len = self.u32() as usize;
            replies.push((kind, self.data(len)));
            if kind == 1 || kind >> 31 == 1 {
                return replies;
            }
        }
    }

    pub fn request(&mut self, command: u16, flags: u16, cookie: u64, offset: u64, len: u32) {
        self.0.write_all(&request_bytes(command, flags, cookie, offset, len)).unwrap();
    }

    pub fn write(&mut self, flags: u16, cookie: u64, offset: u64, data: &[u8]) {
        self.request(1, flags, cookie, offset, data.len() as u32);
        self.0.write_all(data).unwrap();
    }

    /// Reads a simple reply: error and cookie.
    pub fn simple(&mut self) -> (u32, u64) {
        assert_eq!(self.u32(), 0x67446698);
        (self.u32(), u64::from_be_bytes(self.bytes()))
    }

    /// Reads the chunks of one structured reply.
    pub fn chunks(&mut self) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        loop {
            assert_eq!(self.u32(), 0x668e33ef);
            let flags = u16::from_be_bytes(self.bytes());
            let kind = u16::from_be_bytes(self.bytes());
            let cookie = u64::from_be_bytes(self.bytes());
            let len = self.u32() as usize;
            chunks.push((flags, kind, cookie, self.data(len)));
            if flags & 1 == 1 {
                return chunks;
            }
        }
    }

    /// The error of a structured reply that is only an error.
    pub fn chunk_error(&mut self) -> u32 {
        let chunks = self.chunks();
        assert_eq!((chunks.len(), chunks[0].1), (1, 0x8001));
        u32::from_be_bytes(chunks[0].3[..4].try_into().unwrap())
    }

    /// Asserts that the server closes the connection without a further byte.
    pub fn assert_closed(mut self) {
        match self.0.read(&mut [0]) {
            Ok(0) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            other => panic!("the server did not close the connection: {other:?}"),
        }
    }
}

pub fn request_bytes(command: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    [
        &0x25609513u32.to_be_bytes()[..],
        &flags.to_be_bytes(),
        &command.to_be_bytes(),
        &cookie.to_be_bytes(),
        &offset.to_be_bytes(),
        &len.to_be_bytes(),
    ]
    .concat()
}

/// The data of INFO and GO.
pub fn info_data(name: &str, items: &[u16]) -> Vec<u8> {
    let mut data = [&(name.len() as u32).to_be_bytes()[..], name.as_bytes()].concat();
    data.extend((items.len() as u16).to_be_bytes());
    items.iter().for_each(|item| data.extend(item.to_be_bytes()));
    data
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
pub fn meta_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let string = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
    let mut data = string(name);
    data.extend((queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| data.extend(string(query)));
    data
}
