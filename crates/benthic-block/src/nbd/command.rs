//! Checks requests, runs them on the image, and encodes their replies.

use super::handshake::{Context, Session};
use super::limits::PAYLOAD_BYTES_MAX;
use super::wire::{self, Chunks, Headers, Request, command, command_flag, errno};
use crate::{Extent, ExtentKind, Image, Zeroes};
use benthic_core::{Durability, Error, ErrorKind};
use bytes::Bytes;
use tokio::sync::watch;

/// Smallest read whose reply has holes. For a smaller one, sending zeros is cheaper than asking
/// the image for its extents.
const HOLE_READ_BYTES_MIN: u64 = 64 * 1024;
/// The range of one question to the image about its extents, which limits the answer's size.
const STATUS_STEP_BYTES: u64 = 1 << 30;
/// Limit on the range of a reply about extents, and so on its time. The client asks again for the
/// rest.
const STATUS_RANGE_BYTES_MAX: u64 = 16 << 30;
/// Limit on a request that reads or writes its whole range without sending data.
const RANGE_BYTES_MAX: u64 = 4 << 30;
/// Limit on the extents of a reply. The client asks again for the rest.
const STATUS_EXTENTS_MAX: usize = 1 << 16;
/// CACHE reads this much at a time.
const CACHE_STEP_BYTES: u64 = 4 << 20;
/// TRIM discards this much at a time.
const TRIM_STEP_BYTES: u64 = 16 << 30;

/// Status flags of `base:allocation` for an extent that reads as zeros and is not allocated.
const STATUS_HOLE_ZERO: u32 = 3;
/// Status flags of `benthic:snapshot-diff`.
const STATUS_CHANGED: u32 = 1;
const STATUS_CHANGED_TO_ZEROS: u32 = 3;

/// An error for the client.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    errno: u32,
    message: String,
}

fn refuse<T>(errno: u32, message: &str) -> Result<T, Refusal> {
    Err(Refusal { errno, message: message.to_owned() })
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let errno = match error.kind() {
            ErrorKind::PermissionDenied => errno::EPERM,
            ErrorKind::InvalidArgument => errno::EINVAL,
            ErrorKind::LimitExceeded => errno::ENOSPC,
            // Another program has taken the image over: this client cannot use it any more.
            ErrorKind::Conflict => errno::ESHUTDOWN,
            ErrorKind::Unsupported => errno::ENOTSUP,
            _ => errno::EIO,
        };
        Refusal { errno, message: error.to_string() }
    }
}

/// Checks everything that needs neither the data nor the image's state.
pub fn check(request: &Request, session: &Session) -> Result<(), Refusal> {
    let own_flags = match request.command {
        command::READ => command_flag::DF,
        command::WRITE_ZEROES => command_flag::NO_HOLE | command_flag::FAST_ZERO,
        command::BLOCK_STATUS => command_flag::REQ_ONE,
        command::WRITE if session.headers == Headers::Extended => command_flag::PAYLOAD_LEN,
        command::WRITE | command::FLUSH | command::TRIM | command::CACHE => 0,
        _ => return refuse(errno::EINVAL, "the server does not support this command"),
    };
    if request.flags & !(own_flags | command_flag::FUA) != 0 {
        return refuse(errno::EINVAL, "the command does not allow one of its flags");
    }
    if request.command == command::FLUSH {
        return match (request.offset_bytes, request.len_bytes) {
            (0, 0) => Ok(()),
            _ => refuse(errno::EINVAL, "a flush has no offset and no length"),
        };
    }
    let image = session.export.image.info();
    let changes = [command::WRITE, command::TRIM, command::WRITE_ZEROES].contains(&request.command);
    if changes && image.read_only {
        return refuse(errno::EPERM, "the export is read-only");
    }
    if [command::READ, command::WRITE].contains(&request.command)
        && request.len_bytes > u64::from(PAYLOAD_BYTES_MAX)
    {
        return refuse(errno::EOVERFLOW, "the request has more than 32 MiB of data");
    }
    if request.command == command::BLOCK_STATUS && (session.contexts.is_empty() || request.len_bytes == 0) {
        return refuse(errno::EINVAL, "block status needs a metadata context and a length");
    }
    let end = request.offset_bytes.checked_add(request.len_bytes);
    if end.is_none_or(|end| end > image.size_bytes) {
        let errno = match request.command {
            command::WRITE | command::WRITE_ZEROES => errno::ENOSPC,
            _ => errno::EINVAL,
        };
        return refuse(errno, "the request is beyond the end of the image");
    }
    // Only `Zeroes::Punch` is always faster than a write.
    let slow_zeroes = command_flag::NO_HOLE | command_flag::FAST_ZERO;
    if request.flags & slow_zeroes == slow_zeroes {
        return refuse(errno::ENOTSUP, "zeros that keep their space are not faster than a write");
    }
    let keeps_space = request.command == command::WRITE_ZEROES && request.flags & command_flag::NO_HOLE != 0;
    if (keeps_space || request.command == command::CACHE) && request.len_bytes > RANGE_BYTES_MAX {
        return refuse(errno::EOVERFLOW, "the request reads or writes more than 4 GiB");
    }
    if request.flags & command_flag::DF != 0 && session.headers == Headers::Simple {
        return refuse(errno::EINVAL, "the flag DF needs structured replies or extended headers");
    }
    Ok(())
}

/// The memory that a request needs while it runs and until its reply is sent.
pub fn memory_bytes(request: &Request, session: &Session) -> u64 {
    match request.command {
        command::READ | command::WRITE => request.len_bytes,
        command::CACHE => CACHE_STEP_BYTES.min(request.len_bytes),
        // The extents, and as much for their encoding.
        command::BLOCK_STATUS => {
            (2 * STATUS_EXTENTS_MAX * size_of::<Extent>() * session.contexts.len()) as u64
        }
        _ => 0,
    }
}

/// Runs a checked request. `data` is empty except for WRITE. Returns the parts of the reply.
/// `hurry` is true once the server stops, or the client is gone.
pub async fn run(
    request: &Request,
    data: Bytes,
    session: &Session,
    hurry: &watch::Receiver<bool>,
) -> Result<Vec<Bytes>, Refusal> {
    let image = &*session.export.image;
    let (offset_bytes, len_bytes) = (request.offset_bytes, request.len_bytes);
    let durability = match request.flags & command_flag::FUA {
        0 => Durability::Buffered,
        _ => Durability::Durable,
    };
    match request.command {
        command::READ if session.headers == Headers::Simple => {
            let data = image.read(offset_bytes, len_bytes).await?;
            return Ok(vec![wire::simple_reply(request.cookie, 0), data]);
        }
        command::READ => return read_chunks(request, session).await,
        command::BLOCK_STATUS => return block_status(request, session).await,
        command::WRITE => image.write(offset_bytes, data, durability).await?,
        command::FLUSH => image.flush().await?,
        command::CACHE => {
            for at in (0..len_bytes).step_by(CACHE_STEP_BYTES as usize) {
                image.read(offset_bytes + at, CACHE_STEP_BYTES.min(len_bytes - at)).await?;
            }
        }
        command::TRIM => {
            let mut at = 0;
            loop {
                let step_bytes = TRIM_STEP_BYTES.min(len_bytes - at);
                image.write_zeroes(offset_bytes + at, step_bytes, Zeroes::Punch, durability).await?;
                at += step_bytes;
                // A trim only says that nobody needs the data, so its rest must not delay a stop.
                if at == len_bytes || *hurry.borrow() {
                    break;
                }
            }
        }
        command::WRITE_ZEROES => {
            let zeroes = match request.flags & command_flag::NO_HOLE {
                0 => Zeroes::Punch,
                _ => Zeroes::Allocate,
            };
            image.write_zeroes(offset_bytes, len_bytes, zeroes, durability).await?;
        }
        _ => return refuse(errno::EINVAL, "the server does not support this command"),
    }
    Ok(vec![match session.headers {
        Headers::Simple => wire::simple_reply(request.cookie, 0),
        headers => Chunks::new(request, headers).done(),
    }])
}

/// The reply to a failed request.
pub fn error_reply(request: &Request, refusal: &Refusal, session: &Session) -> Vec<Bytes> {
    vec![match session.headers {
        Headers::Simple => wire::simple_reply(request.cookie, refusal.errno),
        headers => Chunks::new(request, headers).error(refusal.errno, &refusal.message),
    }]
}

/// The reply to a request that made the image panic.
pub fn panic_refusal() -> Refusal {
    Refusal { errno: errno::EIO, message: "a bug in the server; see its log".to_owned() }
}

async fn read_chunks(request: &Request, session: &Session) -> Result<Vec<Bytes>, Refusal> {
    let Request { offset_bytes, len_bytes, .. } = *request;
    let (image, chunks) = (&*session.export.image, Chunks::new(request, session.headers));
    if len_bytes == 0 {
        return Ok(vec![chunks.done()]);
    }
    let extents = match request.flags & command_flag::DF {
        0 if len_bytes >= HOLE_READ_BYTES_MIN => image.extents(offset_bytes, len_bytes, None).await?,
        _ => vec![Extent { len_bytes, kind: ExtentKind::Data }],
    };
    let has_data = extents.iter().any(|extent| extent.kind != ExtentKind::Hole);
    let data = if has_data { image.read(offset_bytes, len_bytes).await? } else { Bytes::new() };
    let mut parts = Vec::with_capacity(2 * extents.len() + 1);
    let mut at = 0;
    for Extent { len_bytes, kind } in extents {
        if kind == ExtentKind::Hole {
            parts.push(chunks.hole(offset_bytes + at, len_bytes as u32));
        } else {
            parts.push(chunks.data(offset_bytes + at, len_bytes as usize));
            parts.push(data.slice(at as usize..(at + len_bytes) as usize));
        }
        at += len_bytes;
    }
    parts.push(chunks.done());
    Ok(parts)
}

async fn block_status(request: &Request, session: &Session) -> Result<Vec<Bytes>, Refusal> {
    let one = request.flags & command_flag::REQ_ONE != 0;
    let chunks = Chunks::new(request, session.headers);
    let mut parts = Vec::new();
    for (number, context) in session.contexts.iter().enumerate() {
        let mut extents = statuses(request, &*session.export.image, context, one).await?;
        extents.truncate(if one { 1 } else { STATUS_EXTENTS_MAX });
        parts.push(chunks.status(number as u32, &extents));
    }
    parts.push(chunks.done());
    Ok(parts)
}

/// The lengths and status flags of extents, with equal neighbours merged.
async fn statuses(
    request: &Request,
    image: &dyn Image,
    context: &Context,
    one: bool,
) -> Result<Vec<(u64, u32)>, Refusal> {
    let since = match context {
        Context::Allocation => None,
        Context::SnapshotDiff(snapshot) => Some(snapshot.as_str()),
    };
    let extents_max = if one { 1 } else { STATUS_EXTENTS_MAX };
    let mut statuses: Vec<(u64, u32)> = Vec::new();
    let mut at = request.offset_bytes;
    let end = at + request.len_bytes.min(STATUS_RANGE_BYTES_MAX);
    while at < end && statuses.len() <= extents_max {
        let len_bytes = STATUS_STEP_BYTES.min(end - at);
        for extent in image.extents(at, len_bytes, since).await? {
            let flags = match (context, extent.kind) {
                (Context::Allocation, ExtentKind::Hole) => STATUS_HOLE_ZERO,
                (Context::Allocation, _) | (_, ExtentKind::Unchanged) => 0,
                (_, ExtentKind::Data) => STATUS_CHANGED,
                (_, ExtentKind::Hole) => STATUS_CHANGED_TO_ZEROS,
            };
            match statuses.last_mut() {
                Some(last) if last.1 == flags => last.0 += extent.len_bytes,
                _ => statuses.push((extent.len_bytes, flags)),
            }
        }
        at += len_bytes;
    }
    Ok(statuses)
}
