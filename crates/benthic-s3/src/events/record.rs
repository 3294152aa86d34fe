//! An event as JSON, in the format of AWS (event notification message structure, version 2.1).

use super::Origin;
use crate::gateway::date;
use crate::sal::{Bucket, Event, Versioning};
use serde_json::{Value, json};
use url::form_urlencoded::byte_serialize;

fn encode(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

/// The message that tells a target of an event.
pub(super) fn message(bucket: &Bucket, event: &Event, region: &str) -> Value {
    let origin: Origin = serde_json::from_slice(&event.detail).unwrap_or_default();
    let is_removal = !event.name.starts_with("ObjectCreated");
    let mut object = json!({
        // As in a form: AWS writes a space as a plus.
        "key": event.key.split('/').map(encode).collect::<Vec<_>>().join("/"),
        // Grows from event to event of a key, also if the bucket is created again.
        "sequencer": format!("{:012X}{:016X}", bucket.created_ms, event.number),
    });
    if !is_removal {
        object["size"] = json!(event.size_bytes);
        object["eTag"] = json!(event.etag);
    }
    if bucket.versioning != Versioning::Off {
        object["versionId"] = json!(event.version.to_string());
    }
    let record = json!({
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": region,
        "eventTime": date(event.time_ms),
        "eventName": event.name,
        "userIdentity": { "principalId": origin.principal },
        "requestParameters": { "sourceIPAddress": origin.address },
        // The same when the event is delivered twice.
        "responseElements": { "x-amz-request-id": event.write.to_string() },
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": event.rule,
            "bucket": {
                "name": bucket.name,
                "ownerIdentity": { "principalId": bucket.owner },
                "arn": format!("arn:aws:s3:::{}", bucket.name),
            },
            "object": object,
        },
    });
    json!({ "Records": [record] })
}
