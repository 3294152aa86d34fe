//! The index of a bucket: its keys, their versions, and the location of their data.
//!
//! A bucket's index consists of *shards*. Each shard is an object and holds the keys that hash to
//! it. Pools have no transactions across objects. So everything that must change together is in the
//! omap of one shard, and one call changes it: a key's versions, the uploads and parts of its
//! object, write intents, garbage from replaced data, and the bucket's totals.
//!
//! **A write** has an id that its writer draws. `begin` stores the intent; the writer then writes
//! data objects under the id. One call (`put`, `part`, `complete`) requires that the intent still
//! exists, checks the condition, and makes the write visible. The intent becomes the *outcome*,
//! from which a repeated call learns that the write is done: write methods return nothing and may
//! run more than once. Any sweep may collect an intent that has expired; its writer then fails, and
//! no part of its write becomes visible.
//!
//! **Data** belong to the version that wrote them. When another version is to share them, they
//! become a *group* with one tag per version that refers to it. They become garbage when the last
//! tag is removed. Tags are a set, so removing a tag twice is the same as removing it once.
//!
//! **Time** is the caller's, from the input. Correctness does not depend on it: a clock that is
//! ahead makes other writers lose their intents, and their writes fail; a clock that is behind lets
//! garbage live longer. Only the grace period, in which a reader may still read replaced data,
//! depends on clocks. Where a wrong clock would remove data too early, the store's own clock
//! counts, too: for locks, and for deletions that say when they are due.
//!
//! **Events** are stored by the call that makes the change; see `events.rs`.
//!
//! **Locks.** A version whose lock protects it cannot be removed or replaced; see [`locks`].
//!
//! Inputs and outputs are binary, in the encoding of [`codec`]; docs/formats.md draws them.

mod append;
pub mod codec;
mod events;
#[cfg(test)]
mod events_tests;
pub mod keys;
mod list;
pub mod locks;
mod shard;
pub mod state;
#[cfg(test)]
mod tests;
mod uploads;
mod versions;
pub mod wire;
mod writes;

use benthic_core::{Class, Method, MethodContext, MethodFlags, MethodResult, Result};

/// The `bucket` class.
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

static METHODS: [Method; 19] = [
    writes("init", writes::init, "makes the object a shard of a bucket", "binary: Init"),
    writes("gate", writes::gate, "closes an empty shard to writes, or opens a shard", "binary: Gate"),
    writes("begin", writes::begin, "stores the intent of a write", "binary: Begin"),
    writes("renew", writes::renew, "renews an intent; conflict if it was removed", "binary: Begin"),
    writes("sweep", writes::sweep, "removes expired intents and outcomes", "binary: Sweep"),
    writes("put", versions::put, "makes written data the current version of a key", "binary: Put"),
    writes("append", append::append, "adds written data at the end of an object", "binary: Append"),
    writes("delete", versions::delete, "deletes an object or a version", "binary: Delete"),
    writes(
        "set_attributes",
        versions::set_attributes,
        "replaces a version's attributes; conflict if another call changed them first",
        "binary: SetAttributes",
    ),
    writes(
        "transition",
        versions::transition,
        "moves a version to another storage class, into which its data were copied",
        "binary: Transition",
    ),
    writes("upload", uploads::upload, "starts a multipart upload", "binary: NewUpload"),
    writes("part", uploads::part, "adds written data to an upload as a part", "binary: PutPart"),
    writes("complete", uploads::complete, "creates an object from an upload's parts", "binary: Complete"),
    writes("abort", uploads::abort, "removes an upload and its parts", "binary: Abort"),
    writes("share", writes::share, "adds a version's tag to shared data", "binary: Share"),
    writes("release", writes::release, "removes a version's tag from shared data", "binary: Unshare"),
    writes("settle", events::settle, "removes or moves events of a queue", "binary: Settle"),
    reads("get", versions::get, "returns a version with its body", "binary: Get", "binary: Head"),
    reads("list", list::list, "lists objects, versions or uploads", "binary: List", "binary: ListOutput"),
];
