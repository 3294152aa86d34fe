//! GetBucketNotificationConfiguration and PutBucketNotificationConfiguration, and the events of
//! requests. [`events`](crate::events) delivers them.

use super::auth::{Authorized, Peer};
use super::{Gateway, assign_ids, error, names};
use crate::events::{self, EventRules, InvalidRule, Origin, topic};
use crate::sal::{Bucket, Change, NewEvent};
use benthic_core::ErrorKind;
use bytes::Bytes;
use s3s::dto::{
    GetBucketNotificationConfigurationInput, GetBucketNotificationConfigurationOutput,
    NotificationConfiguration, PutBucketNotificationConfigurationInput,
    PutBucketNotificationConfigurationOutput,
};
use s3s::{S3Request, S3Result, s3_error};
use std::sync::Arc;

/// Gives an id to each notification without one, and checks all of them.
///
/// # Errors
/// `InvalidArgument`, `NotImplemented`.
pub(super) fn prepare(configuration: &mut NotificationConfiguration) -> S3Result<()> {
    let topics = configuration.topic_configurations.get_or_insert_default();
    assign_ids(topics, "notification", |topic| &mut topic.id);
    if let Some(queues) = &mut configuration.queue_configurations {
        assign_ids(queues, "queue-notification", |queue| &mut queue.id);
    }
    events::check(configuration).map_err(|invalid| match invalid {
        InvalidRule::Invalid(message) => s3_error!(InvalidArgument, "{message}"),
        InvalidRule::Unsupported(message) => s3_error!(NotImplemented, "{message}"),
    })
}

impl Gateway {
    pub(super) async fn notifications(
        &self,
        request: S3Request<GetBucketNotificationConfigurationInput>,
    ) -> S3Result<GetBucketNotificationConfigurationOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let Some(text) = access.bucket.attributes.get(names::NOTIFICATIONS) else {
            return Ok(GetBucketNotificationConfigurationOutput::default());
        };
        let found: NotificationConfiguration =
            serde_json::from_slice(text).map_err(|error| s3_error!(error, InternalError))?;
        Ok(GetBucketNotificationConfigurationOutput {
            topic_configurations: found.topic_configurations.filter(|topics| !topics.is_empty()),
            queue_configurations: found.queue_configurations.filter(|queues| !queues.is_empty()),
            ..GetBucketNotificationConfigurationOutput::default()
        })
    }

    pub(super) async fn set_notifications(
        &self,
        request: S3Request<PutBucketNotificationConfigurationInput>,
    ) -> S3Result<PutBucketNotificationConfigurationOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let mut configuration = input.notification_configuration.clone();
        prepare(&mut configuration)?;
        // Also with `skip_destination_validation`: events for a target that does not exist wait in
        // vain.
        for topic in configuration.topic_configurations.iter().flatten() {
            self.check_target(&access.bucket, events::TOPIC, &topic.topic_arn).await?;
        }
        for queue in configuration.queue_configurations.iter().flatten() {
            self.check_target(&access.bucket, events::QUEUE, &queue.queue_arn).await?;
        }
        let name = access.bucket.name.clone();
        // Also without rules, so that gateways find the events of the old ones, and drop them.
        self.set_bucket_attribute(access.bucket, names::NOTIFICATIONS, &configuration).await?;
        self.wakeups.wake(&name);
        Ok(PutBucketNotificationConfigurationOutput::default())
    }

    /// Checks that a target exists, and belongs to the owner of the bucket or permits the bucket.
    async fn check_target(&self, bucket: &Bucket, service: &str, arn: &str) -> S3Result<()> {
        let missing = || {
            s3_error!(
                InvalidArgument,
                "Unable to validate the following destination configurations: {arn}; \
                 the operator creates targets with `benthic s3 events target create`"
            )
        };
        let (account, name) = events::target_of_arn(service, arn).ok_or_else(missing)?;
        let expected = events::target_arn(service, &self.region, account, name);
        if arn != expected {
            return Err(s3_error!(
                InvalidArgument,
                "the ARN names another region than the gateway's; expected {expected}"
            ));
        }
        let is_own = account == bucket.owner;
        let topic_arn = events::target_arn(events::TOPIC, &self.region, account, name);
        let (source, now_ms) = ((bucket.name.as_str(), bucket.owner.as_str()), self.environment.unix_ms());
        match self.identities()?.event_target(account, name).await {
            Ok(target) if is_own || topic::permits(&target, (account, &topic_arn), source, now_ms) => Ok(()),
            Err(failure) if failure.kind() != ErrorKind::NotFound => Err(error::bucket(failure)),
            Err(_) if is_own => Err(missing()),
            // Callers do not learn whether another account has this target.
            Ok(_) | Err(_) => Err(s3_error!(
                AccessDenied,
                "the policy of the topic does not allow sns:Publish to the account of the bucket"
            )),
        }
    }

    /// The rules of a bucket for events; `None` if it has none.
    pub(super) fn event_rules(&self, bucket: &Bucket) -> S3Result<Option<Arc<EventRules>>> {
        let attributes = &bucket.attributes;
        if !EventRules::exist(attributes) {
            return Ok(None);
        }
        let text = |name| attributes.get(name).map_or(&[][..], |text| &text[..]);
        let texts = [text(names::NOTIFICATIONS), &[0], text(crate::events::on_put::ATTRIBUTE)].concat();
        let parse =
            |_: &Bytes| EventRules::of_bucket(attributes).map(Arc::new).map_err(|error| error.to_string());
        self.parsed_events.get(&bucket.id.to_string(), Bytes::from(texts), parse).map(Some)
    }

    /// The events of a change of a key. `names` are those of the events, by change.
    pub(super) fn events_of<T>(
        &self,
        request: &S3Request<T>,
        access: &Authorized,
        key: &str,
        names: &[(Change, &str)],
    ) -> S3Result<Vec<NewEvent>> {
        let Some(rules) = self.event_rules(&access.bucket)? else { return Ok(Vec::new()) };
        let principal = access.sender.caller.name().unwrap_or_else(|| "anonymous".to_owned());
        let peer = request.extensions.get::<Peer>();
        let origin = Origin { principal, address: peer.map(|peer| peer.address.to_string()) };
        Ok(rules.of_change(key, names, &origin, true))
    }

    /// Has the events of a bucket delivered soon.
    pub(super) fn wake(&self, bucket: &Bucket, had_events: bool) {
        if had_events {
            self.wakeups.wake(&bucket.name);
        }
    }
}
