//! The line to an upstream: a TCP proxy that delays, counts and breaks.

use super::far::RUNTIME;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub struct Proxy {
    pub address: String,
    target: String,
    state: Arc<State>,
    listening: Mutex<Option<JoinHandle<()>>>,
}

struct State {
    /// One way.
    delay_ms: AtomicU64,
    broken: watch::Sender<u64>,
}

impl Proxy {
    pub fn to(target: &str) -> Proxy {
        let state = Arc::new(State { delay_ms: AtomicU64::new(0), broken: watch::Sender::new(0) });
        let listener = RUNTIME.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let listening = RUNTIME.spawn(Proxy::listen(listener, target.to_owned(), Arc::clone(&state)));
        Proxy { address, target: target.to_owned(), state, listening: Mutex::new(Some(listening)) }
    }

    async fn listen(listener: TcpListener, target: String, state: Arc<State>) {
        loop {
            let (near, _) = listener.accept().await.unwrap();
            let far = TcpStream::connect(&target).await.unwrap();
            near.set_nodelay(true).unwrap();
            far.set_nodelay(true).unwrap();
            let (from_near, to_near) = near.into_split();
            let (from_far, to_far) = far.into_split();
            for (mut from, mut to) in [(from_near, to_far), (from_far, to_near)] {
                let (delays, mut broken) = (Arc::clone(&state), state.broken.subscribe());
                let (sender, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(10_000);
                let reads = async move {
                    let mut buffer = vec![0; 64 << 10];
                    loop {
                        let len = from.read(&mut buffer).await.unwrap_or(0);
                        let due = Instant::now() + Duration::from_millis(delays.delay_ms.load(Relaxed));
                        if len == 0 || sender.send((due, buffer[..len].to_vec())).await.is_err() {
                            break;
                        }
                    }
                };
                let writes = async move {
                    while let Some((due, piece)) = pieces.recv().await {
                        tokio::time::sleep_until(due).await;
                        if to.write_all(&piece).await.is_err() {
                            break;
                        }
                    }
                };
                tokio::spawn(async move {
                    tokio::select! {
                        _ = async { tokio::join!(reads, writes) } => {}
                        _ = broken.changed() => {}
                    }
                });
            }
        }
    }

    /// Delays everything from now on, half of it in each direction.
    pub fn set_round_trip(&self, ms: u64) {
        self.state.delay_ms.store(ms / 2, Relaxed);
    }

    /// Breaks the line or repairs it. On a broken line, connections are refused.
    pub fn set_up(&self, is_up: bool) {
        let mut listening = self.listening.lock().unwrap();
        if let Some(task) = listening.take() {
            task.abort();
            let _ = RUNTIME.block_on(task);
        }
        if is_up {
            let listener = RUNTIME.block_on(TcpListener::bind(&self.address)).unwrap();
            let task = Proxy::listen(listener, self.target.clone(), Arc::clone(&self.state));
            *listening = Some(RUNTIME.spawn(task));
        } else {
            self.state.broken.send_modify(|count| *count += 1);
        }
    }
}
