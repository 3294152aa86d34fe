//! Cross-origin resource sharing (CORS): the rules of a bucket, and the answers to browsers.

use super::{Gateway, names};
use crate::sal::{Attributes, Sal};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderName, HeaderValue,
    ORIGIN, VARY,
};
use s3s::dto::{
    CORSConfiguration, CORSRule, DeleteBucketCorsInput, DeleteBucketCorsOutput, GetBucketCorsInput,
    GetBucketCorsOutput, PutBucketCorsInput, PutBucketCorsOutput,
};
use s3s::{S3Request, S3Result, s3_error};

const RULES_MAX: usize = 100;
const METHODS: [&str; 5] = ["GET", "PUT", "HEAD", "POST", "DELETE"];

pub(super) fn rules(attributes: &Attributes) -> Vec<CORSRule> {
    let text = attributes.get(names::CORS);
    text.and_then(|text| serde_json::from_slice::<CORSConfiguration>(text).ok())
        .map(|configuration| configuration.cors_rules)
        .unwrap_or_default()
}

pub(super) fn check(rules: &[CORSRule]) -> S3Result<()> {
    if rules.is_empty() || rules.len() > RULES_MAX {
        return Err(s3_error!(MalformedXML, "a bucket must have 1 to {RULES_MAX} rules"));
    }
    for rule in rules {
        if let Some(method) = rule.allowed_methods.iter().find(|method| !METHODS.contains(&method.as_str())) {
            return Err(s3_error!(
                InvalidRequest,
                "Found unsupported HTTP method in CORS config. Unsupported method is {method}"
            ));
        }
        let patterns = rule.allowed_origins.iter().chain(rule.allowed_headers.iter().flatten());
        if patterns.clone().any(|pattern| pattern.matches('*').count() > 1) {
            return Err(s3_error!(InvalidRequest, "a pattern can contain only one wildcard"));
        }
        if rule.allowed_origins.is_empty() || rule.allowed_methods.is_empty() {
            return Err(s3_error!(MalformedXML, "a rule needs at least one origin and one method"));
        }
    }
    Ok(())
}

/// Whether a text matches a pattern with at most one `*`.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, end)) => {
            text.len() >= start.len() + end.len() && text.starts_with(start) && text.ends_with(end)
        }
    }
}

/// The headers that let a browser use an answer from another origin; `None` if no rule allows it.
fn cors_headers(rules: &[CORSRule], origin: &str, method: &str, headers: &[String]) -> Option<HeaderMap> {
    let rule = rules.iter().find(|rule| {
        let header_fits = |header: &String| {
            let patterns = rule.allowed_headers.iter().flatten();
            patterns.map(|pattern| pattern.to_ascii_lowercase()).any(|pattern| fits(&pattern, header))
        };
        rule.allowed_origins.iter().any(|pattern| fits(pattern, origin))
            && rule.allowed_methods.iter().any(|allowed| allowed == method)
            && headers.iter().all(header_fits)
    })?;
    let any = rule.allowed_origins.iter().any(|pattern| pattern == "*");
    let mut answer = HeaderMap::new();
    let mut put = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            answer.insert(name, value);
        }
    };
    put(ACCESS_CONTROL_ALLOW_ORIGIN, if any { "*" } else { origin });
    put(ACCESS_CONTROL_ALLOW_METHODS, &rule.allowed_methods.join(", "));
    if !any {
        put(ACCESS_CONTROL_ALLOW_CREDENTIALS, "true");
    }
    if !headers.is_empty() {
        put(ACCESS_CONTROL_ALLOW_HEADERS, &headers.join(", "));
    }
    if let Some(exposed) = rule.expose_headers.as_ref().filter(|exposed| !exposed.is_empty()) {
        put(ACCESS_CONTROL_EXPOSE_HEADERS, &exposed.join(", "));
    }
    if let Some(seconds) = rule.max_age_seconds {
        put(ACCESS_CONTROL_MAX_AGE, &seconds.to_string());
    }
    put(VARY, "Origin, Access-Control-Request-Headers, Access-Control-Request-Method");
    Some(answer)
}

/// A cross-origin request, or the preflight of one.
pub(super) struct CorsRequest {
    origin: String,
    method: String,
    headers: Vec<String>,
}

impl CorsRequest {
    /// The origin, method and headers of a request; `None` if the request is not cross-origin.
    pub fn of(method: &hyper::Method, headers: &HeaderMap) -> Option<CorsRequest> {
        let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::to_owned);
        let origin = text(ORIGIN)?;
        if method != hyper::Method::OPTIONS {
            // As on AWS, which also looks at this header in requests that are no preflights.
            let method = text(ACCESS_CONTROL_REQUEST_METHOD).unwrap_or_else(|| method.to_string());
            return Some(CorsRequest { origin, method, headers: Vec::new() });
        }
        let headers = text(ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default();
        let headers = headers.split(',').map(|header| header.trim().to_ascii_lowercase());
        Some(CorsRequest {
            origin,
            method: text(ACCESS_CONTROL_REQUEST_METHOD)?,
            headers: headers.filter(|header| !header.is_empty()).collect(),
        })
    }

    /// The headers that the bucket's rules allow.
    pub async fn answer(&self, sal: &dyn Sal, bucket: &str) -> Option<HeaderMap> {
        let bucket = sal.bucket(bucket).await.ok()?;
        cors_headers(&rules(&bucket.attributes), &self.origin, &self.method, &self.headers)
    }
}

impl Gateway {
    pub(super) async fn cors(&self, request: S3Request<GetBucketCorsInput>) -> S3Result<GetBucketCorsOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let rules = rules(&access.bucket.attributes);
        if rules.is_empty() {
            return Err(s3_error!(NoSuchCORSConfiguration));
        }
        Ok(GetBucketCorsOutput { cors_rules: Some(rules) })
    }

    pub(super) async fn set_cors(
        &self,
        request: S3Request<PutBucketCorsInput>,
    ) -> S3Result<PutBucketCorsOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        check(&input.cors_configuration.cors_rules)?;
        self.set_bucket_attribute(access.bucket, names::CORS, &input.cors_configuration).await?;
        Ok(PutBucketCorsOutput::default())
    }

    pub(super) async fn remove_cors(
        &self,
        request: S3Request<DeleteBucketCorsInput>,
    ) -> S3Result<DeleteBucketCorsOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        self.remove_bucket_attribute(access.bucket, names::CORS).await?;
        Ok(DeleteBucketCorsOutput::default())
    }
}
