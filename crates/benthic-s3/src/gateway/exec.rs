//! Code on GET: `GET /BUCKET/KEY?x-benthic-exec=CLASS.METHOD` answers with the result of a method
//! that reads the object's data.
//!
//! The method runs in the store, beside the data, if they are in one piece and not encrypted.
//! Otherwise the gateway reads the data and runs the same method. The action `benthic:Exec` permits
//! it, in addition to the one that a read needs.

use super::Gateway;
use crate::sal::{Bucket, DataKey, Object, Sal};
use async_trait::async_trait;
use benthic_core::{ClassCall, Error, ErrorKind, ObjectId, Pool, Result};
use bytes::{Bytes, BytesMut};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result, s3_error};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The beginning of the names of our own parameters.
const PREFIX: &str = "x-benthic-";
/// The parameter of a request that names the method.
pub(super) const METHOD: &str = "x-benthic-exec";
/// The parameter with the method's input.
const INPUT: &str = "x-benthic-input";
/// The header of an answer that says where the method ran.
pub(super) const RAN_AT: &str = "x-benthic-exec-at";
/// The action of policies.
pub(super) const ACTION: &str = "benthic:Exec";
/// Limit on the data that the gateway reads to run a method itself.
const DATA_BYTES_MAX: u64 = 64 << 20;

/// Where a method ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RanAt {
    Store,
    Gateway,
}

impl RanAt {
    pub(super) fn label(self) -> &'static str {
        match self {
            RanAt::Store => "store",
            RanAt::Gateway => "gateway",
        }
    }
}

/// Runs methods of classes.
#[async_trait]
pub trait Code: Send + Sync {
    /// Runs a method that reads, in the store if it can, and returns its result.
    ///
    /// # Errors
    /// `NotFound` for an unknown class or method; `InvalidArgument` for a method that writes; those
    /// of the method and of the store.
    async fn run(&self, call: ClassCall, data: ObjectData<'_>) -> Result<(Bytes, RanAt)>;

    /// Runs a method of the class `select`, if it can run in the store.
    ///
    /// # Errors
    /// Those of the method and of the store.
    async fn run_in_store(&self, call: ClassCall, data: &ObjectData<'_>) -> Result<Option<Bytes>>;
}

/// The data on which a method runs.
pub struct ObjectData<'a> {
    pub(crate) sal: &'a dyn Sal,
    pub(crate) bucket: &'a Bucket,
    pub(crate) object: &'a Object,
    pub(crate) data_key: Option<&'a DataKey>,
}

impl ObjectData<'_> {
    /// The object of a pool that has all data and nothing else; `None` if there is none.
    ///
    /// # Errors
    /// Those of [`Objects::whole_data`](crate::sal::Objects::whole_data).
    pub async fn in_one_piece(&self) -> Result<Option<(Arc<dyn Pool>, ObjectId)>> {
        self.sal.whole_data(self.bucket, self.object).await
    }

    /// Checks that the data are not too large for [`ObjectData::read`].
    ///
    /// # Errors
    /// `LimitExceeded` if they are larger than 64 MiB.
    pub fn check_size(&self) -> Result<()> {
        let size_bytes = self.object.size_bytes;
        if size_bytes <= DATA_BYTES_MAX {
            return Ok(());
        }
        let message = "the object is in several pieces and larger than 64 MiB; no method can run on it";
        Err(Error::limit_exceeded(message).with("size_bytes", size_bytes))
    }

    /// Reads all data.
    ///
    /// # Errors
    /// Those of [`ObjectData::check_size`] and of a read.
    pub async fn read(&self) -> Result<Bytes> {
        self.check_size()?;
        self.read_range(self.object.all()).await
    }

    /// Reads a range into memory.
    ///
    /// # Errors
    /// Those of a read.
    pub(super) async fn read_range(&self, range: Range<u64>) -> Result<Bytes> {
        let mut data = BytesMut::with_capacity((range.end - range.start) as usize);
        let mut reader = self.sal.read(self.bucket, self.object, range, None, self.data_key).await?;
        while let Some(piece) = reader.next().await? {
            data.extend_from_slice(&piece);
        }
        Ok(data.freeze())
    }
}

/// Whether a query has parameters of our own, which only GetObject takes.
pub(super) fn is_wanted(query: &str) -> bool {
    url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name.starts_with(PREFIX))
}

/// Splits CLASS.METHOD.
pub fn class_and_method(name: &str) -> Option<(&str, &str)> {
    name.split_once('.').filter(|(class, method)| ![class, method].contains(&&""))
}

/// The call that a request asks for, if it does.
pub(super) fn requested_call<T>(request: &S3Request<T>) -> S3Result<Option<ClassCall>> {
    let query = request.uri.query().unwrap_or_default();
    let (mut name, mut input) = (None, None);
    for (parameter, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let place = match &*parameter {
            METHOD => &mut name,
            INPUT => &mut input,
            other if other.starts_with(PREFIX) => {
                return Err(s3_error!(InvalidArgument, "unknown parameter '{other}'"));
            }
            _ => continue,
        };
        if place.replace(value).is_some() {
            return Err(s3_error!(InvalidArgument, "the parameter '{parameter}' is given twice"));
        }
    }
    let Some(name) = name else {
        return match input {
            None => Ok(None),
            Some(_) => Err(s3_error!(InvalidArgument, "{INPUT} needs {METHOD}")),
        };
    };
    let Some((class, method)) = class_and_method(&name) else {
        return Err(s3_error!(InvalidArgument, "{METHOD} must have the form CLASS.METHOD"));
    };
    let input = input.unwrap_or_default();
    // Bytes that are not UTF-8 were replaced.
    if input.contains(char::REPLACEMENT_CHARACTER) {
        return Err(s3_error!(InvalidArgument, "{INPUT} is not UTF-8"));
    }
    Ok(Some(ClassCall::new(class, method, input.into_owned())))
}

impl Gateway {
    pub(super) async fn run_method(
        &self,
        bucket: &Bucket,
        object: &Object,
        data_key: Option<&DataKey>,
        call: ClassCall,
    ) -> S3Result<(Bytes, RanAt)> {
        let Some(code) = &self.code else {
            return Err(s3_error!(NotImplemented, "this server runs no methods"));
        };
        let data = ObjectData { sal: self.sal.as_ref(), bucket, object, data_key };
        let ran = code.run(call, data).await.map_err(failure)?;
        self.metrics.method(ran.1);
        self.metrics.sent_bytes.fetch_add(ran.0.len() as u64, Relaxed);
        Ok(ran)
    }
}

/// The error for the caller. It describes a fault of the call, but neither the place of the data
/// nor a fault of the store.
pub(super) fn failure(error: Error) -> S3Error {
    let code = match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::InvalidArgument
        | ErrorKind::LimitExceeded
        | ErrorKind::ClassFailed => S3ErrorCode::InvalidRequest,
        ErrorKind::Unsupported => S3ErrorCode::NotImplemented,
        ErrorKind::PermissionDenied => {
            tracing::warn!(%error, "the store does not permit a method");
            S3ErrorCode::AccessDenied
        }
        _ => return super::error::object(error),
    };
    let mut answer = S3Error::with_message(code, error.message().to_owned());
    answer.set_source(Box::new(error));
    answer
}
