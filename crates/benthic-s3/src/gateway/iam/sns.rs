//! The API of SNS, as far as the gateway has it: topics, which are [targets of
//! events](crate::events::topic) that clients create. Those that the operator has created are
//! listed, too, but clients cannot change or remove them.
//!
//! Source: the API reference of SNS (2010-03-31).

use super::{Call, element, error, failure, field};
use crate::events::topic::{Destination, PASSWORD, POLICY};
use crate::events::{TOPIC, target_arn, target_of_arn};
use crate::identity::NewEventTarget;
use crate::policy::Document;
use benthic_core::{Error, ErrorKind, OptionalExtension};
use hyper::StatusCode;
use s3s::{S3Error, S3Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The actions of SNS, and the parameters of each action.
pub(super) const ACTIONS: &[(&str, &[&str])] = &[
    ("CreateTopic", &["Name", "Attributes"]),
    ("DeleteTopic", &["TopicArn"]),
    ("GetTopicAttributes", &["TopicArn"]),
    ("ListTopics", &["NextToken"]),
    ("SetTopicAttributes", &["TopicArn", "AttributeName", "AttributeValue"]),
];
pub(super) const NAMESPACE: &str = "http://sns.amazonaws.com/doc/2010-03-31/";
/// Topics in a page of ListTopics, as on AWS.
const PAGE: usize = 100;

impl Call<'_> {
    pub(super) async fn sns(&self, action: &str, result: &mut String) -> S3Result<()> {
        if self.iam.endpoints.is_empty() {
            return Err(denied("the operator permits no topics (`benthic s3 serve --sns-endpoint`)"));
        }
        match action {
            "CreateTopic" => self.create_topic(action, result).await,
            "ListTopics" => self.list_topics(action, result).await,
            _ => self.topic(action, result).await,
        }
    }

    async fn create_topic(&self, action: &str, result: &mut String) -> S3Result<()> {
        let name = self.form.get("Name")?;
        let arn = self.topic_arn(name);
        self.allow_sns(action, &arn)?;
        let mut attributes = self.form.map("Attributes")?;
        let found = self.identities.event_target(&self.account, name).await;
        let found = found.optional().map_err(topic_failure)?;
        if let Some(found) = &found {
            let topic = found.topic.as_ref();
            let topic = topic.ok_or_else(|| denied("the operator has created the target with this name"))?;
            if !attributes.is_empty() {
                self.allow_sns("SetTopicAttributes", &arn)?;
                if let Some(policy) = topic.get(POLICY) {
                    attributes.entry(POLICY.to_owned()).or_insert_with(|| policy.clone());
                }
            }
        }
        if found.is_none() || !attributes.is_empty() {
            let random = Arc::clone(&self.iam.environment.random);
            let destination = Destination::of_topic((&arn, name), &attributes, &self.iam.endpoints, random);
            let Destination { url, broker, password } =
                destination.map_err(|message| invalid_parameter(&message))?;
            attributes.remove(PASSWORD);
            let new = NewEventTarget {
                url: &url,
                secret: password.as_deref(),
                ca: None,
                broker: broker.as_ref(),
                topic: Some(&attributes),
            };
            let put = self.identities.put_topic(&self.account, name, found.as_ref(), new).await;
            put.map_err(topic_failure)?;
        }
        field(result, "TopicArn", &arn);
        Ok(())
    }

    async fn list_topics(&self, action: &str, result: &mut String) -> S3Result<()> {
        self.allow_sns(action, "*")?;
        let after = self.form.optional("NextToken").unwrap_or_default();
        let found = self.identities.event_targets_of(&self.account).await.map_err(topic_failure)?;
        let mut names: Vec<String> = found.into_iter().map(|(name, _)| name).collect();
        names.retain(|name| name.as_str() > after);
        let has_more = names.len() > PAGE;
        names.truncate(PAGE);
        element(result, "Topics", |text| {
            names.iter().try_for_each(|name| {
                element(text, "member", |text| {
                    field(text, "TopicArn", &self.topic_arn(name));
                    Ok(())
                })
            })
        })?;
        if let Some(last) = names.last().filter(|_| has_more) {
            field(result, "NextToken", last);
        }
        Ok(())
    }

    /// Reads, changes or removes a topic.
    async fn topic(&self, action: &str, result: &mut String) -> S3Result<()> {
        let arn = self.form.get("TopicArn")?;
        let (account, name) = target_of_arn(TOPIC, arn).ok_or_else(|| {
            invalid_parameter("TopicArn must have the form arn:aws:sns:REGION:ACCOUNT:NAME")
        })?;
        if account != self.account {
            return Err(denied("the topic belongs to another account"));
        }
        if arn != self.topic_arn(name) {
            return Err(invalid_parameter("TopicArn names another region than the gateway's"));
        }
        self.allow_sns(action, arn)?;
        match action {
            "DeleteTopic" => {
                // As on AWS, a repetition succeeds.
                let removed = self.identities.remove_topic(account, name).await.optional();
                removed.map(drop).map_err(topic_failure)
            }
            "SetTopicAttributes" => {
                if self.form.get("AttributeName")? != POLICY {
                    return Err(invalid_parameter(
                        "only the attribute Policy can be set; CreateTopic with the name of the topic replaces the others",
                    ));
                }
                let policy = self.form.optional("AttributeValue");
                if let Some(policy) = policy {
                    Document::of_topic(policy, arn).map_err(|message| invalid_parameter(&message))?;
                }
                let edit = |attributes: &mut BTreeMap<String, String>| match policy {
                    Some(policy) => drop(attributes.insert(POLICY.to_owned(), policy.to_owned())),
                    None => drop(attributes.remove(POLICY)),
                };
                self.identities.change_topic(account, name, edit).await.map_err(topic_failure)
            }
            _ => {
                let found = self.identities.event_target(account, name).await.map_err(topic_failure)?;
                let mut attributes = found.topic.unwrap_or_default();
                attributes.insert("Owner".to_owned(), account.to_owned());
                attributes.insert("TopicArn".to_owned(), arn.to_owned());
                element(result, "Attributes", |text| {
                    attributes.iter().try_for_each(|(name, value)| {
                        element(text, "entry", |text| {
                            field(text, "key", name);
                            field(text, "value", value);
                            Ok(())
                        })
                    })
                })
            }
        }
    }

    fn topic_arn(&self, name: &str) -> String {
        target_arn(TOPIC, &self.iam.region, &self.account, name)
    }

    fn allow_sns(&self, action: &str, resource: &str) -> S3Result<()> {
        let action = format!("sns:{action}");
        match self.may(&action, resource, &self.facts) {
            true => Ok(()),
            false => Err(denied(&format!("the policies of the caller do not allow {action} on {resource}"))),
        }
    }
}

fn denied(message: &str) -> S3Error {
    error("AuthorizationError", StatusCode::FORBIDDEN, message)
}

fn invalid_parameter(message: &str) -> S3Error {
    error("InvalidParameter", StatusCode::BAD_REQUEST, message)
}

/// Maps an error of the identities.
fn topic_failure(failed: Error) -> S3Error {
    let (code, status) = match failed.kind() {
        ErrorKind::NotFound => {
            return error("NotFound", StatusCode::NOT_FOUND, "the topic does not exist");
        }
        ErrorKind::PermissionDenied => ("AuthorizationError", StatusCode::FORBIDDEN),
        ErrorKind::InvalidArgument => ("InvalidParameter", StatusCode::BAD_REQUEST),
        ErrorKind::LimitExceeded => ("TopicLimitExceeded", StatusCode::FORBIDDEN),
        _ => return failure(failed),
    };
    error(code, status, failed.message())
}
