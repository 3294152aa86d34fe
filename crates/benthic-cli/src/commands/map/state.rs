//! The file of `map --resume`: the progress of a run.
//!
//! The file is replaced as a whole, so that it always holds a merged result together with exactly
//! the objects that are in it. A listing continues after its token, also in another process. So the
//! file holds the token of the page that is being worked on, and names only for the merged objects
//! of that page and for the failed ones. Rejected: a log of all merged names, which grows with the
//! number of objects.
//!
//! Format: the text of [`MAGIC`], the SHA-256 of the rest, and a [`RunState`] in the encoding of
//! [`benthic_core::codec`].

use benthic_core::codec::{Decoded, Decoder, Encode, Wire};
use benthic_core::{Error, ListToken, OptionalExtension, Result, wire_enum};
use benthic_program::local::{self, NewFile};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The number is the version of the format.
const MAGIC: &[u8] = b"benthic map 1\n";
const HASH_BYTES: usize = 32;

/// Where the listing continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    Start,
    After(ListToken),
    End,
}

/// The progress of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct RunState {
    /// The arguments that determine the result. They must be the same when the run continues.
    pub run: BTreeMap<String, String>,
    /// The page of the listing that is being worked on.
    pub position: Position,
    /// The merged objects of that page.
    pub merged: BTreeSet<String>,
    /// The failed objects of earlier pages.
    pub failed: BTreeSet<String>,
    /// The number of all merged objects.
    pub objects: u64,
    /// Their merged result. `None` before the first merge.
    pub result: Option<Bytes>,
}

wire_enum! {
    Position { 1 Start {} 2 After { 0: token } 3 End {} }
}

impl Wire for RunState {
    fn put(&self, out: &mut Vec<u8>) {
        self.run.put(out);
        self.position.put(out);
        for names in [&self.merged, &self.failed] {
            out.put_len(names.len());
            names.iter().for_each(|name| out.put_bytes(name.as_bytes()));
        }
        self.objects.put(out);
        self.result.put(out);
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<RunState> {
        let names = |input: &mut Decoder<'_>| Ok(Vec::<String>::get(input)?.into_iter().collect());
        Ok(RunState {
            run: Wire::get(input)?,
            position: Wire::get(input)?,
            merged: names(input)?,
            failed: names(input)?,
            objects: Wire::get(input)?,
            result: Wire::get(input)?,
        })
    }
}

impl RunState {
    /// The state of a run that begins.
    pub fn new(run: BTreeMap<String, String>) -> RunState {
        RunState {
            run,
            position: Position::Start,
            merged: BTreeSet::new(),
            failed: BTreeSet::new(),
            objects: 0,
            result: None,
        }
    }

    /// Loads the state of an interrupted run. Without a file, the run begins.
    ///
    /// # Errors
    /// `InvalidArgument` if the file is something else, or belongs to another run; `Corrupt` if it
    /// is damaged; those of the file system.
    pub fn load(path: &Path, run: BTreeMap<String, String>) -> Result<RunState> {
        let Some(content) = local::read_file(path).optional()? else { return Ok(RunState::new(run)) };
        let data = content.data;
        let state = RunState::decode_file(&data).map_err(|error| error.with("path", path.display()))?;
        for (key, now) in &run {
            let then = state.run.get(key).map_or("", String::as_str);
            if then != now {
                let message = format!(
                    "the file belongs to another run, whose {key} is different; remove it to begin again, or name another file"
                );
                return Err(Error::invalid_argument(message)
                    .with("path", path.display())
                    .with("then", then)
                    .with("now", now));
            }
        }
        Ok(state)
    }

    fn decode_file(data: &[u8]) -> Result<RunState> {
        let Some(rest) = data.strip_prefix(MAGIC) else {
            let message = "this is not a file of `benthic map --resume`; remove it, or name another file";
            return Err(Error::invalid_argument(message));
        };
        let damaged = || Error::corrupt("the file is damaged; remove it to begin again");
        let (hash, encoded) = rest.split_at_checked(HASH_BYTES).ok_or_else(damaged)?;
        if hash != &Sha256::digest(encoded)[..] {
            return Err(damaged());
        }
        RunState::decode(encoded).map_err(|_| damaged())
    }

    /// Replaces the file. After a crash or a power cut, it has the old or the new state.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn save(&self, path: &Path) -> Result<()> {
        let encoded = self.encode();
        NewFile::write_durable(path, &[MAGIC, &Sha256::digest(&encoded), &encoded].concat())
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
