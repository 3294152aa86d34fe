//! A slow line to a server: a TCP proxy that limits the rate of each direction and delays it.
//!
//! The line loses nothing and has no slow start, so large answers take no longer than their bytes.

use bench_harness::Outcome;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::channel;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep_until};

pub const MBIT_PER_S: u32 = 100;
pub const ROUND_TRIP_MS: u32 = 10;
const PIECE_BYTES: usize = 16 << 10;
/// An idle line may send this much of its time later. Timers can be late by a millisecond, and the
/// rate must not suffer from that.
const BURST: Duration = Duration::from_millis(5);

/// Opens a line to a server and returns the address of its near end.
pub async fn open(target: &str) -> Outcome<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (host, target) = (listener.local_addr()?.to_string(), target.to_owned());
    let now = Instant::now();
    let [up, down] = [(); 2].map(|()| Rc::new(Cell::new(now)));
    spawn_local(async move {
        while let Ok((near, _)) = listener.accept().await {
            let Ok(far) = TcpStream::connect(&target).await else { continue };
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            let (from_near, to_near) = near.into_split();
            let (from_far, to_far) = far.into_split();
            spawn_local(carry(from_near, to_far, Rc::clone(&up)));
            spawn_local(carry(from_far, to_near, Rc::clone(&down)));
        }
    });
    Ok(host)
}

/// Carries bytes in one direction until the sender ends. `free_at` is the time at which all bytes
/// are on the line that it has accepted.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, free_at: Rc<Cell<Instant>>) {
    let (sender, mut pieces) = channel::<(Instant, Vec<u8>)>(1_000);
    let delay = Duration::from_secs_f64(f64::from(ROUND_TRIP_MS) / 2e3);
    let reads = async move {
        let mut buffer = vec![0; PIECE_BYTES];
        while let Ok(len) = from.read(&mut buffer).await
            && len > 0
        {
            let now = Instant::now();
            let begin = free_at.get().max(now - BURST);
            let sent = begin + Duration::from_secs_f64(len as f64 * 8.0 / (f64::from(MBIT_PER_S) * 1e6));
            free_at.set(sent);
            // The burst makes no piece arrive before its time on the line.
            if sender.send((sent.max(now) + delay, buffer[..len].to_vec())).await.is_err() {
                break;
            }
            sleep_until(sent).await;
        }
    };
    let writes = async move {
        while let Some((due, piece)) = pieces.recv().await {
            sleep_until(due).await;
            if to.write_all(&piece).await.is_err() {
                break;
            }
        }
    };
    tokio::join!(reads, writes);
}
