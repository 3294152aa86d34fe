//! Tags of objects and buckets.

use super::auth::On;
use super::document::{check_elements, has_controls};
use super::versions::version_field;
use super::{Gateway, names};
use crate::sal::{Attributes, Object};
use bytes::Bytes;
use s3s::dto::{
    DeleteBucketTaggingInput, DeleteBucketTaggingOutput, DeleteObjectTaggingInput, DeleteObjectTaggingOutput,
    GetBucketTaggingInput, GetBucketTaggingOutput, GetObjectTaggingInput, GetObjectTaggingOutput,
    PutBucketTaggingInput, PutBucketTaggingOutput, PutObjectTaggingInput, PutObjectTaggingOutput, Tag,
    Tagging,
};
use s3s::xml::{Deserialize, Deserializer};
use s3s::{S3Request, S3Result, s3_error};

const OBJECT_TAGS_MAX: usize = 10;
const BUCKET_TAGS_MAX: usize = 50;
const KEY_CHARS_MAX: usize = 128;
const VALUE_CHARS_MAX: usize = 256;

pub(crate) type Pairs = Vec<(String, String)>;

/// Parses tags from the header `x-amz-tagging`.
pub(super) fn parse(header: &str) -> S3Result<Pairs> {
    let pairs = url::form_urlencoded::parse(header.as_bytes());
    let pairs = pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect();
    check_pairs(pairs, OBJECT_TAGS_MAX)
}

/// Brings a document of tags into the format of the header `x-amz-tagging`.
pub(super) fn header_of(document: &str) -> S3Result<String> {
    check_elements(document.as_bytes())?;
    let mut parser = Deserializer::new(document.as_bytes());
    let parsed = Tagging::deserialize(&mut parser);
    let parsed = parsed.and_then(|tagging| parser.expect_eof().map(|()| tagging));
    let tagging = parsed.map_err(|error| s3_error!(error, MalformedXML))?;
    let mut header = url::form_urlencoded::Serializer::new(String::new());
    header.extend_pairs(to_pairs(&tagging.tag_set));
    Ok(header.finish())
}

/// Checks the tags of a bucket from an XML document.
pub(super) fn pairs(tags: &[Tag]) -> S3Result<Pairs> {
    check_pairs(to_pairs(tags), BUCKET_TAGS_MAX)
}

fn to_pairs(tags: &[Tag]) -> Pairs {
    let pair = |tag: &Tag| (tag.key.clone().unwrap_or_default(), tag.value.clone().unwrap_or_default());
    tags.iter().map(pair).collect()
}

/// Checks tags, and sorts them by name.
fn check_pairs(mut pairs: Pairs, max: usize) -> S3Result<Pairs> {
    pairs.sort();
    if pairs.len() > max {
        return Err(s3_error!(InvalidTag, "at most {max} tags are allowed"));
    }
    for (index, (key, value)) in pairs.iter().enumerate() {
        if key.is_empty() || key.chars().count() > KEY_CHARS_MAX || has_controls(key.as_bytes()) {
            return Err(s3_error!(InvalidTag, "The TagKey you have provided is invalid"));
        }
        if value.chars().count() > VALUE_CHARS_MAX || has_controls(value.as_bytes()) {
            return Err(s3_error!(InvalidTag, "The TagValue you have provided is invalid"));
        }
        if pairs[..index].iter().any(|(earlier, _)| earlier == key) {
            return Err(s3_error!(InvalidTag, "Cannot provide multiple Tags with the same key"));
        }
    }
    Ok(pairs)
}

/// Stores tags among attributes. An empty list removes the existing tags.
pub(crate) fn set(attributes: &mut Attributes, pairs: &Pairs) -> S3Result<()> {
    if pairs.is_empty() {
        attributes.remove(names::TAGS);
        return Ok(());
    }
    let text = serde_json::to_vec(pairs).map_err(|error| s3_error!(error, InternalError))?;
    attributes.insert(names::TAGS.to_owned(), Bytes::from(text));
    Ok(())
}

/// Adds tags to a bucket, and replaces those with the same keys.
pub(super) fn add(attributes: &mut Attributes, new: &Pairs) -> S3Result<()> {
    let mut pairs = get(attributes)?;
    pairs.retain(|(key, _)| !new.iter().any(|(name, _)| name == key));
    pairs.extend(new.iter().cloned());
    set(attributes, &check_pairs(pairs, BUCKET_TAGS_MAX)?)
}

/// Removes the tags with these keys.
pub(super) fn remove(attributes: &mut Attributes, keys: &[String]) -> S3Result<()> {
    let mut pairs = get(attributes)?;
    pairs.retain(|(key, _)| !keys.contains(key));
    set(attributes, &pairs)
}

pub(crate) fn get(attributes: &Attributes) -> S3Result<Pairs> {
    let Some(text) = attributes.get(names::TAGS) else { return Ok(Pairs::new()) };
    serde_json::from_slice(text).map_err(|error| s3_error!(error, InternalError))
}

fn tag_set(attributes: &Attributes) -> S3Result<Vec<Tag>> {
    let tag = |(key, value)| Tag { key: Some(key), value: Some(value) };
    Ok(get(attributes)?.into_iter().map(tag).collect())
}

/// The number of tags; `None` if there are none.
pub(super) fn count(attributes: &Attributes) -> Option<i32> {
    let count = get(attributes).ok()?.len();
    i32::try_from(count).ok().filter(|count| *count > 0)
}

impl Gateway {
    pub(super) async fn object_tags(
        &self,
        request: S3Request<GetObjectTaggingInput>,
    ) -> S3Result<GetObjectTaggingOutput> {
        let input = &request.input;
        let on = On::object(&input.key, input.version_id.as_ref());
        let access = self.authorize(&request, &input.bucket, &input.expected_bucket_owner, on).await?;
        let object = self.find_visible(&access, &input.key, input.version_id.as_deref()).await?;
        let version_id = version_field(access.bucket.versioning, object.version);
        Ok(GetObjectTaggingOutput { tag_set: tag_set(&object.attributes)?, version_id })
    }

    pub(super) async fn set_object_tags(
        &self,
        request: S3Request<PutObjectTaggingInput>,
    ) -> S3Result<PutObjectTaggingOutput> {
        let input = &request.input;
        let pairs = check_pairs(to_pairs(&input.tagging.tag_set), OBJECT_TAGS_MAX)?;
        let version = input.version_id.as_deref();
        let on = On::tagged(&input.key, version, &pairs);
        let access = self.authorize(&request, &input.bucket, &input.expected_bucket_owner, on).await?;
        let change = |object: &mut Object| set(&mut object.attributes, &pairs);
        let object = self.change_object(&access, &input.key, version, false, change).await?;
        let version_id = version_field(access.bucket.versioning, object.version);
        Ok(PutObjectTaggingOutput { version_id })
    }

    pub(super) async fn remove_object_tags(
        &self,
        request: S3Request<DeleteObjectTaggingInput>,
    ) -> S3Result<DeleteObjectTaggingOutput> {
        let input = &request.input;
        let on = On::object(&input.key, input.version_id.as_ref());
        let access = self.authorize(&request, &input.bucket, &input.expected_bucket_owner, on).await?;
        let version = input.version_id.as_deref();
        let change = |object: &mut Object| set(&mut object.attributes, &Pairs::new());
        let object = self.change_object(&access, &input.key, version, false, change).await?;
        let version_id = version_field(access.bucket.versioning, object.version);
        Ok(DeleteObjectTaggingOutput { version_id })
    }

    pub(super) async fn bucket_tags(
        &self,
        request: S3Request<GetBucketTaggingInput>,
    ) -> S3Result<GetBucketTaggingOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let tag_set = tag_set(&access.bucket.attributes)?;
        if tag_set.is_empty() {
            return Err(s3_error!(NoSuchTagSet));
        }
        Ok(GetBucketTaggingOutput { tag_set })
    }

    pub(super) async fn set_bucket_tags(
        &self,
        request: S3Request<PutBucketTaggingInput>,
    ) -> S3Result<PutBucketTaggingOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let pairs = pairs(&input.tagging.tag_set)?;
        self.change_bucket(access.bucket, |bucket| set(&mut bucket.attributes, &pairs)).await?;
        Ok(PutBucketTaggingOutput::default())
    }

    pub(super) async fn remove_bucket_tags(
        &self,
        request: S3Request<DeleteBucketTaggingInput>,
    ) -> S3Result<DeleteBucketTaggingOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        self.change_bucket(access.bucket, |bucket| set(&mut bucket.attributes, &Pairs::new())).await?;
        Ok(DeleteBucketTaggingOutput::default())
    }
}
