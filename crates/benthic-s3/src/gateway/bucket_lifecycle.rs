//! GetBucketLifecycleConfiguration, PutBucketLifecycleConfiguration, DeleteBucketLifecycle, and the
//! header that says when an object expires. [`lifecycle`](crate::lifecycle) applies the rules.

use super::auth::Authorized;
use super::{Gateway, assign_ids, error, http_date, names, tags, timestamp, unix_ms};
use crate::lifecycle::{self, Rules};
use crate::sal::{Attributes, Bucket, Object};
use bytes::Bytes;
use s3s::dto::{
    BucketLifecycleConfiguration, DeleteBucketLifecycleInput, DeleteBucketLifecycleOutput,
    GetBucketLifecycleConfigurationInput, GetBucketLifecycleConfigurationOutput,
    PutBucketLifecycleConfigurationInput, PutBucketLifecycleConfigurationOutput,
};
use s3s::{S3Request, S3Result, s3_error};
use std::sync::Arc;
use url::form_urlencoded::byte_serialize;

/// Gives an id to each rule without one, and checks the rules. Converts their dates to UTC and
/// whole milliseconds, because `s3s` stores neither time zones nor smaller fractions.
///
/// # Errors
/// As [`Rules::parse`].
pub(super) fn prepare(configuration: &mut BucketLifecycleConfiguration) -> S3Result<Rules> {
    assign_ids(&mut configuration.rules, "rule", |rule| &mut rule.id);
    for rule in &mut configuration.rules {
        let transitions = rule.transitions.iter_mut().flatten().map(|given| &mut given.date);
        let dates = rule.expiration.iter_mut().map(|given| &mut given.date).chain(transitions);
        for date in dates.flatten() {
            // `Rules::parse` refuses a date before 1970.
            if let Some(date_ms) = unix_ms(date) {
                *date = timestamp(date_ms);
            }
        }
    }
    Rules::parse(configuration)
}

impl Gateway {
    pub(super) async fn lifecycle(
        &self,
        request: S3Request<GetBucketLifecycleConfigurationInput>,
    ) -> S3Result<GetBucketLifecycleConfigurationOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let found = lifecycle::configuration(&access.bucket).map_err(error::bucket)?;
        let found = found.ok_or_else(|| s3_error!(NoSuchLifecycleConfiguration))?;
        Ok(GetBucketLifecycleConfigurationOutput {
            rules: Some(found.rules),
            ..GetBucketLifecycleConfigurationOutput::default()
        })
    }

    pub(super) async fn set_lifecycle(
        &self,
        request: S3Request<PutBucketLifecycleConfigurationInput>,
    ) -> S3Result<PutBucketLifecycleConfigurationOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let given = input.lifecycle_configuration.clone();
        let mut configuration = given.ok_or_else(|| s3_error!(MalformedXML))?;
        prepare(&mut configuration)?;
        for class in lifecycle::classes(&configuration) {
            self.storage_class(Some(class)).await?;
        }
        self.set_bucket_attribute(access.bucket, names::LIFECYCLE, &configuration).await?;
        Ok(PutBucketLifecycleConfigurationOutput::default())
    }

    pub(super) async fn remove_lifecycle(
        &self,
        request: S3Request<DeleteBucketLifecycleInput>,
    ) -> S3Result<DeleteBucketLifecycleOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        self.remove_bucket_attribute(access.bucket, names::LIFECYCLE).await?;
        Ok(DeleteBucketLifecycleOutput::default())
    }

    /// The header for an object that a request reads. Only the current version expires.
    pub(super) fn expiration_of(
        &self,
        access: &Authorized,
        object: &Object,
        has_version_id: bool,
    ) -> Option<String> {
        if has_version_id {
            return None;
        }
        self.expiration(access, (&object.key, object.size_bytes), object.modified_ms, &object.attributes)
    }

    /// The header `x-amz-expiration` of the current version of an object: when it expires, and by
    /// which rule. `None` if it does not expire.
    pub(super) fn expiration(
        &self,
        access: &Authorized,
        key_and_size_bytes: (&str, u64),
        modified_ms: u64,
        attributes: &Attributes,
    ) -> Option<String> {
        let Bucket { id, attributes: settings, .. } = &access.bucket;
        let text = settings.get(names::LIFECYCLE)?.clone();
        let parse =
            |text: &Bytes| lifecycle::parse_rules(text).map(Arc::new).map_err(|error| error.to_string());
        let rules = self.parsed_rules.get(&id.to_string(), text, parse).ok()?;
        let tags = tags::get(attributes).ok()?;
        let (time_ms, id) = rules.expiry(key_and_size_bytes, modified_ms, &tags)?;
        let date = http_date(&timestamp(time_ms))?;
        // A header cannot have every character of a name.
        let id = byte_serialize(id.as_bytes()).collect::<String>().replace('+', "%20");
        Some(format!("expiry-date=\"{date}\", rule-id=\"{id}\""))
    }
}
