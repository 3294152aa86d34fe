//! The documents of policies: parsing, checks and evaluation.

use super::actions::check_action;
use super::condition::Condition;
use super::facts::{CLAIMS_OF_SESSION, FactCache, NoFacts};
use super::pattern::Pattern;
use super::{Named, Request, Verdict};
use crate::identity::{
    Caller, IdentityKind, PrincipalIds, identity_arn, is_unique_id, parse_oidc_provider_arn,
};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::marker::PhantomData;

/// Maximum size of a policy, in bytes. It is that of AWS for a bucket.
pub const POLICY_BYTES_MAX: usize = 20 * 1024;

/// A policy: statements that allow or deny actions.
#[derive(Clone, Debug)]
pub struct Document {
    statements: Vec<Statement>,
}

/// The kind of resource or identity to which a policy belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bucket,
    /// A user, a group, a role or a session.
    Identity,
    /// A role: who may assume it.
    Trust,
    /// A topic of SNS: which accounts may send events to it.
    Topic,
}

/// The effect of a statement on the requests that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Effect {
    Allow,
    Deny,
}

#[derive(Clone, Debug)]
struct Statement {
    effect: Effect,
    /// `None` in the policy of a user, a group, a role or a session.
    principals: Option<Match<Principal>>,
    actions: Match<Pattern>,
    resources: Match<Pattern>,
    conditions: Vec<Condition>,
}

/// Items, one of which must match, or (as in `NotAction`) none of which may.
#[derive(Clone, Debug)]
struct Match<T> {
    negated: bool,
    items: Vec<T>,
}

impl<T> Match<T> {
    fn holds(&self, fits: impl Fn(&T) -> bool) -> bool {
        self.items.iter().any(fits) != self.negated
    }
}

/// The unique id of the user or role that a policy means. `None` if the policy means every one of
/// this name: policies of earlier builds, and those of servers without users of their own.
type BoundId = Option<String>;

/// Whether the user or the role that sends a request has this unique id.
fn has_id(facts: &FactCache<'_>, id: &str) -> bool {
    let found = facts.values("aws:userid");
    // The id of a session is that of the role, a colon and the name of the session.
    let of_session = |found: &String| found.split(':').next() == Some(id);
    found.as_deref().and_then(<[String]>::first).is_some_and(of_session)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Principal {
    Everybody,
    Account(String),
    User {
        account: String,
        user: String,
        id: BoundId,
    },
    Role {
        account: String,
        role: String,
        id: BoundId,
    },
    Session {
        account: String,
        role: String,
        session: String,
        /// The id of the role.
        id: BoundId,
    },
    /// An identity provider, by its ARN.
    Federated(String),
    /// A service of AWS. The gateway acts as some of them; others send no requests here.
    Service(String),
}

impl Principal {
    /// Parses a principal of the kind `AWS`.
    fn parse(text: &str) -> Result<Principal, String> {
        let invalid = || {
            format!(
                "invalid principal '{text}'; use *, the name of an account, or an ARN such as \
                 arn:aws:iam::lab:root, arn:aws:iam::lab:user/ann, arn:aws:iam::lab:role/reader and \
                 arn:aws:sts::lab:assumed-role/reader/session"
            )
        };
        if text == "*" {
            return Ok(Principal::Everybody);
        }
        if let Some(rest) = text.strip_prefix("arn:aws:sts::") {
            let mut parts = rest.split([':', '/']);
            return match [(); 5].map(|()| parts.next()) {
                [Some(account), Some("assumed-role"), Some(role), Some(session), None]
                    if ![account, role, session].contains(&"") && !rest.contains('*') =>
                {
                    let [account, role, session] = [account, role, session].map(str::to_owned);
                    Ok(Principal::Session { account, role, session, id: None })
                }
                _ => Err(invalid()),
            };
        }
        let Some(rest) = text.strip_prefix("arn:aws:iam::") else {
            let is_name = !text.is_empty() && !text.contains([':', '*', '/']);
            return if is_name { Ok(Principal::Account(text.to_owned())) } else { Err(invalid()) };
        };
        let (account, name) =
            rest.split_once(':').filter(|(account, _)| !account.is_empty()).ok_or_else(invalid)?;
        let account = account.to_owned();
        // A path may precede the name, which is unique in the account.
        match (name.split_once('/'), name.rsplit('/').next()) {
            _ if rest.contains('*') => Err(invalid()),
            (None, _) if name == "root" => Ok(Principal::Account(account)),
            (_, None | Some("")) => Err(invalid()),
            (Some(("user", _)), Some(user)) => {
                Ok(Principal::User { account, user: user.to_owned(), id: None })
            }
            (Some(("role", _)), Some(role)) => {
                Ok(Principal::Role { account, role: role.to_owned(), id: None })
            }
            _ => Err(invalid()),
        }
    }

    /// Parses a principal of the kind `Federated`.
    fn parse_federated(arn: &str) -> Result<Principal, String> {
        if parse_oidc_provider_arn(arn).is_some() && !arn.contains('*') {
            return Ok(Principal::Federated(arn.to_owned()));
        }
        Err(format!(
            "'{arn}' is not the ARN of an identity provider, such as arn:aws:iam::lab:oidc-provider/idp.example"
        ))
    }

    /// Whether this names a part of the other one's principals. Authors of `NotPrincipal` name the
    /// account beside its user, and mean only the user.
    fn is_narrower_than(&self, other: &Principal) -> bool {
        match (self, other) {
            (
                Principal::User { account, .. }
                | Principal::Role { account, .. }
                | Principal::Session { account, .. },
                Principal::Account(named),
            ) => account == named,
            (Principal::Session { account, role, .. }, Principal::Role { account: of, role: named, .. }) => {
                account == of && role == named
            }
            _ => false,
        }
    }

    /// The user or the role: its kind, its account and its name.
    fn identity(&self) -> Option<(IdentityKind, &str, &str)> {
        match self {
            Principal::User { account, user, .. } => Some((IdentityKind::User, account, user)),
            Principal::Role { account, role, .. } | Principal::Session { account, role, .. } => {
                Some((IdentityKind::Role, account, role))
            }
            Principal::Everybody
            | Principal::Account(_)
            | Principal::Federated(_)
            | Principal::Service(_) => None,
        }
    }

    fn bind(&mut self, ids: &PrincipalIds) {
        let Some((kind, account, name)) = self.identity() else { return };
        let bound = ids.get(&identity_arn(kind, account, "/", name)).cloned();
        if let Principal::User { id, .. } | Principal::Role { id, .. } | Principal::Session { id, .. } = self
        {
            *id = bound;
        }
    }

    fn names(&self, caller: &Caller, facts: &FactCache<'_>) -> Option<Named> {
        let is = |id: &BoundId, has_name: bool| match id {
            None => has_name,
            Some(id) => has_id(facts, id),
        };
        match (self, caller) {
            // A permission for everybody stays within the limits of a session.
            (Principal::Everybody, Caller::Session { .. } | Caller::WebIdentity { .. }) => Some(Named::Role),
            (Principal::Everybody, _) => Some(Named::Caller),
            (Principal::Account(named), _) if caller.account() == Some(named) => Some(Named::Account),
            (Principal::User { account, user, id }, Caller::User { account: of, user: name })
                if account == of && is(id, user == name) =>
            {
                Some(Named::Caller)
            }
            (Principal::Role { account, role, id }, Caller::Session { account: of, role: name, .. })
                if account == of && is(id, role == name) =>
            {
                Some(Named::Role)
            }
            (
                Principal::Session { account, role, session, id },
                Caller::Session { account: of, role: of_role, session: name },
            ) if account == of && is(id, role == of_role) && session == name => Some(Named::Caller),
            (Principal::Federated(named), Caller::WebIdentity { provider_arn }) if named == provider_arn => {
                Some(Named::Caller)
            }
            (Principal::Service(named), Caller::Service(service)) if named == service => Some(Named::Service),
            _ => None,
        }
    }
}

impl Document {
    /// Parses the policy of a bucket. All of its statements name principals, and only this bucket
    /// and its objects.
    ///
    /// # Errors
    /// A message that says what is wrong with the document.
    pub fn of_bucket(text: &str, bucket: &str) -> Result<Document, String> {
        let document = RawDocument::parse(text, true)?;
        for text in document.resource_texts() {
            if !is_in_bucket(text, bucket) {
                return Err(format!("the resource '{text}' is not in this bucket, arn:aws:s3:::{bucket}"));
            }
        }
        document.check(Kind::Bucket)
    }

    /// Parses a policy as [`of_bucket`](Document::of_bucket) does, and refuses unknown actions, as
    /// AWS does. Stored policies of earlier builds may have such actions.
    ///
    /// # Errors
    /// As [`of_bucket`](Document::of_bucket).
    pub fn of_new_bucket(text: &str, bucket: &str) -> Result<Document, String> {
        let document = Document::of_bucket(text, bucket)?;
        RawDocument::parse(text, true)?.check_actions()?;
        Ok(document)
    }

    /// Parses the trust policy of a role. Its statements name principals and actions of STS, and no
    /// resources.
    ///
    /// # Errors
    /// As [`of_bucket`](Document::of_bucket).
    pub fn of_trust(text: &str) -> Result<Document, String> {
        RawDocument::parse(text, true)?.check(Kind::Trust)
    }

    /// Parses the policy of a topic. All of its statements name accounts, services or everybody,
    /// and only this topic.
    ///
    /// # Errors
    /// As [`of_bucket`](Document::of_bucket).
    pub fn of_topic(text: &str, arn: &str) -> Result<Document, String> {
        let raw = RawDocument::parse(text, true)?;
        let facts = FactCache::new(&NoFacts);
        let is_topic =
            |text: &str| Pattern::parse(text, false).is_ok_and(|text| text.matches(arn, false, &facts));
        if let Some(text) = raw.resource_texts().find(|text| !is_topic(text)) {
            return Err(format!("the resource '{text}' is not this topic, {arn}"));
        }
        let document = raw.check(Kind::Topic)?;
        if !document.identities()?.is_empty() {
            return Err("the policy of a topic names accounts, not their users and roles".to_owned());
        }
        Ok(document)
    }

    /// Parses the policy of a user, a group, a role or a session. Its statements name no
    /// principals.
    ///
    /// # Errors
    /// As [`of_bucket`](Document::of_bucket).
    pub fn of_identity(text: &str) -> Result<Document, String> {
        RawDocument::parse(text, false)?.check(Kind::Identity)
    }

    /// Parses a policy as [`of_identity`](Document::of_identity) does, and refuses a statement id
    /// that appears twice, as AWS does. Stored policies of earlier builds may have such ids.
    ///
    /// # Errors
    /// As [`of_bucket`](Document::of_bucket).
    pub fn of_new_identity(text: &str) -> Result<Document, String> {
        let raw = RawDocument::parse(text, false)?;
        raw.check_ids()?;
        raw.check(Kind::Identity)
    }

    /// The users and roles that a new policy names: their kinds, accounts and names.
    ///
    /// # Errors
    /// A message for a principal that is a unique id. As the name of an account, it would mean
    /// nobody. AWS puts such ids into the policies of users and roles that are gone.
    pub fn identities(&self) -> Result<BTreeSet<(IdentityKind, &str, &str)>, String> {
        let principals = self.statements.iter().filter_map(|statement| statement.principals.as_ref());
        let mut identities = BTreeSet::new();
        for principal in principals.flat_map(|principals| &principals.items) {
            if let Principal::Account(name) = principal
                && is_unique_id(name)
            {
                return Err(format!(
                    "invalid principal '{name}': it is the unique id of a user or a role; use its ARN"
                ));
            }
            identities.extend(principal.identity());
        }
        Ok(identities)
    }

    /// Has the policy mean the users and roles with these ids, also if their names change, and no
    /// later ones with their names.
    #[must_use]
    pub fn bound_to(mut self, ids: &PrincipalIds) -> Document {
        let principals = self.statements.iter_mut().filter_map(|statement| statement.principals.as_mut());
        principals.flat_map(|principals| &mut principals.items).for_each(|principal| principal.bind(ids));
        self
    }

    /// The policy's verdict on a request.
    pub(super) fn verdict(&self, request: &Request<'_>) -> Verdict {
        let mut verdict = Verdict::default();
        let facts = FactCache::new(request.facts);
        for statement in &self.statements {
            let Some(named) = statement.matches(request, &facts) else { continue };
            match statement.effect {
                Effect::Deny => return Verdict { denies: true, allows: None },
                Effect::Allow => verdict.allows = verdict.allows.max(Some(named)),
            }
        }
        verdict
    }

    /// Whether a statement allows the request, and none denies it.
    #[must_use]
    pub fn allows(&self, request: &Request<'_>) -> bool {
        self.verdict(request).allows.is_some()
    }

    /// Whether the trust policy of a role lets a caller with a token assume it: whether a statement
    /// that names the identity provider allows it, and none denies it. A statement for everybody is
    /// not enough, because its author meant callers with keys.
    #[must_use]
    pub fn trusts(&self, request: &Request<'_>) -> bool {
        self.verdict(request).allows == Some(Named::Caller)
    }

    /// Whether a bucket with this policy is public: whether a statement allows something to
    /// everybody, without a condition that limits the callers to fixed ones.
    #[must_use]
    pub fn is_public(&self) -> bool {
        let is_public = |statement: &Statement| {
            let principals = statement.principals.as_ref();
            let everybody =
                principals.is_some_and(|principals| principals.items.contains(&Principal::Everybody));
            let is_fixed = statement.conditions.iter().any(Condition::is_fixed);
            statement.effect == Effect::Allow && everybody && !is_fixed
        };
        self.statements.iter().any(is_public)
    }

    /// Whether the decision may depend on the tags that the object has.
    #[must_use]
    pub fn reads_object_tags(&self) -> bool {
        let tag = "s3:existingobjecttag/";
        self.statements.iter().any(|statement| {
            statement.conditions.iter().any(|condition| condition.reads(tag))
                || statement.resources.items.iter().any(|resource| resource.reads(tag))
        })
    }
}

impl Statement {
    /// How the statement names the caller, if it matches the request.
    fn matches(&self, request: &Request<'_>, facts: &FactCache<'_>) -> Option<Named> {
        let named = match &self.principals {
            None => Named::Caller,
            Some(Match { negated: false, items }) => {
                items.iter().filter_map(|principal| principal.names(request.caller, facts)).max()?
            }
            Some(Match { items, .. }) => {
                let is_exempt = |principal: &Principal| {
                    let is_narrower = |other: &Principal| other.is_narrower_than(principal);
                    principal.names(request.caller, facts).is_some() && !items.iter().any(is_narrower)
                };
                (!items.iter().any(is_exempt)).then_some(Named::Caller)?
            }
        };
        let matches = self.actions.holds(|action| action.matches(request.action, true, facts))
            && self.resources.holds(|resource| resource.matches(request.resource, false, facts))
            && self.conditions.iter().all(|condition| condition.holds(facts));
        matches.then_some(named)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDocument {
    #[serde(rename = "Version")]
    version: Option<String>,
    #[serde(rename = "Id")]
    _id: Option<String>,
    #[serde(rename = "Statement")]
    statements: Many<Object<RawStatement>>,
}

impl RawDocument {
    fn parse(text: &str, has_principals: bool) -> Result<RawDocument, String> {
        if text.len() > POLICY_BYTES_MAX {
            return Err(format!("the policy is larger than {POLICY_BYTES_MAX} bytes"));
        }
        let Object(raw): Object<RawDocument> =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        if raw.statements.0.is_empty() {
            return Err("the policy has no statement".to_owned());
        }
        let names =
            |Object(raw): &Object<RawStatement>| raw.principal.is_some() || raw.not_principal.is_some();
        if let Some(index) = raw.statements.0.iter().position(|raw| names(raw) != has_principals) {
            let has = if has_principals { "needs a Principal" } else { "must not have a Principal" };
            return Err(format!("statement {} {has}", index + 1));
        }
        Ok(raw)
    }

    /// Refuses a statement id that appears twice. An empty id is none.
    fn check_ids(&self) -> Result<(), String> {
        let mut ids = HashSet::new();
        let all = self.statements.0.iter().filter_map(|Object(raw)| raw.sid.as_deref());
        match all.filter(|id| !id.is_empty()).find(|id| !ids.insert(*id)) {
            Some(id) => Err(format!("the statement id '{id}' appears twice")),
            None => Ok(()),
        }
    }

    /// Refuses actions that buckets and objects do not have.
    fn check_actions(&self) -> Result<(), String> {
        self.statements.0.iter().enumerate().try_for_each(|(index, Object(raw))| {
            let mut actions = raw.action.iter().chain(&raw.not_action).flat_map(|texts| &texts.0);
            let checked = actions.try_for_each(|text| check_action(text));
            checked.map_err(|error| format!("statement {}: {error}", index + 1))
        })
    }

    fn check(self, kind: Kind) -> Result<Document, String> {
        let variables = match self.version.as_deref() {
            None | Some("2008-10-17") => false,
            Some("2012-10-17") => true,
            Some(other) => return Err(format!("unknown policy version '{other}'; use 2012-10-17")),
        };
        let statements = self.statements.0.into_iter().enumerate().map(|(index, Object(raw))| {
            raw.check(variables, kind).map_err(|error| format!("statement {}: {error}", index + 1))
        });
        Ok(Document { statements: statements.collect::<Result<_, _>>()? })
    }

    fn resource_texts(&self) -> impl Iterator<Item = &String> {
        self.statements
            .0
            .iter()
            .flat_map(|Object(raw)| raw.resource.iter().chain(&raw.not_resource))
            .flat_map(|texts| &texts.0)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct RawStatement {
    sid: Option<String>,
    effect: Effect,
    principal: Option<RawPrincipals>,
    not_principal: Option<RawPrincipals>,
    action: Option<Many<String>>,
    not_action: Option<Many<String>>,
    resource: Option<Many<String>>,
    not_resource: Option<Many<String>>,
    condition: Option<Entries<Entries<Many<Scalar>>>>,
}

impl RawStatement {
    fn check(self, variables: bool, kind: Kind) -> Result<Statement, String> {
        let principals = match (self.principal, self.not_principal) {
            (None, None) => None,
            (principal, not_principal) => {
                let many = |raw: RawPrincipals| Many(raw.0);
                Some(either("Principal", principal.map(many), not_principal.map(many))?)
            }
        };
        let is_federated = |principal: &Principal| matches!(principal, Principal::Federated(_));
        if kind != Kind::Trust && principals.iter().flat_map(|all| &all.items).any(is_federated) {
            return Err("only the trust policy of a role can name an identity provider".to_owned());
        }
        if self.effect == Effect::Allow && principals.as_ref().is_some_and(|principals| principals.negated) {
            return Err(
                "NotPrincipal allows more than one expects, so it is only possible with Deny".to_owned()
            );
        }
        let actions: Match<Pattern> =
            either("Action", self.action, self.not_action)?.map(|text| action(&text, kind))?;
        let (resource, not_resource) = match (kind, self.resource, self.not_resource) {
            (Kind::Trust, None, None) => (Some(Many(vec!["*".to_owned()])), None),
            (Kind::Trust, ..) => return Err("a trust policy must not have a Resource".to_owned()),
            (_, resource, not_resource) => (resource, not_resource),
        };
        let resources = either("Resource", resource, not_resource)?.map(|text| {
            if text != "*" && !text.starts_with("arn:") {
                return Err(format!("the resource '{text}' is not an ARN such as arn:aws:s3:::bucket/key"));
            }
            Pattern::parse(&text, variables)
        })?;
        let mut conditions = Vec::new();
        for (operator, keys) in self.condition.into_iter().flat_map(|entries| entries.0) {
            for (key, values) in keys.0 {
                let values: Vec<String> = values.0.into_iter().map(|Scalar(text)| text).collect();
                conditions.push(Condition::parse(&operator, &key, &values, variables)?);
            }
        }
        // Of the claims of a token, a session has only some.
        let is_missing = |claim: &&str| kind != Kind::Trust && !CLAIMS_OF_SESSION.contains(claim);
        if let Some(claim) = conditions.iter().filter_map(Condition::claim).find(is_missing) {
            return Err(format!("only the trust policy of a role can use the claim '{claim}'"));
        }
        Ok(Statement { effect: self.effect, principals, actions, resources, conditions })
    }
}

impl<T> Match<T> {
    fn map<U>(self, convert: impl Fn(T) -> Result<U, String>) -> Result<Match<U>, String> {
        let items = self.items.into_iter().map(convert).collect::<Result<_, _>>()?;
        Ok(Match { negated: self.negated, items })
    }
}

/// Whether a resource can name this bucket or its objects.
fn is_in_bucket(resource: &str, bucket: &str) -> bool {
    let Some(name) = resource.strip_prefix("arn:aws:s3:::") else { return resource == "*" };
    let name = name.split_once('/').map_or(name, |(name, _)| name);
    let facts = FactCache::new(&NoFacts);
    Pattern::parse(name, false).is_ok_and(|name| name.matches(bucket, false, &facts))
}

/// Exactly one of an element and its negation.
fn either<T>(name: &str, element: Option<Many<T>>, negation: Option<Many<T>>) -> Result<Match<T>, String> {
    let (negated, items) = match (element, negation) {
        (Some(items), None) => (false, items.0),
        (None, Some(items)) => (true, items.0),
        _ => return Err(format!("give either {name} or Not{name}")),
    };
    if items.is_empty() {
        return Err(format!("{name} is empty"));
    }
    Ok(Match { negated, items })
}

/// An action such as `s3:GetObject`, with wildcards.
fn action(text: &str, kind: Kind) -> Result<Pattern, String> {
    // The services of the actions, and an example.
    let service: Option<(&[&str], &str)> = match kind {
        Kind::Bucket => Some((&["s3", "benthic"], "s3:GetObject")),
        Kind::Trust => Some((&["sts"], "sts:AssumeRole")),
        Kind::Topic => Some((&["sns"], "sns:Publish")),
        Kind::Identity => None,
    };
    let is_of = |services: &[&str]| {
        let found = text.split_once(':').map_or("", |(found, _)| found);
        services.iter().any(|service| found.eq_ignore_ascii_case(service))
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '*' | '?');
    let is_action = match text.split_once(':') {
        Some((service, name)) => {
            let is_service = |c: char| is_name(c) || c == '-';
            ![service, name].contains(&"") && name.chars().all(is_name) && service.chars().all(is_service)
        }
        None => text == "*",
    };
    if !is_action || service.is_some_and(|(services, _)| !is_of(services) && text != "*") {
        let example = service.map_or("s3:GetObject", |(_, example)| example);
        return Err(format!("invalid action '{text}'; write * or an action such as {example}"));
    }
    Pattern::parse(text, false)
}

/// A structure as an object. On its own, `serde` also accepts a list of the fields.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        struct Read<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Read(PhantomData))
    }
}

/// A value, or a list of values.
struct Many<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Many<T>, D::Error> {
        struct Read<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
            type Value = Many<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value or a list of values")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Many<T>, A::Error> {
                let mut many = Vec::new();
                while let Some(item) = items.next_element()? {
                    many.push(item);
                }
                Ok(Many(many))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Many<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|one| Many(vec![one]))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Many<T>, E> {
                T::deserialize(text.into_deserializer()).map(|one| Many(vec![one]))
            }

            fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Many<T>, E> {
                T::deserialize(value.into_deserializer()).map(|one| Many(vec![one]))
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Many<T>, E> {
                T::deserialize(value.into_deserializer()).map(|one| Many(vec![one]))
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Many<T>, E> {
                T::deserialize(value.into_deserializer()).map(|one| Many(vec![one]))
            }

            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Many<T>, E> {
                T::deserialize(value.into_deserializer()).map(|one| Many(vec![one]))
            }
        }
        deserializer.deserialize_any(Read(PhantomData))
    }
}

/// A string, a number or a boolean, as text.
struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => Ok(Scalar(text)),
            value @ (serde_json::Value::Bool(_) | serde_json::Value::Number(_)) => {
                Ok(Scalar(value.to_string()))
            }
            _ => Err(D::Error::custom("a value must be a string, a number or a boolean")),
        }
    }
}

/// The entries of an object. A name that appears twice is an error, because other programs may see
/// another entry than this one.
struct Entries<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries<T>, D::Error> {
        struct Read<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries: Vec<(String, T)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, T>()? {
                    if entries.iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(&name)) {
                        return Err(A::Error::custom(format!("'{name}' appears twice")));
                    }
                    entries.push((name, value));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Read(PhantomData))
    }
}

/// `"*"`, or an object such as `{"AWS": […]}`.
struct RawPrincipals(Vec<Principal>);

impl<'de> Deserialize<'de> for RawPrincipals {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawPrincipals, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = RawPrincipals;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the principal \"*\" or an object such as {\"AWS\": \"arn:aws:iam::lab:root\"}")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RawPrincipals, E> {
                match text {
                    "*" => Ok(RawPrincipals(vec![Principal::Everybody])),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawPrincipals, A::Error> {
                let kinds: Entries<Many<String>> = Entries::deserialize(MapAccessDeserializer::new(map))?;
                let mut principals = Vec::new();
                for (kind, names) in kinds.0 {
                    for name in names.0 {
                        principals.push(match kind.as_str() {
                            "AWS" => Principal::parse(&name).map_err(A::Error::custom)?,
                            "CanonicalUser" => Principal::Account(name),
                            "Federated" => Principal::parse_federated(&name).map_err(A::Error::custom)?,
                            "Service" => Principal::Service(name),
                            _ => {
                                let message = format!("principals of the kind '{kind}' are not supported");
                                return Err(A::Error::custom(message));
                            }
                        });
                    }
                }
                Ok(RawPrincipals(principals))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
