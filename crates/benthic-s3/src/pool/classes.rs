//! Storage classes: which pool has the data of which class.
//!
//! A record maps a class to a pool. Data name their class and not their pool, so the pool of a
//! class never changes, and a class that is no longer offered keeps its record. Therefore a gateway
//! may keep pools open for ever.

use super::PoolSal;
use crate::sal::{RecordChange, RecordKind, Records};
use benthic_classes::bucket::codec::Version;
use benthic_classes::bucket::wire::check_class;
use benthic_core::codec::Wire;
use benthic_core::{Error, ErrorKind, Pool, Result, Store};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The class that has no record. Its pool is the data pool of the gateway.
pub const STANDARD: &str = "STANDARD";
/// Limit of the storage classes of a store.
const CLASSES_MAX: usize = 64;

benthic_classes::wire! {
    /// A storage class, stored under its name.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct StorageClass {
        pub version: Version,
        /// The pool of its data.
        pub pool: String,
        /// Whether the gateway accepts new data in this class.
        pub offered: bool,
    }
}

/// The pools of storage classes that this process has opened.
#[derive(Default)]
pub(super) struct ClassPools {
    open: Mutex<HashMap<String, Arc<dyn Pool>>>,
}

impl PoolSal {
    /// The pool of a class; `None` is the standard class.
    ///
    /// # Errors
    /// `Corrupt` if the class has no record, or its pool is gone; those of the store.
    pub(super) async fn pool_of(&self, class: Option<&str>) -> Result<Arc<dyn Pool>> {
        let Some(class) = class else { return Ok(Arc::clone(&self.data)) };
        if let Some(pool) = self.class_pools.open.lock().get(class) {
            return Ok(Arc::clone(pool));
        }
        let record = self.storage_class(class).await?.ok_or_else(|| {
            Error::corrupt("the storage class of the data has no record").with("class", class)
        })?;
        let pool = match self.store()?.open_pool(&record.pool).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(error.with_kind(ErrorKind::Corrupt).with("class", class));
            }
            opened => opened?,
        };
        self.class_pools.open.lock().insert(class.to_owned(), Arc::clone(&pool));
        Ok(pool)
    }

    /// All pools that may have data of buckets. A pool may occur several times.
    pub(super) async fn data_pools(&self) -> Result<Vec<Arc<dyn Pool>>> {
        let mut pools = vec![Arc::clone(&self.data)];
        for (class, _) in self.storage_classes().await? {
            pools.push(self.pool_of(Some(&class)).await?);
        }
        Ok(pools)
    }

    fn store(&self) -> Result<&Arc<dyn Store>> {
        let message = "this process has opened the buckets without storage classes";
        self.options.store.as_ref().ok_or_else(|| Error::unsupported(message))
    }

    /// The record of a class.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that no class can have; those of the store.
    pub async fn storage_class(&self, name: &str) -> Result<Option<StorageClass>> {
        check_class(Some(name))?;
        let found = self.record(RecordKind::StorageClass, name).await?;
        found.map(|record| StorageClass::from_stored(&record)).transpose()
    }

    /// All classes that have a record, by name.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn storage_classes(&self) -> Result<Vec<(String, StorageClass)>> {
        let (found, _) = self.list_records(RecordKind::StorageClass, "", None, CLASSES_MAX).await?;
        found.into_iter().map(|(name, record)| Ok((name, StorageClass::from_stored(&record)?))).collect()
    }

    /// Offers a class, whose data are in this pool.
    ///
    /// # Errors
    /// `NotFound` if there is no such pool; `Conflict` if the class has another pool;
    /// `LimitExceeded` above 64 classes; `InvalidArgument`.
    pub async fn set_storage_class(&self, name: &str, pool: &str) -> Result<()> {
        if name == STANDARD {
            let message = "the pool of STANDARD is that of --data-pool, or else that of --pool";
            return Err(Error::invalid_argument(message));
        }
        self.store()?.open_pool(pool).await?;
        let old = self.storage_class(name).await?;
        match &old {
            Some(old) if old.pool != pool => {
                let message = "the class may have data in its pool; choose another name for the class";
                return Err(Error::conflict(message).with("class", name).with("pool", &old.pool));
            }
            None if self.storage_classes().await?.len() >= CLASSES_MAX => {
                return Err(
                    Error::limit_exceeded("there are too many storage classes").with("max", CLASSES_MAX)
                );
            }
            _ => {}
        }
        let new = StorageClass { version: Version, pool: pool.to_owned(), offered: true };
        self.swap_class(name, old.as_ref(), &new).await
    }

    /// Stops offering a class. Its data stay, and can be read.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn withdraw_storage_class(&self, name: &str) -> Result<()> {
        let old = self.storage_class(name).await?.filter(|class| class.offered).ok_or_else(|| {
            let message = "there is no such storage class; `benthic s3 storage-class ls` lists the classes";
            Error::not_found(message).with("class", name)
        })?;
        self.swap_class(name, Some(&old), &StorageClass { offered: false, ..old.clone() }).await
    }

    async fn swap_class(&self, name: &str, old: Option<&StorageClass>, new: &StorageClass) -> Result<()> {
        if old == Some(new) {
            return Ok(());
        }
        let change = RecordChange {
            kind: RecordKind::StorageClass,
            name: name.to_owned(),
            expected: old.map(Wire::encode),
            new: Some(new.encode()),
        };
        self.swap_records(&[change]).await
    }
}
