//! Copies the intact objects of a damaged store into a new store.

use crate::store::{DamagedStore, ObjectReader};
use crate::{EmbeddedStore, Options};
use benthic_core::{
    Action, Error, ErrorKind, Finding, ObjectAddress, ObjectId, Pool, Result, Store, WriteOp,
};
use bytes::Bytes;
use futures::executor::block_on;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PIECE_BYTES: u64 = 1024 * 1024;
/// Maximum number of reported losses. Further ones are only counted.
const LOSSES_MAX: usize = 10_000;

/// The result of [`salvage`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvageReport {
    pub pools: u64,
    /// Objects in the new store, each of them complete.
    pub objects: u64,
    pub data_bytes: u64,
    /// Objects whose names are known but that are not in the new store.
    pub objects_lost: u64,
    /// The losses, objects and others, as far as they are known.
    pub lost: Vec<Finding>,
}

/// Copies every intact object, with its attributes and omap, from the damaged store in `from` into
/// a new store in `into`.
///
/// The damaged store is not changed, so other tools can still be tried afterwards. The copies get
/// new modification times and versions. Blocks.
///
/// # Errors
/// `AlreadyExists` if `into` is not empty, `Busy` if a process owns the damaged store, `Corrupt` if
/// nothing of it can be read. Any error of a write; the new store is then incomplete and should be
/// removed.
pub fn salvage(from: &Path, into: &Path, options: &Options) -> Result<SalvageReport> {
    let work = WorkDir::new(into)?;
    let mut salvaged = SalvageReport::default();
    let damaged = DamagedStore::open(from, &work.0, options.cache_bytes, &mut salvaged.lost)?;
    let store = EmbeddedStore::open(into, true, options.clone())?;
    let mut copy = Copy { damaged: &damaged, store: &store, pools: HashMap::new(), salvaged };
    for (id, name) in damaged.pools() {
        copy.pool(id, name)?;
    }
    let list_is_damaged = damaged.objects(&mut |pool, id| copy.object(pool, &id))?;
    let mut salvaged = copy.salvaged;
    if list_is_damaged {
        let message =
            "the list of objects is damaged; objects named only in its damaged parts are lost".to_owned();
        salvaged.lost.push(Finding { object: None, message });
    }
    block_on(store.flush())?;
    store.close()?;
    Ok(salvaged)
}

/// The directory for copies of the files that opening the store would change. Dropping it removes
/// the directory.
struct WorkDir(PathBuf);

impl WorkDir {
    fn new(into: &Path) -> Result<WorkDir> {
        let occupied = match fs::read_dir(into) {
            Ok(mut entries) => entries.next().is_some(),
            Err(e) => e.kind() != std::io::ErrorKind::NotFound,
        };
        if occupied {
            let message = "the saved objects need a new store; name a directory that does not exist";
            return Err(Error::already_exists(message).with("dir", into.display()));
        }
        let mut name = into.as_os_str().to_owned();
        name.push(".salvage");
        let path = PathBuf::from(name);
        let made = into.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::create_dir(&path));
        made.map_err(|e| {
            Error::io(Action::Admin, "the directory for temporary copies cannot be created", e)
                .with("path", path.display())
        })?;
        Ok(WorkDir(path))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "the temporary copies of the damaged store cannot be removed; remove them by hand");
        }
    }
}

struct Copy<'a> {
    damaged: &'a DamagedStore,
    store: &'a EmbeddedStore,
    pools: HashMap<u32, Arc<dyn Pool>>,
    salvaged: SalvageReport,
}

impl Copy<'_> {
    fn pool(&mut self, id: u32, name: &str) -> Result<Arc<dyn Pool>> {
        if let Some(pool) = self.pools.get(&id) {
            return Ok(Arc::clone(pool));
        }
        block_on(self.store.create_pool(name))?;
        let pool = block_on(self.store.open_pool(name))?;
        self.pools.insert(id, Arc::clone(&pool));
        self.salvaged.pools += 1;
        Ok(pool)
    }

    fn object(&mut self, pool: u32, id: &ObjectId) -> Result<()> {
        let name = self.damaged.pool_name(pool);
        let to = self.pool(pool, &name)?;
        let whole = match self.damaged.object(pool, id) {
            Ok(Some(whole)) => whole,
            Ok(None) => return Ok(()),
            Err(error) => return self.record_loss(to.as_ref(), id, error),
        };
        let data_bytes = whole.size_bytes();
        match copy_object(whole, to.as_ref(), id) {
            Ok(()) => {
                self.salvaged.objects += 1;
                self.salvaged.data_bytes += data_bytes;
                Ok(())
            }
            Err(CopyError::Read(error)) => self.record_loss(to.as_ref(), id, error),
            Err(CopyError::Write(error)) => Err(error),
        }
    }

    /// Records the loss of an object, and removes its partial copy.
    fn record_loss(&mut self, pool: &dyn Pool, id: &ObjectId, error: Error) -> Result<()> {
        match block_on(pool.write(id, WriteOp::new().remove().buffered())) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.salvaged.objects_lost += 1;
        if self.salvaged.lost.len() < LOSSES_MAX {
            let address = ObjectAddress { pool: pool.name().to_owned(), object: id.clone() };
            self.salvaged
                .lost
                .push(Finding { object: Some(address.to_string()), message: error.to_string() });
        }
        Ok(())
    }
}

enum CopyError {
    Read(Error),
    Write(Error),
}

fn copy_object(
    mut whole: ObjectReader<'_>,
    pool: &dyn Pool,
    id: &ObjectId,
) -> std::result::Result<(), CopyError> {
    let write = |op: WriteOp| block_on(pool.write(id, op.buffered())).map_err(CopyError::Write);
    write(WriteOp::new().create(true))?;
    for (name, value) in whole.xattrs().map_err(CopyError::Read)? {
        write(WriteOp::new().set_xattr(name, value))?;
    }
    let mut after: Option<Bytes> = None;
    loop {
        let page = whole.omap(after.as_deref()).map_err(CopyError::Read)?;
        after = page.entries.last().map(|(key, _)| key.clone());
        if !page.entries.is_empty() {
            write(WriteOp::new().omap_set(page.entries))?;
        }
        if !page.more {
            break;
        }
    }
    for offset_bytes in (0..whole.size_bytes()).step_by(PIECE_BYTES as usize) {
        let data = whole.read(offset_bytes, PIECE_BYTES).map_err(CopyError::Read)?;
        let end_bytes = offset_bytes + data.len() as u64;
        // Do not write zeros, so that holes stay holes.
        if end_bytes == whole.size_bytes() || data.iter().any(|byte| *byte != 0) {
            write(WriteOp::new().write(offset_bytes, data))?;
        }
    }
    Ok(())
}
