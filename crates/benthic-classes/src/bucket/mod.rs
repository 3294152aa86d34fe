//! The index of a bucket: which keys it has, what versions of them, and where their data are.
//!
//! A bucket's index is a number of *shards*, objects of which each has the keys that hash to it. There is no transaction over
//! two objects, so all that must change together is in the omap of one shard and is changed by one call: a key's
//! versions, the uploads and parts of its object, the intents of those who write, what replaced data become garbage, and
//! the sums of the bucket.
//!
//! **A write** is known by an id that its writer draws. `begin` notes the intent; data objects are written under
//! the id; one call (`put`, `part`, `complete`) demands that the intent is still there, checks the condition, and makes all of it
//! visible. The intent becomes the *outcome*, so a repetition finds that it is done: write methods return nothing, and
//! may run more than once. An intent that expired is garbage for whoever sweeps; its writer then fails, and nothing of it shows.
//!
//! **Data** belong to the version that wrote them. When another version is to share them they become a *group* with a tag for
//! each version that refers to it, and are garbage when the last tag is gone. Tags are a set, so taking one away twice
//! is taking it away once.
//!
//! **Time** is the caller's, in the input. Nothing that is promised depends on it: a clock that is ahead makes others lose
//! intents, and their writes fail; one that is behind lets garbage live longer. Only how long a reader may still read
//! what was replaced is counted by clocks.
//!
//! Inputs and outputs are binary, in the form of [`codec`]; docs/formats.md draws them.

pub mod codec;
pub mod keys;
mod list;
mod shard;
pub mod state;
#[cfg(test)]
mod tests;
mod uploads;
mod versions;
pub mod wire;
mod writes;

use benthic_core::{Class, Method, MethodContext, MethodFlags, MethodResult, Result};

/// The class.
pub struct Bucket;

impl Class for Bucket {
    fn name(&self) -> &'static str {
        "bucket"
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "the index of a bucket of the S3 gateway: keys, versions, uploads, garbage"
    }

    fn methods(&self) -> &'static [Method] {
        &METHODS
    }
}

type Run = fn(&mut MethodContext<'_>, &[u8]) -> Result<Vec<u8>>;

const fn writes(name: &'static str, run: Run, summary: &'static str, input: &'static str) -> Method {
    Method {
        name,
        flags: MethodFlags::READ_WRITE,
        run,
        result: MethodResult::Nothing,
        summary,
        input,
        output: "nothing",
        examples: &[],
    }
}

const fn reads(
    name: &'static str,
    run: Run,
    summary: &'static str,
    input: &'static str,
    output: &'static str,
) -> Method {
    Method {
        name,
        flags: MethodFlags::READ,
        run,
        result: MethodResult::Output,
        summary,
        input,
        output,
        examples: &[],
    }
}

static METHODS: [Method; 16] = [
    writes("init", writes::init, "makes the object a shard of a bucket", "binary: Init"),
    writes("gate", writes::gate, "closes a shard without objects to writes, or opens it", "binary: Gate"),
    writes("begin", writes::begin, "notes that data are about to be written", "binary: Begin"),
    writes("renew", writes::renew, "renews an intent; conflict if it was given up", "binary: Begin"),
    writes("sweep", writes::sweep, "gives up intents and forgets outcomes that expired", "binary: Sweep"),
    writes("put", versions::put, "makes written data the current version of a key", "binary: Put"),
    writes("delete", versions::delete, "deletes an object or a version", "binary: Delete"),
    writes(
        "set_attributes",
        versions::set_attributes,
        "replaces a version's attributes; conflict if they were changed meanwhile",
        "binary: SetAttributes",
    ),
    writes("upload", uploads::upload, "begins an upload in parts", "binary: NewUpload"),
    writes("part", uploads::part, "adds written data to an upload", "binary: PutPart"),
    writes("complete", uploads::complete, "makes an object of an upload's parts", "binary: Complete"),
    writes("abort", uploads::abort, "drops an upload and its parts", "binary: Abort"),
    writes("share", writes::share, "lets one more version refer to data", "binary: Share"),
    writes("release", writes::release, "lets a version refer to data no longer", "binary: Unshare"),
    reads("get", versions::get, "a version with all that is known of it", "binary: Get", "binary: Head"),
    reads("list", list::list, "a page of objects, versions or uploads", "binary: List", "binary: Listed"),
];
