//! The object beside which a module runs, as an [`ObjectAccess`].

use crate::benthic::{self, Object};
use benthic_core::{Action, Error, ErrorKind, LogLevel, ObjectAccess, OmapPage, Result, Stat};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Marks an error of the host, which knows its message.
const HOST: &str = "an error of the host";

pub struct GuestObject<'a>(pub &'a mut Object);

/// Whether the host reported this error, and knows its message.
pub fn has_host_message(error: &Error) -> bool {
    error.message() == HOST
}

fn host(error: benthic::Error) -> Error {
    Error::new(ErrorKind::from_errno(error.errno(), Action::Exec), HOST)
}

fn entries(entries: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<(Bytes, Bytes)> {
    entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

fn slices(keys: &[Bytes]) -> Vec<&[u8]> {
    keys.iter().map(|key| &key[..]).collect()
}

impl ObjectAccess for GuestObject<'_> {
    fn stat(&mut self) -> Result<Stat> {
        let stat = self.0.stat().map_err(host)?;
        Ok(Stat { size_bytes: stat.size_bytes, modified_unix_ns: stat.modified_unix_ns })
    }

    fn read(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<Bytes> {
        self.0.read(offset_bytes, len_bytes).map(Bytes::from).map_err(host)
    }

    fn get_xattr(&mut self, name: &str) -> Result<Bytes> {
        self.0.get_xattr(name).map(Bytes::from).map_err(host)
    }

    fn list_xattrs(&mut self) -> Result<BTreeMap<String, Bytes>> {
        let xattrs = self.0.list_xattrs().map_err(host)?.into_iter();
        Ok(xattrs.map(|(name, value)| (String::from_utf8_lossy(&name).into_owned(), value.into())).collect())
    }

    fn omap_get(&mut self, keys: &[Bytes]) -> Result<Vec<(Bytes, Bytes)>> {
        self.0.omap_get(&slices(keys)).map(entries).map_err(host)
    }

    fn omap_range(&mut self, after: Option<&[u8]>, prefix: &[u8], entries_max: usize) -> Result<OmapPage> {
        let entries_max = entries_max.try_into().unwrap_or(u32::MAX);
        let (page, more) = self.0.omap_range(after, prefix, entries_max).map_err(host)?;
        Ok(OmapPage { entries: entries(page), more })
    }

    fn create(&mut self, exclusive: bool) -> Result<()> {
        self.0.create(exclusive).map_err(host)
    }

    fn write(&mut self, offset_bytes: u64, data: Bytes) -> Result<()> {
        self.0.write(offset_bytes, &data).map_err(host)
    }

    fn write_full(&mut self, data: Bytes) -> Result<()> {
        self.0.write_full(&data).map_err(host)
    }

    fn append(&mut self, data: Bytes) -> Result<()> {
        self.0.append(&data).map_err(host)
    }

    fn truncate(&mut self, size_bytes: u64) -> Result<()> {
        self.0.truncate(size_bytes).map_err(host)
    }

    fn zero(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        self.0.zero(offset_bytes, len_bytes).map_err(host)
    }

    fn remove(&mut self) -> Result<()> {
        self.0.remove().map_err(host)
    }

    fn set_xattr(&mut self, name: &str, value: Bytes) -> Result<()> {
        self.0.set_xattr(name, &value).map_err(host)
    }

    fn omap_set(&mut self, entries: BTreeMap<Bytes, Bytes>) -> Result<()> {
        let entries = entries.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        self.0.omap_set(&entries).map_err(host)
    }

    fn omap_remove(&mut self, keys: &[Bytes]) -> Result<()> {
        self.0.omap_remove(&slices(keys)).map_err(host)
    }

    fn omap_clear(&mut self) -> Result<()> {
        self.0.omap_clear().map_err(host)
    }

    fn log(&mut self, _level: LogLevel, message: &str) {
        benthic::log(message);
    }
}
