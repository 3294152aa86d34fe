//! One connection to a server, kept open.

use crate::sign::Signer;
use bench_harness::{Outcome, start};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpStream;

pub struct Target {
    pub host: String,
    pub signer: Signer,
}

/// A connection. It connects at the first request, and again after the server closed it.
pub struct Client {
    target: Rc<Target>,
    sender: Option<SendRequest<Full<Bytes>>>,
}

pub struct Answer {
    pub first_byte: Duration,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Client {
    pub fn new(target: &Rc<Target>) -> Client {
        Client { target: Rc::clone(target), sender: None }
    }

    /// Whether the client has a connection that the server has not closed.
    pub fn is_connected(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| !sender.is_closed())
    }

    /// Sends a request and collects the whole answer. A status other than success is an error.
    pub async fn call(&mut self, method: &str, path: &str, arguments: &str, body: Bytes) -> Outcome<Answer> {
        let mut parts = Vec::new();
        let (first_byte, headers) =
            self.stream(method, path, arguments, body, |part| parts.push(part)).await?;
        Ok(Answer { first_byte, headers, body: parts.concat().into() })
    }

    /// Sends a request and passes the answer's body to `take` in pieces. Returns the time to its
    /// first byte, and the headers.
    pub async fn stream(
        &mut self,
        method: &str,
        path: &str,
        arguments: &str,
        body: Bytes,
        mut take: impl FnMut(Bytes),
    ) -> Outcome<(Duration, HeaderMap)> {
        let uri = self.target.signer.target(method, path, arguments);
        let request = Request::builder().method(method).uri(uri).header("host", &self.target.host);
        let request = request.body(Full::new(body))?;
        let stopwatch = start();
        let answer = self.sender().await?.send_request(request).await?;
        let (head, mut body) = answer.into_parts();
        let mut first_byte = None;
        let mut text = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(part) = frame?.into_data() else { continue };
            first_byte.get_or_insert_with(|| stopwatch.elapsed());
            if head.status.is_success() { take(part) } else { text.extend_from_slice(&part) }
        }
        if head.status.is_success() {
            return Ok((first_byte.unwrap_or_else(|| stopwatch.elapsed()), head.headers));
        }
        Err(format!("{method} {path}: {}: {}", head.status, String::from_utf8_lossy(&text)).into())
    }

    async fn sender(&mut self) -> Outcome<&mut SendRequest<Full<Bytes>>> {
        let is_usable = match &mut self.sender {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !is_usable {
            let stream = TcpStream::connect(&self.target.host).await?;
            stream.set_nodelay(true)?;
            let (sender, connection) = handshake(TokioIo::new(stream)).await?;
            tokio::task::spawn_local(connection);
            self.sender = Some(sender);
        }
        self.sender.as_mut().ok_or_else(|| "not connected".into())
    }
}
