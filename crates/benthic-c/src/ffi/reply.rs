//! Replies. Pointers into a reply are valid until the reply is freed.

use crate::ffi::ReplyHandle;
use crate::ffi::args::{Out, c_api, free, item};
use crate::reply::{Output, Reply};
use benthic_core::Error;
use std::ffi::c_void;

fn other_output(step: usize, is: &str) -> Error {
    Error::invalid_argument(format!("the output of this step is not {is}")).with("step", step)
}

c_api! {
    /// Stores the version of the object: for a read operation the one that was read, for a write
    /// operation the one that it made. It is 0 for a method call.
    fn benthic_reply_version(reply: *const ReplyHandle, version: *mut u64) {
        let version = Out::new(version, "version")?;
        version.set(item::<Reply, _>(reply)?.version);
        Ok(())
    }

    /// Stores the bytes that a step returned: data, the value of an attribute, or the output of a
    /// method. The first step of an operation is step 0.
    fn benthic_reply_data(
        reply: *const ReplyHandle,
        step: usize,
        data: *mut *const c_void,
        len_bytes: *mut usize,
    ) {
        let (data, len_bytes) = (Out::new(data, "data")?, Out::new(len_bytes, "len_bytes")?);
        let reply = item::<Reply, _>(reply)?;
        let Output::Data(output) = reply.output(step)? else { return Err(other_output(step, "bytes")) };
        data.set(output.as_ptr().cast());
        len_bytes.set(output.len());
        Ok(())
    }

    /// Stores what a step `stat` returned: the size, and the time of the last change in nanoseconds
    /// since 1970 (UTC).
    fn benthic_reply_stat(
        reply: *const ReplyHandle,
        step: usize,
        size_bytes: *mut u64,
        modified_unix_ns: *mut u64,
    ) {
        let (size, modified) =
            (Out::new(size_bytes, "size_bytes")?, Out::new(modified_unix_ns, "modified_unix_ns")?);
        let reply = item::<Reply, _>(reply)?;
        let Output::Stat(stat) = reply.output(step)? else { return Err(other_output(step, "a stat")) };
        size.set(stat.size_bytes);
        modified.set(stat.modified_unix_ns);
        Ok(())
    }

    /// Stores the number of entries that a step returned: attributes or omap entries. `more`
    /// becomes true if more omap entries follow the last one; the next page is the one after its
    /// key.
    fn benthic_reply_count(reply: *const ReplyHandle, step: usize, count: *mut usize, more: *mut bool) {
        let (count, is_more) = (Out::new(count, "count")?, Out::new(more, "more")?);
        let reply = item::<Reply, _>(reply)?;
        let Output::Entries { entries, more } = reply.output(step)? else {
            return Err(other_output(step, "a list of entries"));
        };
        count.set(entries.len());
        is_more.set(*more);
        Ok(())
    }

    /// Stores an entry that a step returned, in the bytewise order of keys: an omap key or the name
    /// of an attribute, without a NUL at its end, and the value.
    fn benthic_reply_entry(
        reply: *const ReplyHandle,
        step: usize,
        at: usize,
        key: *mut *const c_void,
        key_bytes: *mut usize,
        value: *mut *const c_void,
        value_bytes: *mut usize,
    ) {
        let (key, key_bytes) = (Out::new(key, "key")?, Out::new(key_bytes, "key_bytes")?);
        let (value, value_bytes) = (Out::new(value, "value")?, Out::new(value_bytes, "value_bytes")?);
        let reply = item::<Reply, _>(reply)?;
        let Output::Entries { entries, .. } = reply.output(step)? else {
            return Err(other_output(step, "a list of entries"));
        };
        let Some(entry) = entries.get(at) else {
            let error = Error::invalid_argument("the output of this step has no such entry");
            return Err(error.with("at", at).with("count", entries.len()));
        };
        key.set(entry.0.as_ptr().cast());
        key_bytes.set(entry.0.len());
        value.set(entry.1.as_ptr().cast());
        value_bytes.set(entry.1.len());
        Ok(())
    }
}

/// Frees a reply. Does nothing for NULL. Returns `BENTHIC_KIND_INVALID_ARGUMENT` if the handle is
/// not open.
#[unsafe(no_mangle)]
pub extern "C" fn benthic_reply_free(reply: *mut ReplyHandle) -> i32 {
    free::<Reply, _>(reply)
}
