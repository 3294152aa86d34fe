//! Authentication and authorization.
//!
//! A request is signed with a key, or anonymous. The table of operations names the action that it
//! needs, such as `s3:GetObject`. [`policy`](crate::policy) decides whether the caller may do that:
//! by the policies of the bucket and of the caller, and by access control lists.

use super::access_log::Notes;
use super::acl::{self, Acl};
use super::bucket_policy::Principals;
use super::encryption::SealedBy;
use super::metrics::Metrics;
use super::public_access::{is_of_writer, object_owner};
use super::request_facts::RequestFacts;
use super::service::{Permission, permission};
use super::signature_time::check_time;
use super::tags::Pairs;
use super::{Gateway, error, exec, names, public_access, request_payment};
use crate::identity::{Caller, Federated, Identities, Lookup, PolicyTexts, Refusal};
use crate::policy::{Decision, Document, Request, Rights, Rules, decide, decide_for_caller};
use crate::sal::{Attributes, Bucket, Lock, Object, Prefetch};
use crate::view::is_view;
use async_trait::async_trait;
use benthic_core::{Environment, Error, ErrorKind, OptionalExtension};
use bytes::Bytes;
use hyper::header::HeaderMap;
use parking_lot::Mutex;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{Credentials, S3Auth, SecretKey};
use s3s::{S3Error, S3Request, S3Result, s3_error};
use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Maximum total size of the policies in the cache, in bytes of JSON. The parsed form takes about
/// 50 times as much memory.
const PARSED_BYTES_MAX: usize = 4 << 20;

/// Actions on views other than reading: settings about access.
const SETTINGS_OF_VIEWS: [&str; 5] = [
    "s3:DeleteBucketPolicy",
    "s3:PutBucketCORS",
    "s3:PutBucketPolicy",
    "s3:PutBucketPublicAccessBlock",
    "s3:PutBucketTagging",
];

/// Whether views permit an action at all.
fn is_of_views(action: &str) -> bool {
    action.starts_with("s3:Get") || action.starts_with("s3:List") || SETTINGS_OF_VIEWS.contains(&action)
}

/// The keys that a gateway accepts.
#[async_trait]
pub trait Keys: Send + Sync {
    /// Looks up the secret of a key. Returns `None` for a key that is not accepted.
    ///
    /// # Errors
    /// Errors of the store.
    async fn secret(&self, access_key: &str) -> benthic_core::Result<Option<String>>;

    /// Looks up a key. A temporary key needs its token.
    ///
    /// # Errors
    /// Errors of the store.
    async fn find(&self, access_key: &str, token: Option<&str>) -> benthic_core::Result<Lookup>;

    /// Whether a key may be used for this request at all. The access to the bucket is checked in
    /// addition.
    ///
    /// # Errors
    /// `PermissionDenied` if the client gets a reason why the key may not be used; errors of the
    /// store.
    async fn admits(&self, access_key: &str, request: &KeyUse<'_>) -> benthic_core::Result<bool>;

    /// The users, which callers can administer; `None` if the keys come from elsewhere.
    fn identities(&self) -> Option<&Identities> {
        None
    }
}

/// The use of a key by a request.
#[derive(Clone, Copy, Debug)]
pub struct KeyUse<'r> {
    /// The name of the S3 operation.
    pub operation: &'r str,
    /// The key of the object. Absent if the request addresses a bucket, or none.
    pub object: Option<&'r str>,
    /// The query of the URI, with percent-encoding.
    pub query: &'r str,
}

/// All keys of the store, for all requests.
#[async_trait]
impl Keys for Identities {
    async fn secret(&self, access_key: &str) -> benthic_core::Result<Option<String>> {
        Identities::secret(self, access_key).await
    }

    async fn find(&self, access_key: &str, token: Option<&str>) -> benthic_core::Result<Lookup> {
        self.look_up_key(access_key, token).await
    }

    async fn admits(&self, _access_key: &str, _request: &KeyUse<'_>) -> benthic_core::Result<bool> {
        Ok(true)
    }

    fn identities(&self) -> Option<&Identities> {
        Some(self)
    }
}

/// Looks up the secrets of keys for `s3s`.
pub(super) struct Auth(pub Arc<dyn Keys>);

/// Determines the caller of each request.
#[derive(Clone)]
pub(super) struct Access {
    pub keys: Arc<dyn Keys>,
    pub metrics: Arc<Metrics>,
    pub environment: Environment,
    pub region: Arc<str>,
    pub parsed: Arc<ParsedPolicies<Arc<PolicyTexts>, Arc<Rights>>>,
}

/// A cache of parsed policies, by the bucket or a hash of the caller's policies. An entry is valid
/// only for the text that it contains.
pub(super) struct ParsedPolicies<T, P>(Mutex<Parsed<T, P>>);

struct Parsed<T, P> {
    policies: HashMap<String, (T, P)>,
    bytes: usize,
}

impl<T, P> Default for ParsedPolicies<T, P> {
    fn default() -> ParsedPolicies<T, P> {
        ParsedPolicies(Mutex::new(Parsed { policies: HashMap::new(), bytes: 0 }))
    }
}

/// The size of the text of policies.
pub(super) trait TextLen {
    fn len_bytes(&self) -> usize;
}

impl TextLen for Bytes {
    fn len_bytes(&self) -> usize {
        self.len()
    }
}

impl TextLen for [Bytes; 2] {
    fn len_bytes(&self) -> usize {
        self.iter().map(Bytes::len).sum()
    }
}

impl TextLen for Arc<PolicyTexts> {
    fn len_bytes(&self) -> usize {
        self.texts().map(str::len).sum()
    }
}

impl<T: PartialEq + TextLen, P: Clone> ParsedPolicies<T, P> {
    /// Returns the parsed policy, and parses it if its text is new.
    pub fn get(&self, name: &str, text: T, parse: impl FnOnce(&T) -> Result<P, String>) -> S3Result<P> {
        if let Some((known, parsed)) = self.0.lock().policies.get(name)
            && *known == text
        {
            return Ok(parsed.clone());
        }
        let parsed = parse(&text).map_err(|message| {
            internal(Error::corrupt(format!("a stored document is invalid: {message}")))
        })?;
        let mut all = self.0.lock();
        let len_bytes = text.len_bytes() + name.len();
        if all.bytes + len_bytes > PARSED_BYTES_MAX {
            *all = Parsed { policies: HashMap::new(), bytes: 0 };
        }
        all.bytes += len_bytes;
        if let Some((old, _)) = all.policies.insert(name.to_owned(), (text, parsed.clone())) {
            all.bytes -= old.len_bytes() + name.len();
        }
        Ok(parsed)
    }
}

/// The address of the client, and whether the connection is encrypted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub address: IpAddr,
    pub is_encrypted: bool,
    pub tls: Option<Tls>,
}

/// How a connection is encrypted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tls {
    pub version: &'static str,
    pub cipher_suite: &'static str,
}

/// The sender of a request, and the permission that the operation needs.
#[derive(Clone)]
pub(super) struct Sender {
    pub caller: Caller,
    /// The path of the user or the role.
    pub path: String,
    /// The unique id of the user or the role.
    pub id: String,
    /// The claims of an identity provider about the caller of a session.
    pub federated: Option<Arc<Federated>>,
    /// When the temporary key of the caller was created, in milliseconds since 1970.
    pub issued_ms: Option<u64>,
    /// When the gateway received the head of the request, in milliseconds since 1970.
    pub received_ms: u64,
    /// The region of the gateway.
    pub region: Arc<str>,
    rights: Arc<Rights>,
    permission: Permission,
}

#[async_trait]
impl S3Auth for Auth {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        match self.0.secret(access_key).await {
            Ok(Some(secret)) => Ok(secret.into()),
            Ok(None) => Err(s3_error!(InvalidAccessKeyId)),
            Err(error) => Err(internal(error)),
        }
    }
}

#[async_trait]
impl S3Access for Access {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let operation = context.s3_op().name();
        let query = context.uri().query().unwrap_or_default();
        let takes_methods = ["GetObject", "HeadObject"].contains(&operation);
        if !takes_methods && exec::is_wanted(query) {
            self.metrics.operation(operation);
            return Err(s3_error!(InvalidArgument, "only GetObject runs methods"));
        }
        let object = context.s3_path().as_object().map(|(_, key)| key);
        let sender = self
            .sender(
                (operation, permission(operation)),
                context.credentials(),
                object,
                context.headers(),
                query,
            )
            .await?;
        let requester = sender.caller.arn(&sender.path);
        let operation = operation.to_owned();
        Notes::of_caller(context.extensions_mut(), operation, requester);
        context.extensions_mut().insert(sender);
        Ok(())
    }
}

impl Access {
    /// Determines the sender of a request whose signature was checked. An operation without a
    /// permission is not implemented.
    pub async fn sender(
        &self,
        (operation, permission): (&str, Option<Permission>),
        credentials: Option<&Credentials>,
        object: Option<&str>,
        headers: &HeaderMap,
        query: &str,
    ) -> S3Result<Sender> {
        self.metrics.operation(operation);
        let (caller, path, id, federated, issued_ms, rights) = match credentials {
            Some(credentials) => {
                if operation != "PostObject" {
                    check_time(headers, query, self.environment.unix_ms())?;
                }
                let request = KeyUse { operation, object, query };
                let token = session_token(headers, query);
                let key =
                    self.keys.find(&credentials.access_key, token.as_deref()).await.map_err(internal)?;
                let key = key.map_err(refused)?;
                match self.keys.admits(&credentials.access_key, &request).await {
                    Ok(true) => {}
                    Ok(false) => return Err(s3_error!(AccessDenied)),
                    Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                        return Err(s3_error!(AccessDenied, "{}", error.message()));
                    }
                    Err(error) => return Err(internal(error)),
                }
                let parse = |texts: &Arc<PolicyTexts>| rights(texts).map(Arc::new);
                let rights = self.parsed.get(&key.policies.hash(), key.policies, parse)?;
                (key.caller, key.path, key.id, key.federated, key.issued_ms, rights)
            }
            None if permission.is_none() => return Err(s3_error!(AccessDenied)),
            None => (Caller::Anonymous, String::new(), String::new(), None, None, Arc::default()),
        };
        let Some(permission) = permission else {
            return Err(s3_error!(NotImplemented, "{operation} is not implemented"));
        };
        let received_ms = self.environment.unix_ms();
        let region = Arc::clone(&self.region);
        Ok(Sender { caller, path, id, federated, issued_ms, received_ms, region, rights, permission })
    }
}

/// Parses the policies of a caller.
///
/// # Errors
/// A message that says what is wrong with a policy.
pub(super) fn rights(texts: &PolicyTexts) -> Result<Rights, String> {
    let parse_all = |texts: &Vec<String>| texts.iter().map(|text| Document::of_identity(text)).collect();
    Ok(Rights {
        identity: texts.identity.as_ref().map(parse_all).transpose()?,
        boundary: texts.boundary.as_deref().map(Document::of_identity).transpose()?,
        session: texts.session.as_ref().map(parse_all).transpose()?,
    })
}

/// The token of a temporary key: a header, or a parameter of a presigned URI.
pub(super) fn session_token<'r>(headers: &'r HeaderMap, query: &'r str) -> Option<Cow<'r, str>> {
    match headers.get("x-amz-security-token") {
        Some(token) => Some(String::from_utf8_lossy(token.as_bytes())),
        None => {
            let mut pairs = url::form_urlencoded::parse(query.as_bytes());
            pairs.find_map(|(name, value)| (name == "X-Amz-Security-Token").then_some(value))
        }
    }
}

/// The error for a key that is refused.
pub(super) fn refused(refusal: Refusal) -> S3Error {
    match refusal {
        Refusal::UnknownKey => s3_error!(InvalidAccessKeyId),
        Refusal::InvalidToken => s3_error!(InvalidToken),
        Refusal::ExpiredToken => s3_error!(ExpiredToken),
    }
}

/// The lookup failed because of the store or the sealing key. That is not the client's fault.
fn internal(error: benthic_core::Error) -> S3Error {
    error::bucket(error.with_kind(benthic_core::ErrorKind::Internal))
}

impl Sender {
    /// The action that the operation of the request needs.
    pub fn action(&self, of_version: bool) -> &'static str {
        self.permission.action(of_version)
    }
}

pub(super) fn sender<T>(request: &S3Request<T>) -> S3Result<Sender> {
    // A signature for the users' API is none for buckets.
    if request.service.as_deref().is_some_and(|service| service != "s3") {
        return Err(s3_error!(AccessDenied, "sign the request for the service s3"));
    }
    // `s3s` checks the access of every request, which stores the sender.
    request.extensions.get().cloned().ok_or_else(|| s3_error!(AccessDenied))
}

/// Refuses the request unless the user may do this without a bucket. `owner` is the account of the
/// resource, if it exists. Returns the account of the caller.
pub(super) fn authorize_for_account<T>(
    request: &S3Request<T>,
    action: &str,
    resource: &str,
    owner: Option<&str>,
) -> S3Result<String> {
    authorize_creation(request, action, (resource, owner), (None, None))
}

/// As [`authorize_for_account`], for a request that creates a bucket. `settings` are its region and
/// its object ownership.
pub(super) fn authorize_creation<T>(
    request: &S3Request<T>,
    action: &str,
    (resource, owner): (&str, Option<&str>),
    settings: (Option<&str>, Option<&str>),
) -> S3Result<String> {
    let sender = sender(request)?;
    let mut facts = RequestFacts::new(request, &sender, owner, action);
    (facts.location, facts.ownership) = settings;
    let question = Request { caller: &sender.caller, action, resource, facts: &facts };
    match (decide_for_caller(&question, &sender.rights), sender.caller.account()) {
        (Decision::Allowed, Some(account)) => Ok(account.to_owned()),
        _ => Err(s3_error!(AccessDenied)),
    }
}

/// The bucket or object that an operation uses.
#[derive(Clone, Copy)]
pub(super) enum On<'a> {
    Bucket,
    /// The bucket, which gets this object ownership.
    Ownership(&'a str),
    /// The bucket, and whether the caller may find out that it has no object with this key. As on
    /// AWS, the key is the prefix of a listing for that.
    MissingKey(&'a str),
    /// An object that exists. The request gives the new tags and the new lock to it, or deletes it
    /// if it has an entity tag.
    Object {
        key: &'a str,
        version: Option<&'a str>,
        new_tags: Option<&'a Pairs>,
        new_lock: Lock,
        if_match: Option<&'a str>,
    },
    /// A part of an object, and the completion of an upload. Policies see how the upload is
    /// encrypted.
    Part {
        key: &'a str,
        sealing: Option<&'a SealedBy>,
    },
    /// An object that the operation creates. `tags` are the tags of the source of a copy; without
    /// them, policies see those in the head of the request.
    New {
        key: &'a str,
        lock: Lock,
        tags: Option<&'a Pairs>,
    },
}

impl<'a> On<'a> {
    pub fn object(key: &'a str, version: Option<&'a String>) -> On<'a> {
        On::locked(key, version.map(String::as_str), Lock::default())
    }

    pub fn locked(key: &'a str, version: Option<&'a str>, new_lock: Lock) -> On<'a> {
        On::Object { key, version, new_tags: None, new_lock, if_match: None }
    }

    pub fn tagged(key: &'a str, version: Option<&'a str>, new_tags: &'a Pairs) -> On<'a> {
        let (new_tags, new_lock) = (Some(new_tags), Lock::default());
        On::Object { key, version, new_tags, new_lock, if_match: None }
    }

    /// An object that DeleteObjects removes, if it has this entity tag.
    pub fn deletion(key: &'a str, version: Option<&'a str>, if_match: Option<&'a str>) -> On<'a> {
        On::Object { key, version, new_tags: None, new_lock: Lock::default(), if_match }
    }

    pub fn new_object(key: &'a str) -> On<'a> {
        On::New { key, lock: Lock::default(), tags: None }
    }

    pub fn new_tagged(key: &'a str, tags: &'a Pairs) -> On<'a> {
        On::New { key, lock: Lock::default(), tags: Some(tags) }
    }

    fn resource(&self, bucket: &str) -> String {
        match self {
            On::Bucket | On::Ownership(_) | On::MissingKey(_) => format!("arn:aws:s3:::{bucket}"),
            On::Object { key, .. } | On::New { key, .. } | On::Part { key, .. } => {
                format!("arn:aws:s3:::{bucket}/{key}")
            }
        }
    }
}

/// A bucket, and the policies that decide about requests on it.
pub(super) struct Authorized {
    pub bucket: Bucket,
    pub sender: Sender,
    policy: Option<Arc<Document>>,
    /// The account that owned the object when the caller was authorized, if the decision depended
    /// on it.
    object_owner: Option<String>,
}

impl Gateway {
    /// Returns the bucket of a request if the caller may use it as the operation does.
    pub(super) async fn authorize<T>(
        &self,
        request: &S3Request<T>,
        name: &str,
        expected_owner: &Option<String>,
        on: On<'_>,
    ) -> S3Result<Authorized> {
        let mut access = self.open(request, name, expected_owner).await?;
        access.object_owner = self.check(request, &access, access.action(on), on).await?;
        Ok(access)
    }

    /// The same for an operation on the bucket itself.
    pub(super) async fn authorize_bucket<T>(
        &self,
        request: &S3Request<T>,
        name: &str,
        expected_owner: &Option<String>,
    ) -> S3Result<Authorized> {
        self.authorize(request, name, expected_owner, On::Bucket).await
    }

    /// Returns the bucket of a request, without a check of the caller's rights.
    pub(super) async fn open<T>(
        &self,
        request: &S3Request<T>,
        name: &str,
        expected_owner: &Option<String>,
    ) -> S3Result<Authorized> {
        let begun = self.recent_buckets.begin(self.environment.clock.monotonic_ms());
        let bucket = self.bucket_reads.get(name).await.map_err(error::bucket)?;
        self.recent_buckets.remember(&begun, &bucket);
        self.access(request, bucket, expected_owner)
    }

    /// Checks the expected owner and who pays, and adds the policy of the bucket. Does not check
    /// the caller's rights.
    fn access<T>(
        &self,
        request: &S3Request<T>,
        bucket: Bucket,
        expected_owner: &Option<String>,
    ) -> S3Result<Authorized> {
        let sender = sender(request)?;
        if expected_owner.as_ref().is_some_and(|owner| *owner != bucket.owner) {
            return Err(s3_error!(AccessDenied));
        }
        request_payment::check(&bucket, &sender.caller, &request.headers, &request.uri)?;
        Ok(Authorized { policy: self.policy_of(&bucket)?, bucket, sender, object_owner: None })
    }

    /// The policy of a bucket.
    pub(super) fn policy_of(&self, bucket: &Bucket) -> S3Result<Option<Arc<Document>>> {
        let Some(policy) = bucket.attributes.get(names::POLICY) else { return Ok(None) };
        let principals = bucket.attributes.get(names::POLICY_PRINCIPALS).cloned().unwrap_or_default();
        let parse = |[text, principals]: &[Bytes; 2]| -> Result<Arc<Document>, String> {
            let policy = Document::of_bucket(&String::from_utf8_lossy(text), &bucket.name)?;
            if principals.is_empty() {
                return Ok(Arc::new(policy));
            }
            let principals: Principals =
                serde_json::from_slice(principals).map_err(|error| error.to_string())?;
            Ok(Arc::new(match principals.ids_of(text) {
                Some(ids) => policy.bound_to(&ids),
                None => policy,
            }))
        };
        self.parsed_policies.get(&bucket.id.to_string(), [policy.clone(), principals], parse).map(Some)
    }

    /// Refuses the request unless the caller may do this, too.
    pub(super) async fn require<T>(
        &self,
        request: &S3Request<T>,
        access: &Authorized,
        action: &str,
        on: On<'_>,
    ) -> S3Result<()> {
        self.check(request, access, action, on).await.map(drop)
    }

    /// As [`require`](Gateway::require), and returns the account that owns the object, if the
    /// decision depends on it.
    async fn check<T>(
        &self,
        request: &S3Request<T>,
        access: &Authorized,
        action: &str,
        on: On<'_>,
    ) -> S3Result<Option<String>> {
        let mut object = None;
        if let On::Object { key, version, .. } = on
            && access.needs_object(action)
        {
            let version = version.map(super::versions::parse_version_id).transpose()?;
            let found = self.sal.object(&access.bucket, key, version).await;
            object = found.optional().map_err(error::object)?;
        }
        match access.decide(request, action, on, object.as_ref()) {
            Decision::Allowed if is_view(&access.bucket) && !is_of_views(action) => {
                Err(s3_error!(AccessDenied, "the bucket is a read-only view of a pool"))
            }
            Decision::Allowed => {
                let depends = matches!(on, On::Object { .. }) && access.depends_on_owner(action);
                Ok(depends.then(|| access.owner_of(object.as_ref()).to_owned()))
            }
            Decision::NotAllowed | Decision::Denied => Err(s3_error!(AccessDenied)),
        }
    }

    /// Returns a bucket, and an object in it that the caller may read. Only callers that may list
    /// the bucket get NoSuchKey; others get AccessDenied.
    ///
    /// If the bucket's record was read within the last second, it is not read again. Otherwise, to
    /// save a round trip, the object lookup runs at the same time as the bucket lookup, with the
    /// last known state of the bucket; it is repeated if the name refers to another bucket now.
    /// With `from_start`, the caller will read the object from its first byte. If the caller owns
    /// the bucket, the lookup then also prefetches the first data.
    pub(super) async fn authorize_read<T>(
        &self,
        request: &S3Request<T>,
        (name, expected_owner): (&str, &Option<String>),
        (key, version_text): (&str, Option<&str>),
        from_start: bool,
    ) -> S3Result<(Authorized, Object, Option<Prefetch>)> {
        let version = version_text.map(super::versions::parse_version_id).transpose()?;
        let (subject, action) = match version {
            Some(_) => (error::Subject::Version, "s3:GetObjectVersion"),
            None => (error::Subject::Object, "s3:GetObject"),
        };
        let caller = sender(request)?.caller;
        let find = async |bucket: &Bucket| match version {
            None if from_start && caller.account() == Some(&bucket.owner) => {
                self.sal.object_with_prefetch(bucket, key).await
            }
            version => Ok((self.sal.object(bucket, key, version).await?, None)),
        };
        let recent = self.recent_buckets.get(name, self.environment.clock.monotonic_ms());
        // If the object is missing, read the record: another gateway may have created the bucket
        // again. Always read that of a view, because the operator can remove a view whose objects
        // stay.
        let recent = match recent.filter(|bucket| !is_view(bucket)) {
            Some(bucket) => find(&bucket).await.ok().map(|found| (bucket, found)),
            None => None,
        };
        let (access, found) = match recent {
            Some((bucket, found)) => (self.access(request, bucket, expected_owner)?, Ok(found)),
            None => {
                let last_read = self.bucket_reads.last_read(name);
                let early = async {
                    let bucket = last_read.as_ref()?;
                    Some((bucket.id, find(bucket).await))
                };
                let (access, early) = futures::join!(self.open(request, name, expected_owner), early);
                let access = access?;
                let found = match early {
                    Some((id, found)) if id == access.bucket.id => found,
                    _ => find(&access.bucket).await,
                };
                (access, found)
            }
        };
        let on = On::locked(key, version_text, Lock::default());
        let object = found.as_ref().ok().map(|(object, _)| object);
        let decision = access.decide(request, action, on, object);
        let may_list = || {
            decision != Decision::Denied
                && access.decide(request, "s3:ListBucket", On::MissingKey(key), None) == Decision::Allowed
        };
        match found {
            Ok((object, prefetch)) if decision == Decision::Allowed && !object.marker => {
                Ok((access, object, prefetch))
            }
            Ok((object, _)) if object.marker && may_list() => Ok((access, object, None)),
            Err(failure) if failure.kind() != ErrorKind::NotFound || may_list() => {
                Err(error::s3_error(failure, subject))
            }
            Ok(_) | Err(_) => Err(s3_error!(AccessDenied)),
        }
    }
}

impl Authorized {
    /// The action that the operation of the request needs.
    pub fn action(&self, on: On<'_>) -> &'static str {
        self.sender.action(matches!(on, On::Object { version: Some(_), .. }))
    }

    /// Decides whether the caller may do this. `object` is the object, if it exists and is known.
    pub fn decide<T>(
        &self,
        request: &S3Request<T>,
        action: &str,
        on: On<'_>,
        object: Option<&Object>,
    ) -> Decision {
        let caller = &self.sender.caller;
        let mut facts = RequestFacts::new(request, &self.sender, Some(&self.bucket.owner), action);
        facts.object = object;
        match on {
            On::Bucket => {}
            On::Ownership(ownership) => facts.ownership = Some(ownership),
            On::MissingKey(key) => facts.prefix = Some(key),
            On::New { lock, tags, .. } => (facts.new_tags, facts.new_lock) = (tags, lock),
            On::Part { sealing, .. } => facts.upload = Some(sealing),
            On::Object { version, new_tags, new_lock, if_match, .. } => {
                (facts.version, facts.new_tags, facts.new_lock) = (version, new_tags, new_lock);
                facts.if_match = if_match;
            }
        }
        let owner = match on {
            On::Object { .. } if self.depends_on_owner(action) => self.owner_of(object),
            _ => self.bucket.owner.as_str(),
        };
        let resource = on.resource(&self.bucket.name);
        let block = public_access::block_of(&self.bucket.attributes);
        let acl = match acl::needed_right(action, matches!(on, On::New { .. } | On::Part { .. })) {
            None => None,
            Some((acl::Of::Bucket, right)) => {
                Some((Acl::of(&self.bucket.attributes, &self.bucket.owner), right))
            }
            Some((acl::Of::Object, right)) => {
                object.map(|object| (Acl::of(&object.attributes, self.owner_of(Some(object))), right))
            }
        };
        let ignores_public = block.ignore_public_acls.unwrap_or(false);
        let acl_allows = !public_access::is_owner_enforced(&self.bucket.attributes)
            && acl.is_some_and(|(acl, right)| acl.allows(caller, right, ignores_public));
        let question = Request { caller, action, resource: &resource, facts: &facts };
        let mut rules = Rules {
            owner,
            bucket_policy: self.policy.as_deref(),
            restricts_public_policy: block.restrict_public_buckets.unwrap_or(false),
            acl_allows,
            rights: &self.sender.rights,
        };
        let mut decision = decide(&question, &rules);
        if decision == Decision::Allowed && owner != self.bucket.owner {
            // The policy of a bucket allows nothing on the objects of other accounts.
            rules.bucket_policy = None;
            decision = decide(&question, &rules);
        }
        if acl_allows
            && decision == Decision::Allowed
            && decide(&question, &Rules { acl_allows: false, ..rules }) != Decision::Allowed
        {
            Notes::of_acl(&request.extensions);
        }
        decision
    }

    pub fn policy(&self) -> Option<&Document> {
        self.policy.as_deref()
    }

    /// Whether the decision about an existing object depends on its tags, its access control list
    /// or its owner.
    fn needs_object(&self, action: &str) -> bool {
        let mut policies = self.policy.as_deref().into_iter().chain(self.sender.rights.documents());
        let is_other = self.sender.caller.account() != Some(self.bucket.owner.as_str());
        let by_acl = is_other && acl::is_of_object(action);
        by_acl || self.depends_on_owner(action) || policies.any(Document::reads_object_tags)
    }

    /// Whether the decision about an existing object depends on the account that owns it. As on
    /// AWS, deletions, tags and locks depend on the owner of the bucket: otherwise, a writer could
    /// change the tags on which the policy of the bucket depends, or lock the object.
    fn depends_on_owner(&self, action: &str) -> bool {
        is_of_writer(&self.bucket.attributes, None) && (acl::is_of_object(action) || action == exec::ACTION)
    }

    fn owner_of<'a>(&'a self, object: Option<&'a Object>) -> &'a str {
        object.map_or(self.bucket.owner.as_str(), |object| object_owner(&self.bucket, &object.attributes))
    }

    /// The account that will own an object that the caller creates with this canned access control
    /// list.
    pub fn owner_of_new(&self, canned: Option<&str>) -> &str {
        let writer = self.sender.caller.account();
        writer.filter(|_| is_of_writer(&self.bucket.attributes, canned)).unwrap_or(&self.bucket.owner)
    }

    /// Refuses to change the data or the key of an object or an upload with these attributes if it
    /// belongs to an account that is neither that of the caller nor the owner of the bucket. Its
    /// owner would otherwise answer for data of the caller.
    pub fn check_writer(&self, attributes: &Attributes) -> S3Result<()> {
        let owner = object_owner(&self.bucket, attributes);
        if owner == self.bucket.owner || self.sender.caller.account() == Some(owner) {
            return Ok(());
        }
        Err(s3_error!(AccessDenied, "only the account that owns the object or the upload can do this"))
    }

    /// Refuses an object that got another owner after the caller was authorized.
    pub fn check_owner(&self, object: &Object) -> S3Result<()> {
        match &self.object_owner {
            Some(owner) if *owner != self.owner_of(Some(object)) => Err(s3_error!(OperationAborted)),
            _ => Ok(()),
        }
    }
}
