//! Postgres' wire protocol: a listener, and a task for each connection.

mod connection;
mod control;
mod copy;
mod cursors;
mod encode;
mod messages;
mod parameters;
mod portals;
mod scram;
mod session;
mod startup;
pub(crate) mod types;

use crate::users::Users;
use benthic_core::{Environment, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

pub(crate) use control::{SessionSettings, VERSION};

/// Time that a client has for encryption and the login.
const LOGIN_TIME: Duration = Duration::from_secs(30);
/// Time that running queries have when the server stops.
const STOP_TIME: Duration = Duration::from_secs(8);
/// Pause after a connection could not be accepted, most likely because the process has no free
/// file descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server of Postgres' protocol.
pub struct PostgresServer {
    users: Arc<Users>,
    tls: Option<TlsAcceptor>,
    environment: Environment,
    /// The running connections, by the number that clients take for a process.
    connections: Mutex<HashMap<i32, (i32, Arc<Notify>)>>,
    last: AtomicI32,
}

impl PostgresServer {
    /// A server for these users. With `tls`, it takes only encrypted connections.
    pub fn new(users: Arc<Users>, tls: Option<TlsAcceptor>, environment: Environment) -> PostgresServer {
        PostgresServer { users, tls, environment, connections: Mutex::default(), last: AtomicI32::new(0) }
    }

    /// Serves clients until `stop` becomes true. Then running queries have a few seconds to end.
    pub async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        connections_max: u32,
        stop: watch::Receiver<bool>,
    ) {
        let slots = Arc::new(Semaphore::new(connections_max as usize));
        let mut stopped = stop.clone();
        let accept = async {
            loop {
                let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
                let Ok((stream, _)) = listener.accept().await else {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                };
                let (server, stop) = (Arc::clone(&self), stop.clone());
                tokio::spawn(async move {
                    // Small messages must not wait for each other. A client without power must not
                    // keep its connection. Neither is needed for correctness.
                    let _ = stream.set_nodelay(true);
                    let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
                    let started = timeout(LOGIN_TIME, startup::start(&server, stream)).await;
                    if let Ok(Some(logged_in)) = started {
                        connection::Connection::new(logged_in).run(stop).await;
                    }
                    drop(slot);
                });
            }
        };
        tokio::select! {
            () = accept => {}
            _ = stopped.wait_for(|stop| *stop) => {}
        }
        drop(listener);
        let _ = timeout(STOP_TIME, slots.acquire_many(connections_max)).await;
    }

    /// Cancels the query of a connection, if it runs one. The secret must be that of the
    /// connection.
    fn cancel(&self, process: i32, secret: i32) {
        if let Some((known, running)) = self.connections.lock().get(&process)
            && *known == secret
        {
            running.notify_waiters();
        }
    }

    /// A secret that nobody knows.
    fn random_secret(&self) -> Result<String> {
        let mut bytes = [0; 20];
        self.environment.random.fill(&mut bytes)?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Lets a client cancel the queries of a connection from another connection.
pub struct Cancel {
    server: Arc<PostgresServer>,
    process: i32,
    secret: i32,
    requested: Arc<Notify>,
}

impl Cancel {
    /// Registers a connection. Returns `None` if there are no random numbers.
    fn new(server: &Arc<PostgresServer>) -> Option<Cancel> {
        let mut secret = [0; 4];
        server.environment.random.fill(&mut secret).ok()?;
        let secret = i32::from_be_bytes(secret);
        let process = server.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1) & i32::MAX;
        let requested = Arc::new(Notify::new());
        server.connections.lock().insert(process, (secret, Arc::clone(&requested)));
        Some(Cancel { server: Arc::clone(server), process, secret, requested })
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        self.server.connections.lock().remove(&self.process);
    }
}
