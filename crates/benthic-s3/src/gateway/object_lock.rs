//! Object lock: the settings of a bucket, and the retention period and legal hold of an object.
//!
//! The driver enforces locks. The gateway checks requests: a lock needs a bucket with object lock,
//! which always has versions, and the bypass of a retention period needs a permission of its own.

use super::auth::{Authorized, On};
use super::{Gateway, names, timestamp, unix_ms};
use crate::lifecycle::DAY_MS;
use crate::policy::Decision;
use crate::sal::{Attributes, Bucket, DefaultRetention, Lock, Object, Retention, RetentionMode, Versioning};
use bytes::Bytes;
use s3s::dto::{
    GetObjectLegalHoldInput, GetObjectLegalHoldOutput, GetObjectLockConfigurationInput,
    GetObjectLockConfigurationOutput, GetObjectRetentionInput, GetObjectRetentionOutput,
    ObjectLockConfiguration, ObjectLockEnabled, ObjectLockLegalHold, ObjectLockLegalHoldStatus,
    ObjectLockMode, ObjectLockRetention, ObjectLockRetentionMode, PutObjectLegalHoldInput,
    PutObjectLegalHoldOutput, PutObjectLockConfigurationInput, PutObjectLockConfigurationOutput,
    PutObjectRetentionInput, PutObjectRetentionOutput, Timestamp,
};
use s3s::{S3ErrorCode, S3Request, S3Result, s3_error};

const YEAR_DAYS: u64 = 365;
/// Limit of the default retention period of a bucket.
const DEFAULT_YEARS_MAX: u64 = 100;

/// The settings of a bucket; `None` if it has no object lock.
fn settings(bucket: &Attributes) -> S3Result<Option<ObjectLockConfiguration>> {
    let text = bucket.get(names::OBJECT_LOCK);
    text.map(|text| serde_json::from_slice(text).map_err(|error| s3_error!(error, InternalError))).transpose()
}

/// Turns object lock on, or replaces its settings.
pub(super) fn set_settings(bucket: &mut Attributes, settings: &ObjectLockConfiguration) -> S3Result<()> {
    let text = serde_json::to_vec(settings).map_err(|error| s3_error!(error, InternalError))?;
    bucket.insert(names::OBJECT_LOCK.to_owned(), Bytes::from(text));
    Ok(())
}

/// Turns object lock on, without a default retention period.
pub(super) fn turn_on(bucket: &mut Attributes) -> S3Result<()> {
    let enabled = ObjectLockEnabled::from_static(ObjectLockEnabled::ENABLED);
    let settings = ObjectLockConfiguration { object_lock_enabled: Some(enabled), rule: None };
    set_settings(bucket, &settings)
}

pub(super) fn is_on(bucket: &Attributes) -> bool {
    bucket.contains_key(names::OBJECT_LOCK)
}

/// Checks the settings of a request.
pub(super) fn check_settings(settings: &ObjectLockConfiguration) -> S3Result<()> {
    let enabled = settings.object_lock_enabled.as_ref().map(ObjectLockEnabled::as_str);
    if enabled != Some(ObjectLockEnabled::ENABLED) {
        return Err(s3_error!(MalformedXML, "ObjectLockEnabled must be Enabled"));
    }
    if settings.rule.is_none() {
        return Ok(());
    }
    let (_, days) = default_days(settings)?
        .ok_or_else(|| s3_error!(MalformedXML, "a rule needs a default retention period"))?;
    if (1..=DEFAULT_YEARS_MAX * YEAR_DAYS).contains(&days) {
        return Ok(());
    }
    Err(super::error::with_status(
        "InvalidRetentionPeriod",
        hyper::StatusCode::BAD_REQUEST,
        "a default retention period lasts 1 day to 100 years",
    ))
}

/// The mode of the default retention period, and its days.
fn default_days(settings: &ObjectLockConfiguration) -> S3Result<Option<(RetentionMode, u64)>> {
    let Some(default) = settings.rule.as_ref().and_then(|rule| rule.default_retention.as_ref()) else {
        return Ok(None);
    };
    let mode = mode(default.mode.as_ref().map(ObjectLockRetentionMode::as_str))
        .ok_or_else(|| s3_error!(MalformedXML, "unknown retention mode"))?;
    // A negative number is out of range, as 0 is.
    let count = |count: i32| u64::try_from(count).unwrap_or(0);
    match (default.days, default.years) {
        (Some(days), None) => Ok(Some((mode, count(days)))),
        (None, Some(years)) => Ok(Some((mode, count(years).saturating_mul(YEAR_DAYS)))),
        _ => Err(s3_error!(MalformedXML, "a default retention period has either days or years")),
    }
}

fn mode(text: Option<&str>) -> Option<RetentionMode> {
    match text? {
        ObjectLockRetentionMode::GOVERNANCE => Some(RetentionMode::Governance),
        ObjectLockRetentionMode::COMPLIANCE => Some(RetentionMode::Compliance),
        _ => None,
    }
}

fn legal_hold(text: Option<&str>) -> Option<bool> {
    match text? {
        ObjectLockLegalHoldStatus::ON => Some(true),
        ObjectLockLegalHoldStatus::OFF => Some(false),
        _ => None,
    }
}

/// The names of a retention mode and of a legal hold in requests, answers and policies.
pub(super) fn mode_name(mode: RetentionMode) -> &'static str {
    match mode {
        RetentionMode::Governance => ObjectLockRetentionMode::GOVERNANCE,
        RetentionMode::Compliance => ObjectLockRetentionMode::COMPLIANCE,
    }
}

pub(super) fn legal_hold_name(is_held: bool) -> &'static str {
    if is_held { ObjectLockLegalHoldStatus::ON } else { ObjectLockLegalHoldStatus::OFF }
}

/// The fields of an answer that describe a lock.
pub(super) fn lock_fields(
    lock: &Lock,
) -> (Option<ObjectLockMode>, Option<Timestamp>, Option<ObjectLockLegalHoldStatus>) {
    (
        lock.retention.map(|retention| ObjectLockMode::from_static(mode_name(retention.mode))),
        lock.retention.map(|retention| timestamp(retention.until_ms)),
        lock.legal_hold.map(|is_held| ObjectLockLegalHoldStatus::from_static(legal_hold_name(is_held))),
    )
}

/// The lock that the headers of a request ask for.
pub(super) fn requested_lock(
    mode_text: Option<&str>,
    until: Option<&Timestamp>,
    hold_text: Option<&str>,
) -> S3Result<Lock> {
    let retention = match (mode_text, until) {
        (None, None) => None,
        (Some(text), Some(until)) => {
            let mode = mode(Some(text));
            let mode = mode.ok_or_else(|| s3_error!(InvalidArgument, "Unknown wormMode directive."))?;
            Some(Retention { mode, until_ms: until_ms(until)? })
        }
        _ => {
            return Err(s3_error!(
                InvalidArgument,
                "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied"
            ));
        }
    };
    let hold = hold_text.map(|text| {
        let hold = legal_hold(Some(text));
        hold.ok_or_else(|| s3_error!(InvalidArgument, "Legal Hold must be either of 'ON' or 'OFF'"))
    });
    Ok(Lock { retention, legal_hold: hold.transpose()? })
}

fn until_ms(date: &Timestamp) -> S3Result<u64> {
    unix_ms(date).ok_or_else(|| s3_error!(InvalidArgument, "the retain until date is not valid"))
}

fn require_on(bucket: &Attributes) -> S3Result<()> {
    if is_on(bucket) {
        return Ok(());
    }
    Err(s3_error!(InvalidRequest, "Bucket is missing Object Lock Configuration"))
}

/// The retention period of new objects in a bucket.
pub(super) fn default_retention(bucket: &Attributes) -> S3Result<Option<DefaultRetention>> {
    let Some(settings) = settings(bucket)? else { return Ok(None) };
    let default = default_days(&settings)?;
    Ok(default.map(|(mode, days)| DefaultRetention { mode, duration_ms: days.saturating_mul(DAY_MS) }))
}

/// The retention period that a bucket gives to new objects.
///
/// # Errors
/// `Corrupt`.
pub(crate) fn default_retention_of(bucket: &Bucket) -> benthic_core::Result<Option<DefaultRetention>> {
    default_retention(&bucket.attributes)
        .map_err(|error| benthic_core::Error::new(benthic_core::ErrorKind::Corrupt, error.to_string()))
}

impl Gateway {
    fn check_future(&self, retention: Option<Retention>) -> S3Result<()> {
        match retention {
            Some(retention) if retention.until_ms <= self.environment.unix_ms() => {
                Err(s3_error!(InvalidArgument, "The retain until date must be in the future!"))
            }
            _ => Ok(()),
        }
    }

    /// Checks a lock that a request gives to a new object.
    pub(super) fn check_new_lock(&self, bucket: &Bucket, lock: &Lock) -> S3Result<()> {
        if *lock != Lock::default() {
            require_on(&bucket.attributes)?;
        }
        self.check_future(lock.retention)
    }

    /// Whether a request may ignore retention periods in governance mode. It says so in a header,
    /// and needs a permission.
    pub(super) async fn bypasses_governance<T>(
        &self,
        request: &S3Request<T>,
        access: &Authorized,
        on: On<'_>,
        header: Option<bool>,
    ) -> S3Result<bool> {
        if header != Some(true) {
            return Ok(false);
        }
        match self.require(request, access, "s3:BypassGovernanceRetention", on).await {
            Err(failure) if *failure.code() == S3ErrorCode::AccessDenied => Ok(false),
            result => result.map(|()| true),
        }
    }

    pub(super) async fn object_lock_settings(
        &self,
        request: S3Request<GetObjectLockConfigurationInput>,
    ) -> S3Result<GetObjectLockConfigurationOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let settings = settings(&access.bucket.attributes)?;
        let settings = settings.ok_or_else(|| s3_error!(ObjectLockConfigurationNotFoundError))?;
        Ok(GetObjectLockConfigurationOutput { object_lock_configuration: Some(settings) })
    }

    pub(super) async fn set_object_lock_settings(
        &self,
        request: S3Request<PutObjectLockConfigurationInput>,
    ) -> S3Result<PutObjectLockConfigurationOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let settings = input.object_lock_configuration.as_ref().ok_or_else(|| s3_error!(MalformedXML))?;
        check_settings(settings)?;
        let change = |bucket: &mut Bucket| {
            if bucket.versioning != Versioning::Enabled {
                return Err(s3_error!(
                    InvalidBucketState,
                    "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration"
                ));
            }
            set_settings(&mut bucket.attributes, settings)
        };
        self.change_bucket(access.bucket, change).await?;
        Ok(PutObjectLockConfigurationOutput::default())
    }

    /// Finds the object of a request about its lock.
    async fn find_lockable<T>(
        &self,
        request: &S3Request<T>,
        (name, expected_owner): (&str, &Option<String>),
        key: &str,
        version: Option<&String>,
    ) -> S3Result<Object> {
        let access = self.authorize(request, name, expected_owner, On::object(key, version)).await?;
        require_on(&access.bucket.attributes)?;
        self.find_visible(&access, key, version.map(String::as_str)).await
    }

    pub(super) async fn retention(
        &self,
        request: S3Request<GetObjectRetentionInput>,
    ) -> S3Result<GetObjectRetentionOutput> {
        let input = &request.input;
        let bucket = (input.bucket.as_str(), &input.expected_bucket_owner);
        let object = self.find_lockable(&request, bucket, &input.key, input.version_id.as_ref()).await?;
        let retention = object.lock.retention.ok_or_else(|| s3_error!(NoSuchObjectLockConfiguration))?;
        let retention = ObjectLockRetention {
            mode: Some(ObjectLockRetentionMode::from_static(mode_name(retention.mode))),
            retain_until_date: Some(timestamp(retention.until_ms)),
        };
        Ok(GetObjectRetentionOutput { retention: Some(retention) })
    }

    pub(super) async fn set_retention(
        &self,
        request: S3Request<PutObjectRetentionInput>,
    ) -> S3Result<PutObjectRetentionOutput> {
        let input = &request.input;
        let given = input.retention.as_ref().ok_or_else(|| s3_error!(MalformedXML))?;
        let retention = match (&given.mode, &given.retain_until_date) {
            (None, None) => None,
            (Some(text), Some(until)) => {
                let mode = mode(Some(text.as_str()));
                let mode = mode.ok_or_else(|| s3_error!(MalformedXML, "unknown retention mode"))?;
                Some(Retention { mode, until_ms: until_ms(until)? })
            }
            _ => return Err(s3_error!(MalformedXML, "a retention period needs a mode and a date")),
        };
        let new_lock = Lock { retention, legal_hold: None };
        let on = On::locked(&input.key, input.version_id.as_deref(), new_lock);
        let access = self.authorize(&request, &input.bucket, &input.expected_bucket_owner, on).await?;
        require_on(&access.bucket.attributes)?;
        self.check_future(retention)?;
        let header = input.bypass_governance_retention;
        let bypass = self.bypasses_governance(&request, &access, on, header).await?;
        let change = |object: &mut Object| {
            object.lock.retention = retention;
            Ok(())
        };
        self.change_object(&access, &input.key, input.version_id.as_deref(), bypass, change).await?;
        Ok(PutObjectRetentionOutput::default())
    }

    pub(super) async fn legal_hold(
        &self,
        request: S3Request<GetObjectLegalHoldInput>,
    ) -> S3Result<GetObjectLegalHoldOutput> {
        let input = &request.input;
        let bucket = (input.bucket.as_str(), &input.expected_bucket_owner);
        let object = self.find_lockable(&request, bucket, &input.key, input.version_id.as_ref()).await?;
        let is_held = object.lock.legal_hold.ok_or_else(|| s3_error!(NoSuchObjectLockConfiguration))?;
        let status = ObjectLockLegalHoldStatus::from_static(legal_hold_name(is_held));
        Ok(GetObjectLegalHoldOutput { legal_hold: Some(ObjectLockLegalHold { status: Some(status) }) })
    }

    pub(super) async fn set_legal_hold(
        &self,
        request: S3Request<PutObjectLegalHoldInput>,
    ) -> S3Result<PutObjectLegalHoldOutput> {
        let input = &request.input;
        let status = input.legal_hold.as_ref().and_then(|hold| hold.status.as_ref());
        let is_held = legal_hold(status.map(ObjectLockLegalHoldStatus::as_str));
        let is_held = is_held.ok_or_else(|| s3_error!(MalformedXML, "a legal hold is ON or OFF"))?;
        let new_lock = Lock { retention: None, legal_hold: Some(is_held) };
        let on = On::locked(&input.key, input.version_id.as_deref(), new_lock);
        let access = self.authorize(&request, &input.bucket, &input.expected_bucket_owner, on).await?;
        require_on(&access.bucket.attributes)?;
        let change = |object: &mut Object| {
            object.lock.legal_hold = Some(is_held);
            Ok(())
        };
        self.change_object(&access, &input.key, input.version_id.as_deref(), false, change).await?;
        Ok(PutObjectLegalHoldOutput::default())
    }
}

impl Authorized {
    /// The parts of an object's lock that the caller may see.
    pub(super) fn visible_lock<T>(&self, request: &S3Request<T>, object: &Object, on: On<'_>) -> Lock {
        let may = |action| self.decide(request, action, on, Some(object)) == Decision::Allowed;
        Lock {
            retention: object.lock.retention.filter(|_| may("s3:GetObjectRetention")),
            legal_hold: object.lock.legal_hold.filter(|_| may("s3:GetObjectLegalHold")),
        }
    }
}
