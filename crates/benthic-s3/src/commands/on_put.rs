//! `benthic s3 on-put`: sets and removes rules that run a class method on each new object of a
//! bucket.

use super::GatewayPools;
use super::code::StoreCode;
use benthic_core::{Error, ErrorKind, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_s3::PoolSal;
use benthic_s3::events::KeyFilter;
use benthic_s3::events::on_put::{OnPutRule, OnPutRules, Then};
use benthic_s3::gateway::{class_and_method, has_default_encryption};
use benthic_s3::sal::{Bucket, Buckets};
use clap::Args;
use serde_json::{Value, json};

/// Attempts of a change that others interrupt.
const ATTEMPTS_MAX: usize = 100;

/// Arguments of `benthic s3 on-put`.
#[derive(Args)]
#[command(
    after_help = "Without METHOD, the command lists the rules of the bucket. METHOD only reads; it is one of `digest`, of `picture`, or of a \
WebAssembly class that is deployed to the gateway's pool.

Before an object is visible, the method reads it. If the method fails, the request of the client fails, and there is no object. With \
--metadata, the result becomes metadata of the object. With --result, the method runs later, and its result becomes another object; \
{key} in its name is the key of the new object. An empty result becomes no object.

Examples:
  benthic s3 on-put photos picture.scale                                  refuse what is not a picture
  benthic s3 on-put photos digest.compute --input sha256 --metadata sha256
  benthic s3 on-put photos picture.scale --name small --input 256 --result 'small/{key}' --content-type image/jpeg
  benthic s3 on-put photos
  benthic s3 on-put photos --remove small"
)]
pub struct OnPutArgs {
    /// The bucket
    bucket: String,
    /// CLASS.METHOD to run
    method: Option<String>,
    /// Only for keys that begin with this text
    #[arg(long, value_name = "TEXT", requires = "method")]
    prefix: Option<String>,
    /// Only for keys that end with this text
    #[arg(long, value_name = "TEXT", requires = "method")]
    suffix: Option<String>,
    /// Input of the method
    #[arg(long, value_name = "TEXT", requires = "method")]
    input: Option<String>,
    /// Name of the rule; a rule with the same name is replaced [default: CLASS.METHOD]
    #[arg(long, value_name = "NAME", requires = "method")]
    name: Option<String>,
    /// Store the result as metadata of the object, under this name
    #[arg(long, value_name = "NAME", requires = "method", conflicts_with = "result")]
    metadata: Option<String>,
    /// Run the method later, and write the result to this key
    #[arg(long, value_name = "KEY", requires = "method")]
    result: Option<String>,
    /// Content type of the result
    #[arg(long, value_name = "TYPE", requires = "result")]
    content_type: Option<String>,
    /// Remove the rule with this name
    #[arg(long, value_name = "NAME", conflicts_with = "method")]
    remove: Option<String>,
}

pub async fn run(args: OnPutArgs, pools: &GatewayPools, session: &Session) -> Outcome {
    let sal = pools.open(session, false).await?;
    let name = args.bucket.clone();
    if let Some(rule) = &args.remove {
        change(&sal, &name, |_, rules| {
            let before = rules.rules.len();
            rules.rules.retain(|other| other.id != *rule);
            if rules.rules.len() < before {
                return Ok(());
            }
            let message = "the bucket has no such rule; `benthic s3 on-put BUCKET` lists its rules";
            Err(Error::not_found(message).with("rule", rule))
        })
        .await?;
        let text = format!("removed rule {rule} of {name}");
        return session.out.result(text, || json!({ "bucket": name, "rule": rule }));
    }
    let Some(method) = &args.method else {
        let bucket = sal.bucket(&name).await?;
        for rule in OnPutRules::of_bucket(&bucket.attributes)?.rules {
            session.out.result(line(&name, &rule), || fields(&name, &rule))?;
        }
        return Ok(());
    };
    let rule = rule(&args, method)?;
    let is_cluster = session.rados().await?.is_some();
    StoreCode::new(session.pool(&pools.pool).await?, is_cluster).await?.check(rule.call()).await?;
    change(&sal, &name, |bucket, rules| {
        if rule.is_asynchronous() && has_default_encryption(&bucket.attributes) {
            let message = "the bucket encrypts its objects, so rules with --result do not run";
            return Err(Error::invalid_argument(message).with("bucket", &name));
        }
        rules.add(rule.clone())
    })
    .await?;
    session.out.result(line(&name, &rule), || fields(&name, &rule))
}

fn rule(args: &OnPutArgs, method: &str) -> Result<OnPutRule> {
    let Some((class, method_name)) = class_and_method(method) else {
        return Err(Error::invalid_argument("the method must have the form CLASS.METHOD").with("got", method));
    };
    let then = match (&args.metadata, &args.result) {
        (Some(name), _) => Then::Metadata(name.clone()),
        (None, Some(key)) => Then::Object { key: key.clone(), content_type: args.content_type.clone() },
        (None, None) => Then::Check,
    };
    Ok(OnPutRule {
        id: args.name.clone().unwrap_or_else(|| method.to_owned()),
        filter: KeyFilter {
            prefix: args.prefix.clone().unwrap_or_default(),
            suffix: args.suffix.clone().unwrap_or_default(),
        },
        class: class.to_owned(),
        method: method_name.to_owned(),
        input: args.input.clone().unwrap_or_default(),
        then,
    })
}

/// Changes the rules of a bucket.
async fn change(
    sal: &PoolSal,
    name: &str,
    edit: impl Fn(&Bucket, &mut OnPutRules) -> Result<()>,
) -> Result<()> {
    let mut attempts = 0..ATTEMPTS_MAX;
    let id = sal.bucket(name).await?.id;
    loop {
        let bucket = sal.bucket(name).await?;
        if bucket.id != id {
            let message = "the bucket was removed and created again at the same time";
            return Err(Error::conflict(message).with("bucket", name));
        }
        let mut rules = OnPutRules::of_bucket(&bucket.attributes)?;
        edit(&bucket, &mut rules)?;
        let mut new: Bucket = bucket.clone();
        rules.store(&mut new.attributes)?;
        match sal.update_bucket(&bucket, &new).await {
            Err(error) if error.kind() == ErrorKind::Conflict && attempts.next().is_some() => {}
            result => return result.map(drop),
        }
    }
}

fn line(bucket: &str, rule: &OnPutRule) -> String {
    let KeyFilter { prefix, suffix } = &rule.filter;
    let then = match &rule.then {
        Then::Check => "must succeed".to_owned(),
        Then::Metadata(name) => format!("metadata {name}"),
        Then::Object { key, .. } => format!("writes {key} later"),
    };
    format!(
        "{bucket}/{prefix}*{suffix}  {}  {}.{} '{}'  {then}",
        rule.id, rule.class, rule.method, rule.input
    )
}

fn fields(bucket: &str, rule: &OnPutRule) -> Value {
    let (metadata, result, content_type) = match &rule.then {
        Then::Check => (None, None, None),
        Then::Metadata(name) => (Some(name), None, None),
        Then::Object { key, content_type } => (None, Some(key), content_type.as_ref()),
    };
    json!({
        "bucket": bucket,
        "rule": rule.id,
        "prefix": rule.filter.prefix,
        "suffix": rule.filter.suffix,
        "method": format!("{}.{}", rule.class, rule.method),
        "input": rule.input,
        "metadata": metadata,
        "result": result,
        "content_type": content_type,
    })
}
