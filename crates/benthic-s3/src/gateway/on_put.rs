//! Runs the methods of synchronous [on-put rules](crate::events::on_put) on an object before it is
//! visible.

use super::auth::Authorized;
use super::exec::{self, ObjectData, RanAt};
use super::{Gateway, names};
use crate::events::on_put::{METADATA_BYTES_MAX, OnPutRule, Then};
use crate::sal::{Attributes, Bucket, DataKey, Object};
use bytes::Bytes;
use hyper::header::HeaderValue;
use s3s::{S3Error, S3Response, S3Result, s3_error};

impl Gateway {
    /// Whether synchronous rules match a key, so that the new object must be read before it is
    /// visible.
    pub(super) fn has_on_put(&self, bucket: &Bucket, key: &str) -> S3Result<bool> {
        let rules = self.event_rules(bucket)?;
        Ok(rules.is_some_and(|rules| rules.on_put().synchronous(key).next().is_some()))
    }

    /// Runs the methods of all synchronous rules that match a key, and adds their results to the
    /// attributes. `object` has the data of the new object; it is in `home`. Returns where the
    /// methods ran.
    pub(super) async fn run_on_put(
        &self,
        access: &Authorized,
        key: &str,
        (home, object): (&Bucket, &Object),
        data_key: Option<&DataKey>,
        attributes: &mut Attributes,
    ) -> S3Result<Option<RanAt>> {
        let Some(rules) = self.event_rules(&access.bucket)? else { return Ok(None) };
        let mut ran_at = None;
        for rule in rules.on_put().synchronous(key) {
            let Some(code) = &self.code else {
                return Err(s3_error!(NotImplemented, "this server runs no methods"));
            };
            let data = ObjectData { sal: self.sal.as_ref(), bucket: home, object, data_key };
            let ran = code.run(rule.call(), data).await.map_err(|error| name_rule(rule, error))?;
            self.metrics.method(ran.1);
            if let Then::Metadata(name) = &rule.then {
                attributes.insert(format!("{}{name}", names::METADATA), metadata(rule, ran.0)?);
            }
            // One that ran in the gateway had to read the data.
            if ran_at != Some(RanAt::Gateway) {
                ran_at = Some(ran.1);
            }
        }
        Ok(ran_at)
    }
}

/// Tells the client which rule failed.
fn name_rule(rule: &OnPutRule, error: benthic_core::Error) -> S3Error {
    let mut failure = exec::failure(error);
    if let Some(message) = failure.message() {
        let message = format!("the on-put rule '{}' failed: {message}", rule.id);
        failure.set_message(message);
    }
    failure
}

/// The result of a method as metadata, which are a header.
fn metadata(rule: &OnPutRule, result: Bytes) -> S3Result<Bytes> {
    let is_text = result.iter().all(|byte| (b' '..0x7f).contains(byte));
    if is_text && result.len() <= METADATA_BYTES_MAX {
        return Ok(result);
    }
    Err(s3_error!(
        InvalidRequest,
        "the result of the on-put rule '{}' is not one line of at most 1,024 printable ASCII characters",
        rule.id
    ))
}

/// An answer that says where methods ran.
pub(super) fn response<T>(output: T, ran_at: Option<RanAt>) -> S3Response<T> {
    let mut response = S3Response::new(output);
    if let Some(ran_at) = ran_at {
        response.headers.insert(exec::RAN_AT, HeaderValue::from_static(ran_at.label()));
    }
    response
}
