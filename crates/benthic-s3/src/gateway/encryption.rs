//! Server-side encryption: the key that encrypts an object, and the callers that may use it.
//!
//! Each object, and each upload, has a data key of its own, with which the driver encrypts the
//! data. The gateway stores the data key sealed, by one of three keys:
//!
//! - SSE-S3 (`AES256`): a key that derives from the sealing key.
//! - SSE-KMS (`aws:kms`): a key of an account, if the caller may use it. It is in the store, or in
//!   Vault.
//! - SSE-C: a key that the client sends with each request, and that is never stored.
//!
//! The seal is bound to the bucket, the key of the object and the encryption context, so the sealed
//! data key of one object is worthless at another. A copy between two encrypted objects seals the
//! same data key again and shares the data.
//!
//! As on AWS, the ETag of an object under SSE-KMS and SSE-C is not the MD5 of its data, which would
//! tell whether two objects have the same data.

use super::Gateway;
use super::auth::{Authorized, Peer, authorize_for_account};
use super::bucket_encryption::{EncryptBy, default_of};
use super::checksums::unbase64;
use crate::identity::{Identities, KmsKey};
use crate::sal::encryption::ENCRYPTION;
use crate::sal::{Attributes, Bucket, DataKey, Object};
use crate::seal::{Sealer, hex, unhex};
use crate::vault::{self, Vault};
use benthic_core::ErrorKind;
use bytes::Bytes;
use hyper::StatusCode;
use s3s::dto::ServerSideEncryption;
use s3s::{S3Error, S3Request, S3Result, s3_error};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const AES256: &str = ServerSideEncryption::AES256;
pub(super) const AWS_KMS: &str = ServerSideEncryption::AWS_KMS;
/// The version of stored documents.
pub(super) const FORM: u32 = 1;
/// Maximum size of an encryption context, in bytes.
const CONTEXT_BYTES_MAX: usize = 1024;
/// The header that asks for SSE-S3 or SSE-KMS. Names of other headers begin with it.
pub(super) const HEADER: &str = "x-amz-server-side-encryption";
/// The header that names a KMS key.
pub(super) const KMS_KEY_HEADER: &str = "x-amz-server-side-encryption-aws-kms-key-id";

/// The kind of key that seals a data key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SealedBy {
    S3,
    Kms {
        /// The ARN of the key.
        arn: String,
        version: usize,
        context: Option<String>,
        bucket_key: Option<bool>,
    },
    Customer,
}

impl SealedBy {
    pub fn algorithm(&self) -> Option<ServerSideEncryption> {
        match self {
            SealedBy::S3 => Some(ServerSideEncryption::from_static(AES256)),
            SealedBy::Kms { .. } => Some(ServerSideEncryption::from_static(AWS_KMS)),
            SealedBy::Customer => None,
        }
    }

    pub fn kms_key(&self) -> Option<String> {
        match self {
            SealedBy::Kms { arn, .. } => Some(arn.clone()),
            SealedBy::S3 | SealedBy::Customer => None,
        }
    }

    pub fn bucket_key(&self) -> Option<bool> {
        match self {
            SealedBy::Kms { bucket_key, .. } => *bucket_key,
            SealedBy::S3 | SealedBy::Customer => None,
        }
    }
}

/// The attribute of an encrypted object or upload, as JSON.
#[derive(Serialize, Deserialize)]
struct Stored {
    form: u32,
    by: SealedBy,
    /// The data key, sealed.
    data_key: String,
}

/// A key that the client sent (SSE-C).
#[derive(Clone)]
pub(super) struct CustomerKey {
    key: [u8; 32],
    md5: String,
}

/// The headers of a request with a key of the client.
#[derive(Clone, Copy, Default)]
pub(super) struct CustomerHeaders<'a> {
    pub algorithm: Option<&'a str>,
    pub key: Option<&'a str>,
    pub md5: Option<&'a str>,
}

/// Collects the key of the client from an input.
macro_rules! customer_headers {
    ($input:expr) => {
        $crate::gateway::encryption::CustomerHeaders {
            algorithm: $input.sse_customer_algorithm.as_deref(),
            key: $input.sse_customer_key.as_deref(),
            md5: $input.sse_customer_key_md5.as_deref(),
        }
    };
}
pub(super) use customer_headers;

/// How a request asks to encrypt a new object.
#[derive(Clone, Copy, Default)]
pub(super) struct EncryptionHeaders<'a> {
    pub algorithm: Option<&'a str>,
    pub kms_key: Option<&'a str>,
    pub context: Option<&'a str>,
    pub bucket_key: Option<bool>,
    pub customer: CustomerHeaders<'a>,
}

/// Collects the wanted encryption from an input of PutObject, CopyObject or CreateMultipartUpload.
macro_rules! encryption_headers {
    ($input:expr) => {
        $crate::gateway::encryption::EncryptionHeaders {
            algorithm: $input.server_side_encryption.as_ref().map(|algorithm| algorithm.as_str()),
            kms_key: $input.ssekms_key_id.as_deref(),
            context: $input.ssekms_encryption_context.as_deref(),
            bucket_key: $input.bucket_key_enabled,
            customer: $crate::gateway::encryption::customer_headers!($input),
        }
    };
}
pub(super) use encryption_headers;

/// The key that seals data keys and opens them.
enum Wrap {
    Sealer(Sealer),
    /// A key in Vault, by its name.
    Vault(Arc<Vault>, String),
}

/// Seals the data key of a new object.
struct Seal {
    by: SealedBy,
    wrap: Wrap,
    customer_md5: Option<String>,
}

/// The encryption of an object or an upload, with its data key.
pub(super) struct Encryption {
    pub by: SealedBy,
    data_key: DataKey,
    customer_md5: Option<String>,
}

/// Sets the fields of an output that tell how an object is encrypted, without the key of a client.
macro_rules! set_encryption {
    ($output:expr, $by:expr) => {
        if let Some(by) = $by {
            $output.server_side_encryption = by.algorithm();
            $output.ssekms_key_id = by.kms_key();
            $output.bucket_key_enabled = by.bucket_key();
        }
    };
}
pub(super) use set_encryption;

/// Sets all fields of an output that tell how an object is encrypted.
macro_rules! set_all_encryption {
    ($output:expr, $encryption:expr) => {
        $crate::gateway::encryption::set_encryption!($output, $encryption.map(|encryption| &encryption.by));
        if let Some(md5) = $encryption.and_then(|encryption| encryption.customer_md5()) {
            $output.sse_customer_algorithm = Some("AES256".to_owned());
            $output.sse_customer_key_md5 = Some(md5);
        }
    };
}
pub(super) use set_all_encryption;

impl Encryption {
    pub fn data_key(&self) -> &DataKey {
        &self.data_key
    }

    pub fn customer_md5(&self) -> Option<String> {
        self.customer_md5.clone()
    }

    /// The entity tag of an object with this encryption. `etag` is the MD5 of the data, or that of
    /// several parts.
    pub fn etag(&self, etag: String) -> String {
        if self.by == SealedBy::S3 {
            return etag;
        }
        let keyed = blake3::keyed_hash(self.data_key.as_bytes(), etag.as_bytes());
        let parts = etag.split_once('-').map_or(String::new(), |(_, count)| format!("-{count}"));
        hex(&keyed.as_bytes()[..16]) + &parts
    }

    /// The entity tag of a copy that shares the data of an object with the encryption `source`.
    pub fn etag_of_copy(&self, source: &Encryption, etag: &str) -> String {
        if source.by == SealedBy::S3 { self.etag(etag.to_owned()) } else { etag.to_owned() }
    }
}

/// The entity tag of data, encrypted or not. `etag` is the MD5 of the data.
pub(super) fn etag_with(encryption: Option<&Encryption>, etag: String) -> String {
    if let Some(encryption) = encryption { encryption.etag(etag) } else { etag }
}

/// The kind of key that seals the data key of an object or an upload; `None` if it is not
/// encrypted.
pub(super) fn sealing_of(attributes: &Attributes) -> S3Result<Option<SealedBy>> {
    Ok(encryption_of(attributes)?.map(|stored| stored.by))
}

fn encryption_of(attributes: &Attributes) -> S3Result<Option<Stored>> {
    let Some(stored) = attributes.get(ENCRYPTION) else { return Ok(None) };
    serde_json::from_slice(stored).map(Some).map_err(|error| {
        tracing::warn!(%error, "cannot decode the encryption of an object");
        s3_error!(InternalError)
    })
}

/// Marks a part as encrypted.
pub(super) fn mark_encrypted_part(attributes: &mut Attributes) {
    attributes.insert(ENCRYPTION.to_owned(), Bytes::from_static(b"part"));
}

impl CustomerHeaders<'_> {
    pub fn is_given(&self) -> bool {
        self.algorithm.or(self.key).or(self.md5).is_some()
    }

    /// Checks the key of a client.
    ///
    /// # Errors
    /// `InvalidArgument`, `InvalidEncryptionAlgorithmError`; `InvalidRequest` if others could read
    /// the key in the network.
    pub fn parse<T>(&self, request: &S3Request<T>) -> S3Result<Option<CustomerKey>> {
        let CustomerHeaders { algorithm, key, md5 } = *self;
        if !self.is_given() {
            return Ok(None);
        }
        let peer = request.extensions.get::<Peer>();
        if !peer.is_some_and(|peer| peer.is_encrypted || peer.address.to_canonical().is_loopback()) {
            return Err(s3_error!(
                InvalidRequest,
                "Requests specifying Server Side Encryption with Customer provided keys must be made over a \
                 secure connection."
            ));
        }
        let missing = |what: &str| {
            s3_error!(
                InvalidArgument,
                "Requests specifying Server Side Encryption with Customer provided keys must provide {what}."
            )
        };
        match algorithm {
            None => return Err(missing("a valid encryption algorithm")),
            Some(AES256) => {}
            Some(_) => return Err(s3_error!(InvalidEncryptionAlgorithmError)),
        }
        let key = key.ok_or_else(|| missing("an appropriate secret key"))?;
        let md5 = md5.ok_or_else(|| missing("the client calculated MD5 of the secret key"))?;
        let key = unbase64(key).and_then(|key| <[u8; 32]>::try_from(key).ok()).ok_or_else(|| {
            s3_error!(InvalidArgument, "The secret key was invalid for the specified algorithm.")
        })?;
        if unbase64(md5).as_deref() != Some(&fast_md5::digest(&key)[..]) {
            return Err(s3_error!(
                InvalidArgument,
                "The calculated MD5 hash of the key did not match the hash that was provided."
            ));
        }
        Ok(Some(CustomerKey { key, md5: md5.to_owned() }))
    }
}

impl EncryptionHeaders<'_> {
    pub fn is_given(&self) -> bool {
        self.algorithm.or(self.kms_key).or(self.context).is_some() || self.customer.is_given()
    }

    fn check(&self) -> S3Result<()> {
        match self.algorithm {
            None | Some(AES256 | AWS_KMS) => {}
            Some(ServerSideEncryption::AWS_KMS_DSSE) => return Err(no_dsse()),
            Some(_) => {
                return Err(s3_error!(InvalidArgument, "The encryption method specified is not supported"));
            }
        }
        if self.algorithm.is_some() && self.customer.is_given() {
            return Err(s3_error!(
                InvalidArgument,
                "Server Side Encryption with Customer provided key is incompatible with the encryption method \
                 specified"
            ));
        }
        if self.algorithm != Some(AWS_KMS) && (self.kms_key.is_some() || self.context.is_some()) {
            return Err(s3_error!(
                InvalidArgument,
                "Server Side Encryption with AWS KMS managed key requires HTTP header \
                 x-amz-server-side-encryption : aws:kms"
            ));
        }
        self.context.map_or(Ok(()), check_context)
    }
}

/// Checks an encryption context: pairs of texts, as JSON in Base64.
fn check_context(context: &str) -> S3Result<()> {
    let json = (context.len() <= CONTEXT_BYTES_MAX).then(|| unbase64(context)).flatten();
    let pairs = json.and_then(|json| serde_json::from_slice::<BTreeMap<String, String>>(&json).ok());
    match pairs {
        Some(_) => Ok(()),
        None => Err(s3_error!(
            InvalidArgument,
            "The header x-amz-server-side-encryption-context shall be Base64-encoded UTF-8 string holding JSON \
             which represents a string-string map"
        )),
    }
}

/// Refuses a request that names another encryption for a part than its upload has.
pub(super) fn check_algorithm<T>(request: &S3Request<T>, upload: Option<&SealedBy>) -> S3Result<()> {
    let named = |name| request.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let is_algorithm = named(HEADER).is_none_or(|named| {
        upload.and_then(SealedBy::algorithm).is_some_and(|algorithm| algorithm.as_str() == named)
    });
    let is_key = named(KMS_KEY_HEADER).is_none_or(|named| {
        upload.and_then(SealedBy::kms_key).is_some_and(|arn| arn == named || id_of(&arn) == named)
    });
    if is_algorithm && is_key {
        return Ok(());
    }
    Err(s3_error!(InvalidArgument, "a part is encrypted as its upload is"))
}

/// Whether an encrypted object is under SSE-S3.
pub(super) fn is_s3(attributes: &Attributes) -> S3Result<bool> {
    Ok(encryption_of(attributes)?.is_some_and(|stored| stored.by == SealedBy::S3))
}

/// Refuses a request for data that names an encryption, because the object has one already.
pub(super) fn refuse_algorithm<T>(request: &S3Request<T>) -> S3Result<()> {
    if request.headers.contains_key(HEADER) {
        return Err(s3_error!(
            InvalidArgument,
            "x-amz-server-side-encryption header is not supported for this operation."
        ));
    }
    Ok(())
}

/// The name under which the data key of an object is sealed.
fn sealed_name(bucket: &str, key: &str, by: &SealedBy) -> String {
    let context = if let SealedBy::Kms { context: Some(context), .. } = by { context } else { "" };
    // A name of a bucket has no slash, and a context no line end.
    format!("{context}\n{bucket}/{key}")
}

impl Seal {
    /// Whether a copy with this seal can share the data of its source. SSE-S3 needs the MD5 of the
    /// data as the entity tag, so it can share only data of SSE-S3.
    fn can_share(&self, source: &Encryption) -> bool {
        self.by != SealedBy::S3 || source.by == SealedBy::S3
    }

    /// Seals the data key of an object, and stores it in its attributes.
    async fn seal(
        self,
        data_key: DataKey,
        bucket: &str,
        key: &str,
        to: &mut Attributes,
    ) -> S3Result<Encryption> {
        let Seal { by, wrap, customer_md5 } = self;
        let name = sealed_name(bucket, key, &by);
        let sealed = match &wrap {
            Wrap::Sealer(sealer) => {
                sealer.seal(&name, &hex(data_key.as_bytes())).map_err(super::error::object)?
            }
            Wrap::Vault(vault, key) => vault
                .encrypt(key, &name, data_key.as_bytes())
                .await
                .map_err(|failure| vault_error(failure, key))?,
        };
        let stored = serde_json::to_vec(&Stored { form: FORM, by: by.clone(), data_key: sealed });
        let stored = stored.map_err(|error| s3_error!(error, InternalError))?;
        to.insert(ENCRYPTION.to_owned(), Bytes::from(stored));
        Ok(Encryption { by, data_key, customer_md5 })
    }
}

impl Gateway {
    /// The seal for a new object, as the request asks for, else as the bucket's default; `None` if
    /// the object is not encrypted.
    async fn seal_of<T>(
        &self,
        request: &S3Request<T>,
        bucket: &Bucket,
        headers: &EncryptionHeaders<'_>,
    ) -> S3Result<Option<Seal>> {
        headers.check()?;
        if let Some(CustomerKey { key, md5 }) = headers.customer.parse(request)? {
            self.identities()?;
            let wrap = Wrap::Sealer(Sealer::with_key(key, self.environment.clone()));
            return Ok(Some(Seal { by: SealedBy::Customer, wrap, customer_md5: Some(md5) }));
        }
        let default = default_of(&bucket.attributes)?;
        let (of_default, of_bucket) = match &default {
            Some(EncryptBy::Kms { arn, bucket_key }) => (Some(id_of(arn)), *bucket_key),
            _ => (None, None),
        };
        let key = match (headers.algorithm, &default) {
            (None, None) => return Ok(None),
            (Some(AES256), _) | (None, Some(EncryptBy::S3)) => return self.seal_of_s3().map(Some),
            _ => headers.kms_key.or(of_default).ok_or_else(no_kms_key)?,
        };
        let context = headers.context.map(str::to_owned);
        let bucket_key = headers.bucket_key.or(of_bucket);
        let (id, arn, key) = self.kms_key(request, key, "kms:GenerateDataKey").await?;
        let version = key.versions.len().saturating_sub(1);
        let wrap = self.wrap_of(&id, &key, version)?;
        let by = SealedBy::Kms { arn, version, context, bucket_key };
        Ok(Some(Seal { by, wrap, customer_md5: None }))
    }

    /// The encryption of a copy, with its data key in the attributes, and whether the copy shares
    /// the data of its source. A copy of an encrypted object is encrypted, too.
    pub(super) async fn create_key_of_copy<T>(
        &self,
        request: &S3Request<T>,
        (bucket, key): (&Bucket, &str),
        headers: &EncryptionHeaders<'_>,
        source: Option<&Encryption>,
        attributes: &mut Attributes,
    ) -> S3Result<(Option<Encryption>, bool)> {
        let seal = match self.seal_of(request, bucket, headers).await? {
            None if source.is_some() => self.seal_of_s3()?,
            None => return Ok((None, true)),
            Some(seal) => seal,
        };
        let shared = source.filter(|source| seal.can_share(source));
        let data_key = match shared {
            Some(source) => source.data_key.clone(),
            None => DataKey::draw(&self.environment).map_err(super::error::object)?,
        };
        let encryption = seal.seal(data_key, &bucket.name, key, attributes).await?;
        Ok((Some(encryption), shared.is_some()))
    }

    /// Encrypts an object with SSE-S3, with a data key of its own, which goes to its attributes.
    pub(super) async fn encrypt_with_s3(
        &self,
        bucket: &Bucket,
        key: &str,
        attributes: &mut Attributes,
    ) -> S3Result<Encryption> {
        let data_key = DataKey::draw(&self.environment).map_err(super::error::object)?;
        self.seal_of_s3()?.seal(data_key, &bucket.name, key, attributes).await
    }

    /// The seal of SSE-S3.
    fn seal_of_s3(&self) -> S3Result<Seal> {
        let sealer = self.identities()?.sse_s3_sealer().map_err(super::error::object)?;
        Ok(Seal { by: SealedBy::S3, wrap: Wrap::Sealer(sealer), customer_md5: None })
    }

    /// The encryption of a new object with a data key of its own, which goes to its attributes.
    pub(super) async fn create_data_key<T>(
        &self,
        request: &S3Request<T>,
        access: &Authorized,
        key: &str,
        headers: &EncryptionHeaders<'_>,
        attributes: &mut Attributes,
    ) -> S3Result<Option<Encryption>> {
        let Some(seal) = self.seal_of(request, &access.bucket, headers).await? else { return Ok(None) };
        let data_key = DataKey::draw(&self.environment).map_err(super::error::object)?;
        seal.seal(data_key, &access.bucket.name, key, attributes).await.map(Some)
    }

    /// The encryption of an object or an upload; `None` if it is not encrypted.
    ///
    /// # Errors
    /// `InvalidRequest` if the key of the client is missing, wrong, or not needed; `AccessDenied`
    /// if the caller may not use the KMS key.
    pub(super) async fn open_data_key<T>(
        &self,
        request: &S3Request<T>,
        bucket: &Bucket,
        key: &str,
        attributes: &Attributes,
        customer: CustomerHeaders<'_>,
    ) -> S3Result<Option<Encryption>> {
        let customer = customer.parse(request)?;
        let Some(Stored { by, data_key, .. }) = encryption_of(attributes)? else {
            return if customer.is_none() { Ok(None) } else { Err(not_applicable()) };
        };
        let (wrap, customer_md5) = match (&by, customer) {
            (SealedBy::Customer, Some(CustomerKey { key, md5 })) => {
                (Wrap::Sealer(Sealer::with_key(key, self.environment.clone())), Some(md5))
            }
            (SealedBy::Customer, None) => {
                return Err(s3_error!(
                    InvalidRequest,
                    "The object was stored using a form of Server Side Encryption. The correct parameters must be \
                     provided to retrieve the object."
                ));
            }
            (_, Some(_)) => return Err(not_applicable()),
            (SealedBy::S3, None) => {
                let sealer = self.identities()?.sse_s3_sealer().map_err(super::error::object)?;
                (Wrap::Sealer(sealer), None)
            }
            (SealedBy::Kms { arn, version, .. }, None) => {
                let (id, _, key) = self.kms_key(request, id_of(arn), "kms:Decrypt").await?;
                (self.wrap_of(&id, &key, *version)?, None)
            }
        };
        let name = sealed_name(&bucket.name, key, &by);
        let sealer = match &wrap {
            Wrap::Sealer(sealer) => sealer,
            Wrap::Vault(vault, key) => {
                let opened = vault.decrypt(key, &name, &data_key).await;
                let data_key = DataKey::from_bytes(opened.map_err(|failure| vault_error(failure, key))?);
                return Ok(Some(Encryption { by, data_key, customer_md5 }));
            }
        };
        let opened = sealer.open_secret(&name, &data_key);
        let data_key = match opened.map(|key| unhex(&key).and_then(|key| key.try_into().ok())) {
            Ok(Some(key)) => DataKey::from_bytes(key),
            Err(_) if by == SealedBy::Customer => {
                return Err(s3_error!(
                    InvalidRequest,
                    "The provided encryption parameters did not match the ones used originally."
                ));
            }
            failed => {
                tracing::warn!(bucket = bucket.name, key, error = ?failed.err(), "cannot open the key of an object");
                return Err(s3_error!(InternalError, "cannot open the key of the object"));
            }
        };
        Ok(Some(Encryption { by, data_key, customer_md5 }))
    }

    /// As [`open_data_key`](Gateway::open_data_key), for an object.
    pub(super) async fn open_object_key<T>(
        &self,
        request: &S3Request<T>,
        bucket: &Bucket,
        object: &Object,
        customer: CustomerHeaders<'_>,
    ) -> S3Result<Option<Encryption>> {
        self.open_data_key(request, bucket, &object.key, &object.attributes, customer).await
    }

    /// The accounts, which have the keys. The server of a catalog has none.
    pub(super) fn identities(&self) -> S3Result<&Identities> {
        self.keys
            .identities()
            .ok_or_else(|| s3_error!(NotImplemented, "this server has no accounts of its own"))
    }

    /// The key that seals data keys with a version of a KMS key.
    fn wrap_of(&self, id: &str, key: &KmsKey, version: usize) -> S3Result<Wrap> {
        let Some(name) = &key.vault else {
            let sealer = self.identities()?.kms_sealer(id, key, version).map_err(super::error::object)?;
            return Ok(Wrap::Sealer(sealer));
        };
        let vault = self.vault.as_ref().ok_or_else(|| {
            let message = "the KMS key is in Vault, which this gateway does not use; the operator starts it with --vault";
            super::error::with_status("KMS.KMSInternalException", StatusCode::INTERNAL_SERVER_ERROR, message)
        })?;
        Ok(Wrap::Vault(Arc::clone(vault), name.clone()))
    }

    /// Looks up a key by its id or its ARN, if the caller may use it for this action.
    pub(super) async fn kms_key<T>(
        &self,
        request: &S3Request<T>,
        text: &str,
        action: &str,
    ) -> S3Result<(String, String, KmsKey)> {
        let not_found = || {
            let message = "unknown KMS key; the operator of the store knows its id";
            kms_error("KMS.NotFoundException", message)
        };
        let id = id_of(text);
        let key = match self.identities()?.kms_key(id).await {
            Err(failure) if failure.kind() == ErrorKind::NotFound => {
                return Err(not_found());
            }
            found => found.map_err(super::error::object)?,
        };
        let arn = kms_arn(&self.region, &key.account, id);
        // Policies see the ARN of the request, so it must be that of the key.
        if text != id && text != arn {
            return Err(not_found());
        }
        // Only callers of the account may use its keys.
        if authorize_for_account(request, action, &arn, Some(&key.account))? != key.account {
            return Err(s3_error!(AccessDenied));
        }
        if key.disabled {
            let message = "the KMS key is disabled";
            return Err(kms_error("KMS.DisabledException", message));
        }
        Ok((id.to_owned(), arn, key))
    }
}

/// The ARN of a key.
pub(super) fn kms_arn(region: &str, account: &str, id: &str) -> String {
    format!("arn:aws:kms:{region}:{account}:key/{id}")
}

/// The id in the ARN of a key.
fn id_of(arn: &str) -> &str {
    arn.rsplit_once(":key/").map_or(arn, |(_, id)| id)
}

pub(super) fn no_kms_key() -> S3Error {
    s3_error!(InvalidArgument, "aws:kms needs the id of a KMS key; the operator of the store creates keys")
}

pub(super) fn no_dsse() -> S3Error {
    s3_error!(NotImplemented, "aws:kms:dsse is not implemented")
}

fn not_applicable() -> S3Error {
    s3_error!(InvalidRequest, "The encryption parameters are not applicable to this object.")
}

fn kms_error(code: &'static str, message: &'static str) -> S3Error {
    super::error::with_status(code, StatusCode::BAD_REQUEST, message)
}

/// The error for a data key that Vault has not encrypted or decrypted. The log has the cause, which
/// may contain facts that only operators should know.
fn vault_error(failure: vault::Failure, key: &str) -> S3Error {
    let (code, status, message, cause) = match failure {
        vault::Failure::Unavailable(cause) => {
            let message = "Vault, which has the KMS key, cannot be reached; try again";
            ("KMS.DependencyTimeoutException", StatusCode::SERVICE_UNAVAILABLE, message, cause)
        }
        vault::Failure::Denied(cause) => {
            let message =
                "Vault does not permit the gateway to use the KMS key; the gateway's log has the cause";
            ("KMS.KMSInternalException", StatusCode::INTERNAL_SERVER_ERROR, message, cause)
        }
        vault::Failure::Refused(cause) => {
            let message = "Vault cannot use the KMS key for this object; the gateway's log has the cause";
            ("KMS.KMSInvalidStateException", StatusCode::BAD_REQUEST, message, cause)
        }
    };
    tracing::warn!(key, cause, "Vault has not encrypted or decrypted a data key");
    super::error::with_status(code, status, message)
}

#[cfg(test)]
#[path = "encryption_tests.rs"]
mod tests;
