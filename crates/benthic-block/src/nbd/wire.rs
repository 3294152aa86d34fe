//! The bytes of the NBD protocol. Everything is big-endian.

use bytes::{BufMut, Bytes, BytesMut};

pub const INIT_MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
pub const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Flags of the handshake; the client's have the same numbers.
pub mod handshake_flag {
    pub const FIXED_NEWSTYLE: u16 = 1;
    pub const NO_ZEROES: u16 = 2;
}

pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Types of replies to options.
pub mod reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
    pub const ERR_EXT_HEADER_REQD: u32 = (1 << 31) + 10;
}

pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Flags of an export.
pub mod export_flag {
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_CACHE: u16 = 1 << 10;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISCONNECT: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

pub mod command_flag {
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
    /// The length is that of the data behind the request. Only with extended headers.
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Types of the chunks of a structured reply.
pub mod chunk {
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const OFFSET_HOLE: u16 = 2;
    pub const BLOCK_STATUS: u16 = 5;
    pub const BLOCK_STATUS_EXT: u16 = 6;
    pub const ERROR: u16 = (1 << 15) + 1;
    /// The flag of a reply's last chunk.
    pub const FLAG_DONE: u16 = 1;
}

pub mod errno {
    pub const EPERM: u32 = 1;
    pub const EIO: u32 = 5;
    pub const EINVAL: u32 = 22;
    pub const ENOSPC: u32 = 28;
    pub const EOVERFLOW: u32 = 75;
    pub const ENOTSUP: u32 = 95;
    pub const ESHUTDOWN: u32 = 108;
}

pub const OPTION_HEADER_BYTES: usize = 16;

/// The headers that a client has negotiated for its requests and their replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Headers {
    /// A reply is an errno, and the data of a read.
    Simple,
    /// A reply consists of chunks.
    Structured,
    /// A reply consists of chunks, and lengths have 64 bits.
    Extended,
}

impl Headers {
    /// The length of a request without its data.
    pub fn request_bytes(self) -> usize {
        if self == Headers::Extended { REQUEST_BYTES_MAX } else { REQUEST_BYTES_MAX - 4 }
    }
}

pub const REQUEST_BYTES_MAX: usize = 32;

/// Takes values from the front of a message. Every method returns `None` at the message's end.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string behind its length in 32 bits.
    fn string(&mut self) -> Option<&'a str> {
        let len = self.u32()? as usize;
        std::str::from_utf8(self.bytes(len)?).ok()
    }
}

/// The start of an option of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    pub option: u32,
    pub len_bytes: u32,
}

impl OptionHeader {
    /// `None` if the magic is wrong.
    pub fn parse(bytes: &[u8; OPTION_HEADER_BYTES]) -> Option<OptionHeader> {
        let mut fields = Fields(bytes);
        (fields.u64()? == OPTION_MAGIC).then_some(())?;
        Some(OptionHeader { option: fields.u32()?, len_bytes: fields.u32()? })
    }
}

/// Parses the data of INFO and GO: the export's name and the wanted items.
pub fn parse_info(data: &[u8]) -> Option<(&str, Vec<u16>)> {
    let mut fields = Fields(data);
    let name = fields.string()?;
    let items = (0..fields.u16()?).map(|_| fields.u16()).collect::<Option<_>>()?;
    fields.0.is_empty().then_some((name, items))
}

/// Parses the data of LIST_META_CONTEXT and SET_META_CONTEXT: the export's name and the queries.
pub fn parse_meta_context(data: &[u8]) -> Option<(&str, Vec<&str>)> {
    let mut fields = Fields(data);
    let name = fields.string()?;
    // `collect` allocates as it parses, so a false count costs nothing.
    let queries = (0..fields.u32()?).map(|_| fields.string()).collect::<Option<_>>()?;
    fields.0.is_empty().then_some((name, queries))
}

/// The start of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub flags: u16,
    pub command: u16,
    /// The client's name for the request, which the reply repeats.
    pub cookie: u64,
    pub offset_bytes: u64,
    pub len_bytes: u64,
    /// The data behind the request.
    pub payload_bytes: u64,
}

impl Request {
    /// `None` if the magic is wrong.
    pub fn parse(bytes: &[u8], headers: Headers) -> Option<Request> {
        let mut fields = Fields(bytes);
        let extended = headers == Headers::Extended;
        let magic = if extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC };
        (fields.u32()? == magic).then_some(())?;
        let (flags, command) = (fields.u16()?, fields.u16()?);
        let (cookie, offset_bytes) = (fields.u64()?, fields.u64()?);
        let len_bytes = if extended { fields.u64()? } else { u64::from(fields.u32()?) };
        // With extended headers, the specification demands the flag of a write. QEMU's client (8.2
        // to 10.0) sends the data without it.
        let has_payload = command == command::WRITE || (extended && flags & command_flag::PAYLOAD_LEN != 0);
        let payload_bytes = if has_payload { len_bytes } else { 0 };
        Some(Request { flags, command, cookie, offset_bytes, len_bytes, payload_bytes })
    }
}

/// The first bytes of a connection, which the server sends.
pub fn greeting() -> Bytes {
    let mut out = BytesMut::with_capacity(18);
    out.put_u64(INIT_MAGIC);
    out.put_u64(OPTION_MAGIC);
    out.put_u16(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
    out.freeze()
}

/// The answer to EXPORT_NAME, which has no header.
pub fn export_name_reply(size_bytes: u64, export_flags: u16, zeroes: bool) -> Bytes {
    let mut out = BytesMut::with_capacity(134);
    out.put_u64(size_bytes);
    out.put_u16(export_flags);
    out.put_bytes(0, if zeroes { 124 } else { 0 });
    out.freeze()
}

/// Appends a reply to an option.
pub fn put_option_reply(out: &mut BytesMut, option: u32, reply: u32, data: &[u8]) {
    out.put_u64(OPTION_REPLY_MAGIC);
    out.put_u32(option);
    out.put_u32(reply);
    out.put_u32(data.len() as u32);
    out.put_slice(data);
}

/// A reply without structure; the data of a read follow it.
pub fn simple_reply(cookie: u64, errno: u32) -> Bytes {
    let mut out = BytesMut::with_capacity(16);
    out.put_u32(SIMPLE_REPLY_MAGIC);
    out.put_u32(errno);
    out.put_u64(cookie);
    out.freeze()
}

/// The chunks of the reply to one request.
#[derive(Clone, Copy)]
pub struct Chunks {
    extended: bool,
    cookie: u64,
    request_offset_bytes: u64,
}

impl Chunks {
    pub fn new(request: &Request, headers: Headers) -> Chunks {
        let extended = headers == Headers::Extended;
        Chunks { extended, cookie: request.cookie, request_offset_bytes: request.offset_bytes }
    }

    fn chunk(self, flags: u16, kind: u16, len_bytes: usize) -> BytesMut {
        let mut out = BytesMut::with_capacity(48);
        out.put_u32(if self.extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC });
        out.put_u16(flags);
        out.put_u16(kind);
        out.put_u64(self.cookie);
        if self.extended {
            out.put_u64(self.request_offset_bytes);
            out.put_u64(len_bytes as u64);
        } else {
            out.put_u32(len_bytes as u32);
        }
        out
    }

    /// The chunk that ends a successful reply.
    pub fn done(self) -> Bytes {
        self.chunk(chunk::FLAG_DONE, chunk::NONE, 0).freeze()
    }

    /// The front of a chunk with data; the data follows.
    pub fn data(self, offset_bytes: u64, len_bytes: usize) -> Bytes {
        let mut out = self.chunk(0, chunk::OFFSET_DATA, 8 + len_bytes);
        out.put_u64(offset_bytes);
        out.freeze()
    }

    /// A chunk that says that a range reads as zeros.
    pub fn hole(self, offset_bytes: u64, len_bytes: u32) -> Bytes {
        let mut out = self.chunk(0, chunk::OFFSET_HOLE, 12);
        out.put_u64(offset_bytes);
        out.put_u32(len_bytes);
        out.freeze()
    }

    /// A chunk with the lengths and flags of extents.
    pub fn status(self, context: u32, extents: &[(u64, u32)]) -> Bytes {
        let mut out = match self.extended {
            true => self.chunk(0, chunk::BLOCK_STATUS_EXT, 8 + 16 * extents.len()),
            false => self.chunk(0, chunk::BLOCK_STATUS, 4 + 8 * extents.len()),
        };
        out.put_u32(context);
        if self.extended {
            out.put_u32(extents.len() as u32);
        }
        for (len_bytes, flags) in extents {
            if self.extended {
                out.put_u64(*len_bytes);
                out.put_u64(u64::from(*flags));
            } else {
                // At most the length of the request.
                out.put_u32(*len_bytes as u32);
                out.put_u32(*flags);
            }
        }
        out.freeze()
    }

    /// The chunk that ends a failed reply.
    pub fn error(self, errno: u32, message: &str) -> Bytes {
        let message = &message[..message.floor_char_boundary(1024)];
        let mut out = self.chunk(chunk::FLAG_DONE, chunk::ERROR, 6 + message.len());
        out.put_u32(errno);
        out.put_u16(message.len() as u16);
        out.put_slice(message.as_bytes());
        out.freeze()
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
