//! The handshake: the client starts TLS, chooses an export, and negotiates its headers and metadata
//! contexts.
//!
//! It reads no byte ahead. So bytes that a client, or an attacker between, sends behind the request
//! for TLS are never taken for a part of the protected connection.

use super::export::{Export, Exports};
use super::limits::{CONTEXTS_MAX, OPTION_BYTES_MAX, OPTIONS_MAX, PAYLOAD_BYTES_MAX, STRING_BYTES_MAX};
use super::wire::{self, Headers, OptionHeader, export_flag, handshake_flag, info, option, reply};
use crate::ImageInfo;
use bytes::{BufMut, BytesMut};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const ALLOCATION: &str = "base:allocation";
/// Followed by a snapshot's name: the extents that have changed since the snapshot.
const SNAPSHOT_DIFF: &str = "benthic:snapshot-diff/";

/// The result of a handshake.
pub struct Session {
    pub export: Arc<Export>,
    pub headers: Headers,
    pub contexts: Vec<Context>,
}

/// A metadata context; its number is its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Context {
    Allocation,
    SnapshotDiff(String),
}

impl Context {
    fn name(&self) -> String {
        match self {
            Context::Allocation => ALLOCATION.to_owned(),
            Context::SnapshotDiff(snapshot) => format!("{SNAPSHOT_DIFF}{snapshot}"),
        }
    }
}

/// The flags of an export.
fn export_flags(image: &ImageInfo, headers: Headers) -> u16 {
    let mut flags = export_flag::HAS_FLAGS
        | export_flag::SEND_FLUSH
        | export_flag::SEND_FUA
        | export_flag::CAN_MULTI_CONN
        | export_flag::SEND_CACHE;
    if headers >= Headers::Structured {
        flags |= export_flag::SEND_DF;
    }
    flags
        | match image.read_only {
            true => export_flag::READ_ONLY,
            false => export_flag::SEND_TRIM | export_flag::SEND_WRITE_ZEROES | export_flag::SEND_FAST_ZERO,
        }
}

/// The part of TLS in a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// The server does not offer it.
    Absent,
    /// The client must start it before anything else.
    Required,
    Active,
}

/// How a handshake ends.
pub enum Negotiated {
    Session(Session),
    /// The client starts TLS now. Afterwards it negotiates all options again.
    StartTls,
    /// The client ended the connection properly.
    End,
}

struct Handshake<'a, S> {
    stream: &'a mut S,
    tls: Tls,
    exports: &'a Exports,
    no_zeroes: bool,
    headers: Headers,
    /// The contexts, and the export that they were set for.
    contexts: Vec<Context>,
    contexts_export: Option<Arc<Export>>,
}

/// Sends the greeting, and returns the client's flags.
pub async fn greet(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<u32> {
    stream.write_all(&wire::greeting()).await?;
    let flags = stream.read_u32().await?;
    let known = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
    match flags & !u32::from(known) {
        0 => Ok(flags),
        _ => Err(violation("the client sent unknown handshake flags")),
    }
}

/// Negotiates the options with a client.
pub async fn negotiate<S>(stream: &mut S, flags: u32, exports: &Exports, tls: Tls) -> io::Result<Negotiated>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut handshake = Handshake {
        stream,
        tls,
        exports,
        no_zeroes: flags & u32::from(handshake_flag::NO_ZEROES) != 0,
        headers: Headers::Simple,
        contexts: Vec::new(),
        contexts_export: None,
    };
    for _ in 0..OPTIONS_MAX {
        match handshake.serve_option().await? {
            Next::Option => {}
            Next::Transmission(export) => {
                let contexts = match handshake.contexts_export {
                    Some(of) if Arc::ptr_eq(&of, &export) => handshake.contexts,
                    _ => Vec::new(),
                };
                let headers = handshake.headers;
                return Ok(Negotiated::Session(Session { export, headers, contexts }));
            }
            Next::StartTls => return Ok(Negotiated::StartTls),
            Next::End => return Ok(Negotiated::End),
        }
    }
    Err(violation("the client sent too many options"))
}

enum Next {
    Option,
    Transmission(Arc<Export>),
    StartTls,
    End,
}

fn violation(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

impl<S: AsyncRead + AsyncWrite + Unpin> Handshake<'_, S> {
    async fn serve_option(&mut self) -> io::Result<Next> {
        let mut header = [0; wire::OPTION_HEADER_BYTES];
        self.stream.read_exact(&mut header).await?;
        let OptionHeader { option, len_bytes } =
            OptionHeader::parse(&header).ok_or_else(|| violation("an option has the wrong magic"))?;
        if len_bytes as usize > OPTION_BYTES_MAX {
            if option == option::EXPORT_NAME {
                return Err(violation("the export's name is too long"));
            }
            discard(self.stream, u64::from(len_bytes)).await?;
            return self.refuse(option, reply::ERR_TOO_BIG, "the option's data is too long").await;
        }
        let mut data = vec![0; len_bytes as usize];
        self.stream.read_exact(&mut data).await?;
        match option {
            option::ABORT => {
                // The client may have closed the connection already.
                let _ = self.reply(option, reply::ACK, &[]).await;
                Ok(Next::End)
            }
            option::STARTTLS if self.tls != Tls::Absent => self.start_tls(&data).await,
            // This option has no reply for an error.
            option::EXPORT_NAME if self.tls == Tls::Required => Err(violation("the client does not use TLS")),
            _ if self.tls == Tls::Required => {
                self.refuse(option, reply::ERR_TLS_REQD, "the server requires TLS").await
            }
            option::EXPORT_NAME => self.export_name(&data).await,
            option::LIST if data.is_empty() => self.list().await,
            option::STRUCTURED_REPLY if data.is_empty() => self.headers(option, Headers::Structured).await,
            option::EXTENDED_HEADERS if data.is_empty() => self.headers(option, Headers::Extended).await,
            option::LIST | option::STRUCTURED_REPLY | option::EXTENDED_HEADERS => {
                self.refuse(option, reply::ERR_INVALID, "this option takes no data").await
            }
            option::INFO | option::GO => self.info(option, &data).await,
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.meta_contexts(option, &data).await,
            _ => self.refuse(option, reply::ERR_UNSUP, "the server does not support this option").await,
        }
    }

    async fn reply(&mut self, option: u32, reply: u32, data: &[u8]) -> io::Result<()> {
        let mut out = BytesMut::new();
        wire::put_option_reply(&mut out, option, reply, data);
        self.send(&out).await
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    async fn refuse(&mut self, option: u32, reply: u32, message: &str) -> io::Result<Next> {
        self.reply(option, reply, message.as_bytes()).await?;
        Ok(Next::Option)
    }

    /// Sends the replies, then the acknowledgement.
    async fn acknowledge(&mut self, option: u32, mut replies: BytesMut) -> io::Result<Next> {
        wire::put_option_reply(&mut replies, option, reply::ACK, &[]);
        self.send(&replies).await?;
        Ok(Next::Option)
    }

    async fn start_tls(&mut self, data: &[u8]) -> io::Result<Next> {
        if self.tls == Tls::Active || !data.is_empty() {
            let message = "TLS is active, or the option has data";
            return self.refuse(option::STARTTLS, reply::ERR_INVALID, message).await;
        }
        self.reply(option::STARTTLS, reply::ACK, &[]).await?;
        Ok(Next::StartTls)
    }

    async fn headers(&mut self, option: u32, headers: Headers) -> io::Result<Next> {
        if self.headers == Headers::Extended {
            let refusal = match headers {
                Headers::Extended => reply::ERR_INVALID,
                _ => reply::ERR_EXT_HEADER_REQD,
            };
            return self.refuse(option, refusal, "extended headers are already negotiated").await;
        }
        self.headers = headers;
        self.acknowledge(option, BytesMut::new()).await
    }

    async fn export_name(&mut self, name: &[u8]) -> io::Result<Next> {
        // This option has no reply for an error.
        if self.headers == Headers::Extended {
            return Err(violation("extended headers need GO instead of EXPORT_NAME"));
        }
        let export = std::str::from_utf8(name)
            .ok()
            .and_then(|name| self.exports.find(name))
            .ok_or_else(|| violation("the client asked for an unknown export"))?;
        let image = export.image.info();
        let flags = export_flags(&image, self.headers);
        let answer = wire::export_name_reply(image.size_bytes, flags, !self.no_zeroes);
        self.send(&answer).await?;
        Ok(Next::Transmission(export))
    }

    async fn list(&mut self) -> io::Result<Next> {
        let mut replies = BytesMut::new();
        for export in self.exports.iter() {
            let mut data = BytesMut::new();
            data.put_u32(export.name.len() as u32);
            data.put_slice(export.name.as_bytes());
            data.put_slice(export.description.as_bytes());
            wire::put_option_reply(&mut replies, option::LIST, reply::SERVER, &data);
        }
        self.acknowledge(option::LIST, replies).await
    }

    async fn info(&mut self, option: u32, data: &[u8]) -> io::Result<Next> {
        let Some((name, items)) = wire::parse_info(data) else {
            return self.refuse(option, reply::ERR_INVALID, "the option's data is malformed").await;
        };
        let Some(export) = self.find(option, name).await? else { return Ok(Next::Option) };
        let image = export.image.info();
        let mut replies = BytesMut::new();
        let mut put = |kind: u16, fields: &[&[u8]]| {
            let data = [&[&kind.to_be_bytes()[..]], fields].concat().concat();
            wire::put_option_reply(&mut replies, option, reply::INFO, &data);
        };
        let flags = export_flags(&image, self.headers);
        put(info::EXPORT, &[&image.size_bytes.to_be_bytes(), &flags.to_be_bytes()]);
        let (min, preferred) = (1u32, 4096u32);
        put(
            info::BLOCK_SIZE,
            &[&min.to_be_bytes(), &preferred.to_be_bytes(), &PAYLOAD_BYTES_MAX.to_be_bytes()],
        );
        if items.contains(&info::NAME) {
            put(info::NAME, &[export.name.as_bytes()]);
        }
        if items.contains(&info::DESCRIPTION) {
            put(info::DESCRIPTION, &[export.description.as_bytes()]);
        }
        self.acknowledge(option, replies).await?;
        Ok(if option == option::GO { Next::Transmission(export) } else { Next::Option })
    }

    /// Finds an export, or sends the refusal.
    async fn find(&mut self, option: u32, name: &str) -> io::Result<Option<Arc<Export>>> {
        if name.len() > STRING_BYTES_MAX {
            self.refuse(option, reply::ERR_INVALID, "the export's name is too long").await?;
            return Ok(None);
        }
        let export = self.exports.find(name);
        if export.is_none() {
            self.refuse(option, reply::ERR_UNKNOWN, "the server has no export of this name").await?;
        }
        Ok(export)
    }

    async fn meta_contexts(&mut self, option: u32, data: &[u8]) -> io::Result<Next> {
        if option == option::SET_META_CONTEXT {
            // A failed option, too, ends the previous contexts.
            self.contexts.clear();
            self.contexts_export = None;
        }
        let Some((name, queries)) = wire::parse_meta_context(data) else {
            return self.refuse(option, reply::ERR_INVALID, "the option's data is malformed").await;
        };
        if option == option::SET_META_CONTEXT && self.headers == Headers::Simple {
            let message = "metadata contexts need structured replies or extended headers";
            return self.refuse(option, reply::ERR_INVALID, message).await;
        }
        let Some(export) = self.find(option, name).await? else { return Ok(Next::Option) };
        let snapshots = match export.image.snapshots().await {
            Ok(snapshots) => snapshots,
            Err(error) => {
                tracing::warn!(export = export.name, %error, "cannot list the snapshots of an image");
                Vec::new()
            }
        };
        let mut contexts = vec![Context::Allocation];
        contexts.extend(snapshots.into_iter().map(|snapshot| Context::SnapshotDiff(snapshot.name)));
        if option == option::LIST_META_CONTEXT {
            contexts
                .retain(|context| queries.is_empty() || queries.iter().any(|query| lists(query, context)));
        } else {
            contexts.retain(|context| queries.contains(&context.name().as_str()));
            contexts.truncate(CONTEXTS_MAX);
        }
        let mut replies = BytesMut::new();
        for (number, context) in contexts.iter().enumerate() {
            let number = if option == option::SET_META_CONTEXT { number as u32 } else { 0 };
            let data = [&number.to_be_bytes()[..], context.name().as_bytes()].concat();
            wire::put_option_reply(&mut replies, option, reply::META_CONTEXT, &data);
        }
        if option == option::SET_META_CONTEXT {
            self.contexts = contexts;
            self.contexts_export = Some(export);
        }
        self.acknowledge(option, replies).await
    }
}

/// Whether a query of LIST_META_CONTEXT, which may be a namespace, covers a context.
fn lists(query: &str, context: &Context) -> bool {
    let name = context.name();
    name == query || ((query.ends_with(':') || query == SNAPSHOT_DIFF) && name.starts_with(query))
}

/// Reads and drops data.
pub async fn discard(reader: &mut (impl AsyncRead + Unpin), len_bytes: u64) -> io::Result<()> {
    let dropped = tokio::io::copy(&mut reader.take(len_bytes), &mut tokio::io::sink()).await?;
    if dropped < len_bytes { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}
