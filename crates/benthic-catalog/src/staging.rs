//! Files that clients upload before they commit them. They are in a bucket of the store's own
//! driver that no account owns. A commit copies their rows into the table and removes them.

use crate::auth::OWNER;
use crate::iceberg::keys::{BUCKET, Folder, Key};
use benthic_core::{Environment, Error, ErrorKind, OptionalExtension, Result};
use benthic_s3::sal::{Bucket, Delete, Entry, List, ListKind, NewBucket, Object, Sal};
use bytes::{Bytes, BytesMut};
use futures::future::{BoxFuture, FutureExt};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// The bucket's name, which S3 does not allow: no other bucket can have it.
const STAGING: &str = "Benthic-Catalog";
/// Age at which a file that nobody committed is removed.
const AGE_MS: u64 = 24 * 60 * 60 * 1_000;

/// The uploaded files.
pub struct Staging {
    sal: Arc<dyn Sal>,
    environment: Environment,
    bucket: OnceCell<Bucket>,
}

impl Staging {
    pub fn new(sal: Arc<dyn Sal>, environment: Environment) -> Staging {
        Staging { sal, environment, bucket: OnceCell::new() }
    }

    pub fn sal(&self) -> &Arc<dyn Sal> {
        &self.sal
    }

    /// The bucket, which the first upload creates.
    pub async fn bucket(&self) -> Result<&Bucket> {
        let create = || async {
            if let Some(bucket) = self.sal.bucket(STAGING).await.optional()? {
                return Ok(bucket);
            }
            let new = NewBucket { name: STAGING.to_owned(), owner: OWNER.to_owned(), ..NewBucket::default() };
            match self.sal.create_bucket(new).await {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => self.sal.bucket(STAGING).await,
                created => created,
            }
        };
        self.bucket.get_or_try_init(create).await
    }

    /// An uploaded file of a table by its URI.
    ///
    /// # Errors
    /// `InvalidArgument` if the URI is not in the table's folder, or no such file was uploaded.
    pub async fn file(&self, folder: &Folder, uri: &str) -> Result<StagedFile> {
        let invalid = |message: &str| Error::invalid_argument(message).with("file", uri);
        let key = uri.strip_prefix(&format!("s3://{BUCKET}/")).filter(|key| is_staged(folder, key));
        let key = key.ok_or_else(|| invalid("the commit names a file outside the table's folder"))?;
        let bucket = self.bucket().await?;
        let Some(object) = self.sal.object(bucket, key, None).await.optional()? else {
            return Err(invalid("the commit names a file that was not uploaded"));
        };
        Ok(StagedFile { sal: Arc::clone(&self.sal), bucket: bucket.clone(), object })
    }

    /// Removes files. The rows are committed, so a file that cannot be removed is left to
    /// [`Staging::clean`].
    pub async fn remove(&self, files: impl IntoIterator<Item = StagedFile>) {
        for file in files {
            let delete = Delete { key: file.object.key.clone(), ..Delete::default() };
            if let Err(error) = self.sal.delete(&file.bucket, &delete).await {
                tracing::warn!(%error, key = file.object.key, "a committed upload cannot be removed");
            }
        }
    }

    /// Removes the files that nobody has committed for a day, and collects the garbage of the
    /// driver.
    ///
    /// # Errors
    /// Those of the driver; a later call continues.
    pub async fn clean(&self) -> Result<u64> {
        let Some(bucket) = self.sal.bucket(STAGING).await.optional()? else { return Ok(0) };
        let old_ms = self.environment.unix_ms().saturating_sub(AGE_MS);
        let (mut after, mut removed) = (None, 0);
        loop {
            let list = List {
                kind: ListKind::Objects,
                prefix: String::new(),
                delimiter: String::new(),
                after,
                entries_max: 1_000,
            };
            let page = self.sal.list(&bucket, &list).await?;
            for entry in page.entries {
                if let Entry::Version(version) = entry
                    && version.modified_ms < old_ms
                {
                    let delete = Delete { key: version.key, ..Delete::default() };
                    self.sal.delete(&bucket, &delete).await?;
                    removed += 1;
                }
            }
            after = page.next;
            if after.is_none() {
                self.sal.collect().await?;
                return Ok(removed);
            }
        }
    }
}

/// Whether a key is that of an upload for a table: in its folder, and not one of the files that it
/// has anyway.
pub fn is_staged(folder: &Folder, key: &str) -> bool {
    key.strip_prefix(&format!("{folder}/")).is_some_and(|rest| !rest.is_empty()) && Key::parse(key).is_none()
}

/// An uploaded file.
#[derive(Clone)]
pub struct StagedFile {
    sal: Arc<dyn Sal>,
    bucket: Bucket,
    object: Object,
}

impl StagedFile {
    /// The whole file.
    ///
    /// # Errors
    /// `LimitExceeded` if it is larger than `bytes_max`; errors of the driver.
    pub async fn bytes(&self, bytes_max: u64) -> Result<Bytes> {
        if self.object.size_bytes > bytes_max {
            return Err(Error::limit_exceeded("an uploaded file is too large")
                .with("file", &self.object.key)
                .with("len_bytes", self.object.size_bytes)
                .with("len_bytes_max", bytes_max));
        }
        self.range(self.object.all()).await
    }

    async fn range(&self, range: Range<u64>) -> Result<Bytes> {
        let mut reader = self.sal.read(&self.bucket, &self.object, range, None, None).await?;
        let mut bytes = BytesMut::new();
        while let Some(piece) = reader.next().await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes.freeze())
    }
}

impl AsyncFileReader for StagedFile {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        async { self.range(range).await.map_err(external) }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        async move {
            let size_bytes = self.object.size_bytes;
            let reader = ParquetMetaDataReader::new().with_arrow_reader_options(options);
            Ok(Arc::new(reader.load_and_finish(self, size_bytes).await?))
        }
        .boxed()
    }
}

fn external(error: Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}
