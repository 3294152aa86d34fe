//! The facts about an S3 request that policies use.

use super::auth::{Peer, Sender};
use super::tags::Pairs;
use super::{tags, timestamp};
use crate::identity::Caller;
use crate::policy::Facts;
use crate::sal::Object;
use hyper::header::{AUTHORIZATION, HeaderMap, REFERER, USER_AGENT};
use hyper::http::Extensions;
use s3s::S3Request;
use s3s::dto::TimestampFormat;

/// A request, its sender, and what it works on.
pub(super) struct RequestFacts<'r> {
    headers: &'r HeaderMap,
    query: &'r str,
    extensions: &'r Extensions,
    sender: &'r Sender,
    owner: Option<&'r str>,
    pub object: Option<&'r Object>,
    pub version: Option<&'r str>,
    /// The tags that a document in the request gives to the object.
    pub new_tags: Option<&'r Pairs>,
}

impl<'r> RequestFacts<'r> {
    pub fn new<T>(request: &'r S3Request<T>, sender: &'r Sender, owner: Option<&'r str>) -> RequestFacts<'r> {
        RequestFacts {
            headers: &request.headers,
            query: request.uri.query().unwrap_or_default(),
            extensions: &request.extensions,
            sender,
            owner,
            object: None,
            version: None,
            new_tags: None,
        }
    }

    fn header(&self, name: impl hyper::header::AsHeaderName) -> Option<String> {
        self.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    }

    fn query_value(&self, name: &str) -> Option<String> {
        let mut pairs = url::form_urlencoded::parse(self.query.as_bytes());
        pairs.find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
    }

    fn new_tags(&self) -> Option<Pairs> {
        match self.new_tags {
            Some(tags) => Some(tags.clone()),
            None => tags::parse(&self.header("x-amz-tagging")?).ok(),
        }
    }

    fn auth_type(&self) -> Option<&'static str> {
        if self.headers.contains_key(AUTHORIZATION) {
            return Some("REST-HEADER");
        }
        match &self.sender.caller {
            Caller::Anonymous => None,
            Caller::User { .. } if self.query.contains("X-Amz-Signature=") => Some("REST-QUERY-STRING"),
            Caller::User { .. } => Some("POST"),
        }
    }

    fn value(&self, key: &str) -> Option<String> {
        Some(match key {
            "aws:currenttime" => {
                let mut text = Vec::new();
                timestamp(self.sender.received_ms).format(TimestampFormat::DateTime, &mut text).ok()?;
                String::from_utf8(text).ok()?
            }
            "aws:epochtime" => (self.sender.received_ms / 1_000).to_string(),
            "aws:referer" => self.header(REFERER)?,
            "aws:useragent" => self.header(USER_AGENT)?,
            "aws:resourceaccount" | "s3:resourceaccount" => self.owner?.to_owned(),
            "s3:authtype" => self.auth_type()?.to_owned(),
            "s3:delimiter" | "s3:max-keys" | "s3:prefix" => self.query_value(&key[3..])?,
            "s3:versionid" => self.version?.to_owned(),
            _ => match key.strip_prefix("s3:").filter(|name| name.starts_with("x-amz-")) {
                Some(name) => self.header(name)?,
                None => caller_value(&self.sender.caller, self.extensions.get(), key)?,
            },
        })
    }
}

/// The facts about a caller and its connection.
fn caller_value(caller: &Caller, peer: Option<&Peer>, key: &str) -> Option<String> {
    let user = match caller {
        Caller::User { account, user } => Some((account, user)),
        Caller::Anonymous => None,
    };
    Some(match key {
        "aws:principalaccount" => user?.0.clone(),
        "aws:principalarn" => format!("arn:aws:iam::{}:user/{}", user?.0, user?.1),
        "aws:principaltype" if user.is_none() => "Anonymous".to_owned(),
        "aws:principaltype" => "User".to_owned(),
        "aws:userid" => format!("{}/{}", user?.0, user?.1),
        "aws:username" => user?.1.clone(),
        "aws:securetransport" => peer?.is_encrypted.to_string(),
        "aws:sourceip" => peer?.address.to_canonical().to_string(),
        _ => return None,
    })
}

/// The facts about a request of IAM: those about the caller and its connection.
pub(super) struct IamFacts {
    pub caller: Caller,
    pub peer: Option<Peer>,
}

impl Facts for IamFacts {
    fn values(&self, key: &str) -> Option<Vec<String>> {
        caller_value(&self.caller, self.peer.as_ref(), key).map(|value| vec![value])
    }
}

impl Facts for RequestFacts<'_> {
    fn values(&self, key: &str) -> Option<Vec<String>> {
        let of_tag = |tags: &Pairs, wanted: &str| {
            let (_, value) = tags.iter().find(|(name, _)| name == wanted)?;
            Some(vec![value.clone()])
        };
        if let Some(tag) = key.strip_prefix("s3:existingobjecttag/") {
            return of_tag(&tags::get(&self.object?.attributes).ok()?, tag);
        }
        if let Some(tag) = key.strip_prefix("s3:requestobjecttag/") {
            return of_tag(&self.new_tags()?, tag);
        }
        if key == "s3:requestobjecttagkeys" {
            return Some(self.new_tags()?.into_iter().map(|(name, _)| name).collect());
        }
        self.value(key).map(|value| vec![value])
    }
}
