//! GetBucketLogging and PutBucketLogging: where the access log of a bucket goes.
//!
//! [`access_log`](super::access_log) makes the lines, [`log_delivery`](super::log_delivery) writes
//! them.

use super::bucket_encryption::{EncryptBy, default_of};
use super::object_lock::default_retention;
use super::{Gateway, error, names};
use crate::sal::{Attributes, Bucket};
use crate::view::is_view;
use benthic_core::ErrorKind;
use s3s::dto::{
    GetBucketLoggingInput, GetBucketLoggingOutput, LoggingEnabled, PartitionDateSource, PartitionedPrefix,
    PutBucketLoggingInput, PutBucketLoggingOutput, SimplePrefix, TargetObjectKeyFormat,
};
use s3s::{S3Request, S3Result, s3_error};
use serde::{Deserialize, Serialize};

/// Maximum length of the prefix, in bytes, so that a key has room for the rest.
const PREFIX_BYTES_MAX: usize = 512;

/// Where a bucket's access log goes. An attribute of the bucket, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct LogTarget {
    pub bucket: String,
    pub prefix: String,
    pub format: KeyFormat,
}

/// The form of the keys of log objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum KeyFormat {
    Simple,
    /// With the day of the delivery.
    ByDelivery,
    /// With the day of the requests, so a log object has the requests of one day.
    ByEvent,
}

impl LogTarget {
    /// Where the log of a bucket goes; `None` if the bucket has none.
    pub fn of(bucket: &Attributes) -> Option<LogTarget> {
        let text = bucket.get(names::LOGGING)?;
        let target = serde_json::from_slice(text);
        target
            .inspect_err(|error| tracing::warn!(%error, "the logging settings of a bucket are damaged"))
            .ok()
    }

    pub fn parse(enabled: &LoggingEnabled) -> S3Result<LogTarget> {
        if enabled.target_grants.as_ref().is_some_and(|grants| !grants.is_empty()) {
            return Err(s3_error!(
                AccessControlListNotSupported,
                "log objects have no access control lists; use the policy of the target bucket"
            ));
        }
        if enabled.target_prefix.len() > PREFIX_BYTES_MAX {
            return Err(s3_error!(
                InvalidArgument,
                "the target prefix may have at most {PREFIX_BYTES_MAX} bytes"
            ));
        }
        let format = enabled.target_object_key_format.as_ref();
        let simple = format.and_then(|format| format.simple_prefix.as_ref());
        let format = match (simple, format.and_then(|format| format.partitioned_prefix.as_ref())) {
            (_, None) => KeyFormat::Simple,
            (Some(_), Some(_)) => return Err(s3_error!(MalformedXML, "give one key format")),
            (None, Some(partitioned)) => {
                match partitioned.partition_date_source.as_ref().map(PartitionDateSource::as_str) {
                    None | Some(PartitionDateSource::DELIVERY_TIME) => KeyFormat::ByDelivery,
                    Some(PartitionDateSource::EVENT_TIME) => KeyFormat::ByEvent,
                    Some(_) => {
                        return Err(s3_error!(
                            MalformedXML,
                            "the partition date source must be EventTime or DeliveryTime"
                        ));
                    }
                }
            }
        };
        Ok(LogTarget { bucket: enabled.target_bucket.clone(), prefix: enabled.target_prefix.clone(), format })
    }

    pub fn document(self) -> LoggingEnabled {
        let partitioned = |source| {
            let partition_date_source = Some(PartitionDateSource::from_static(source));
            TargetObjectKeyFormat {
                partitioned_prefix: Some(PartitionedPrefix { partition_date_source }),
                simple_prefix: None,
            }
        };
        let format = match self.format {
            KeyFormat::Simple => {
                TargetObjectKeyFormat { partitioned_prefix: None, simple_prefix: Some(SimplePrefix {}) }
            }
            KeyFormat::ByDelivery => partitioned(PartitionDateSource::DELIVERY_TIME),
            KeyFormat::ByEvent => partitioned(PartitionDateSource::EVENT_TIME),
        };
        LoggingEnabled {
            target_bucket: self.bucket,
            target_grants: None,
            target_object_key_format: Some(format),
            target_prefix: self.prefix,
        }
    }
}

impl Gateway {
    pub(super) async fn logging(
        &self,
        request: S3Request<GetBucketLoggingInput>,
    ) -> S3Result<GetBucketLoggingOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let target = LogTarget::of(&access.bucket.attributes);
        Ok(GetBucketLoggingOutput { logging_enabled: target.map(LogTarget::document) })
    }

    pub(super) async fn set_logging(
        &self,
        request: S3Request<PutBucketLoggingInput>,
    ) -> S3Result<PutBucketLoggingOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let Some(enabled) = &input.bucket_logging_status.logging_enabled else {
            self.remove_bucket_attribute(access.bucket, names::LOGGING).await?;
            return Ok(PutBucketLoggingOutput::default());
        };
        let target = LogTarget::parse(enabled)?;
        self.check_log_target(&access.bucket, &target).await?;
        self.set_bucket_attribute(access.bucket, names::LOGGING, &target).await?;
        Ok(PutBucketLoggingOutput::default())
    }

    /// Refuses a target to which the gateway could not deliver.
    async fn check_log_target(&self, source: &Bucket, target: &LogTarget) -> S3Result<()> {
        if target.bucket == source.name {
            return Err(s3_error!(
                InvalidArgument,
                "a bucket cannot log to itself, because reading the log would make it longer; use another bucket"
            ));
        }
        let bucket = match self.sal.bucket(&target.bucket).await {
            Err(failure) if failure.kind() == ErrorKind::NotFound => {
                return Err(s3_error!(
                    InvalidTargetBucketForLogging,
                    "The target bucket for logging does not exist"
                ));
            }
            found => found.map_err(error::bucket)?,
        };
        if bucket.owner != source.owner {
            return Err(s3_error!(
                InvalidTargetBucketForLogging,
                "The owner for the bucket to be logged and the target bucket must be the same."
            ));
        }
        let attributes = &bucket.attributes;
        let is_kms = matches!(default_of(attributes)?, Some(EncryptBy::Kms { .. }));
        for (is_wrong, what) in [
            (is_view(&bucket), "be a view of a pool"),
            (attributes.contains_key(names::REQUESTER_PAYS), "have a requester that pays"),
            (default_retention(attributes)?.is_some(), "have a default retention period"),
            (is_kms, "encrypt with SSE-KMS by default"),
        ] {
            if is_wrong {
                return Err(s3_error!(InvalidArgument, "the target bucket for logging must not {what}"));
            }
        }
        let key = super::log_delivery::key_of(target, source, &self.region, self.environment.unix_ms(), "0");
        if self.may_deliver_log(source, &bucket, &key)? {
            return Ok(());
        }
        Err(s3_error!(
            AccessDenied,
            "the policy of the target bucket must allow s3:PutObject on {}/{}* to the service {}",
            target.bucket,
            target.prefix,
            super::log_delivery::SERVICE
        ))
    }
}
