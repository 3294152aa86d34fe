//! The sending side of a connection.
//!
//! The sender writes as much to the socket itself as the socket accepts without blocking, which
//! saves a thread switch. A separate thread writes the rest, so that a slow reader blocks no other
//! work.

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The sending side of a stream. `T` is dropped when its frame is written or discarded.
pub(crate) struct Outbox<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    stream: UnixStream,
    /// The side of the stream to shut down after a write error.
    ends: Shutdown,
    queue: Mutex<OutboxQueue<T>>,
    wake: Condvar,
}

struct OutboxQueue<T> {
    /// Frames, each with the number of bytes already written.
    frames: VecDeque<(Vec<u8>, usize, T)>,
    /// The thread is writing a frame that is no longer in the queue.
    writing: bool,
    /// The outbox was dropped, so no more frames follow.
    closed: bool,
    broken: bool,
}

impl<T: Send + 'static> Outbox<T> {
    /// Starts the writer thread. After the outbox is dropped, the thread writes the remaining
    /// frames and ends. After a write error, the side `ends` of the stream is shut down.
    pub fn start(
        stream: UnixStream,
        ends: Shutdown,
        thread_name: &str,
    ) -> io::Result<(Outbox<T>, JoinHandle<()>)> {
        let queue = OutboxQueue { frames: VecDeque::new(), writing: false, closed: false, broken: false };
        let shared = Arc::new(Shared { stream, ends, queue: Mutex::new(queue), wake: Condvar::new() });
        let writing = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(thread_name.to_owned()).spawn(move || writing.run())?;
        Ok((Outbox { shared }, thread))
    }

    /// Sends a frame after all earlier frames. Frames for a broken stream are discarded.
    pub fn send(&self, frame: Vec<u8>, keep: T) {
        let mut queue = self.shared.queue.lock();
        if queue.broken {
            return;
        }
        let mut written = 0;
        if queue.frames.is_empty() && !queue.writing {
            match send(&self.shared.stream, &frame, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) if sent == frame.len() => return,
                Ok(sent) => written = sent,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return self.shared.break_off(&mut queue),
            }
        }
        queue.frames.push_back((frame, written, keep));
        self.shared.wake.notify_one();
    }
}

impl<T> Drop for Outbox<T> {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.wake.notify_one();
    }
}

impl<T> Shared<T> {
    fn run(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some((frame, written, keep)) = queue.frames.pop_front() {
                queue.writing = true;
                drop(queue);
                let outcome = (&self.stream).write_all(&frame[written..]);
                drop(keep);
                queue = self.queue.lock();
                queue.writing = false;
                if outcome.is_err() {
                    self.break_off(&mut queue);
                }
            } else if queue.closed || queue.broken {
                return;
            } else {
                self.wake.wait(&mut queue);
            }
        }
    }

    fn break_off(&self, queue: &mut OutboxQueue<T>) {
        queue.broken = true;
        queue.frames.clear();
        self.wake.notify_one();
        let _ = self.stream.shutdown(self.ends);
    }
}
