//! `benthic s3 events target`: the web servers and message brokers that get events.

use super::{GatewayPools, account_and_name};
use benthic_core::{Action, Environment, Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_s3::PoolSal;
use benthic_s3::events::{TOPIC, broker, target_arn, webhook};
use benthic_s3::identity::{Broker, EventTarget, NewEventTarget, Sasl};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub const EXAMPLES: &str = "Examples:
  benthic s3 events target create lab/indexer --webhook https://indexer.example/s3
  benthic s3 events target create lab/audit --kafka kafka1.example:9092 --topic s3-events
  benthic s3 events target ls";
const CREATE_HELP: &str = "\
Each message is one event, as a JSON document in the format of AWS. The gateway may send an event twice. To change a target, \
remove it and create it again with the same name.

Webhook: a POST. An answer 2xx means that the event is delivered. With 4xx except 408, 425 and 429, the target refuses the event. \
Otherwise the gateway tries again.

AMQP 0-9-1, for example RabbitMQ: a persistent message. An event is delivered when the broker confirms it. The exchange and a \
queue that is bound to it with the routing key must exist. Without --exchange, the routing key is the name of a queue.

Kafka: a record with the key BUCKET/KEY. An event is delivered when all replicas in sync have it. The topic must exist.

Examples:
  benthic s3 events target create lab/indexer --webhook https://10.0.0.7:8443/s3 --ca ca.pem --token-file token
  benthic s3 events target create lab/thumbs --amqp amqps://rabbit.example/lab --exchange s3 --routing-key photos \\
    --user gateway --password-file password
  benthic s3 events target create lab/audit --kafka kafka1.example:9093,kafka2.example:9093 --topic s3-events --tls \\
    --user gateway --password-file password";
const FORM: &str = "a target must have the form ACCOUNT/NAME";

/// The verbs of `benthic s3 events target`.
#[derive(Subcommand)]
pub enum TargetCommand {
    /// Create a target of an account, and show its ARN
    #[command(after_help = CREATE_HELP)]
    Create(Box<CreateArgs>),
    /// List targets
    #[command(after_help = "Examples:\n  benthic s3 events target ls\n  benthic s3 events target ls --json")]
    Ls {
        /// Region of the gateway, for the ARNs
        #[arg(long, default_value = "us-east-1")]
        region: String,
    },
    /// Remove a target; its events wait for a new target with this name, at most for `serve
    /// --events-keep`
    #[command(after_help = "Example:\n  benthic s3 events target rm lab/indexer")]
    Rm {
        /// ACCOUNT/NAME
        target: String,
    },
}

/// A new target.
#[derive(Args)]
pub struct CreateArgs {
    /// ACCOUNT/NAME
    target: String,
    #[command(flatten)]
    address: Address,
    /// Exchange to publish to; the default exchange without it
    #[arg(long, value_name = "NAME", requires = "amqp", conflicts_with_all = ["webhook", "kafka"])]
    #[arg(default_value = "", hide_default_value = true)]
    exchange: String,
    /// Routing key of the messages
    #[arg(long, value_name = "KEY", requires = "amqp", conflicts_with_all = ["webhook", "kafka"])]
    routing_key: Option<String>,
    /// Topic to produce to
    #[arg(long, value_name = "NAME", requires = "kafka", conflicts_with_all = ["webhook", "amqp"])]
    topic: Option<String>,
    /// Use TLS for Kafka; --ca implies it
    #[arg(long, requires = "kafka", conflicts_with_all = ["webhook", "amqp"])]
    tls: bool,
    /// User at the AMQP broker (default: guest) or the Kafka cluster (default: no login)
    #[arg(long, value_name = "NAME", requires = "password_file", conflicts_with = "webhook")]
    user: Option<String>,
    /// File with the password of the user
    #[arg(long, value_name = "FILE", requires = "user", conflicts_with = "webhook")]
    password_file: Option<PathBuf>,
    /// How the user logs in to Kafka; `plain` sends the password, so it needs TLS in networks that
    /// you do not trust
    #[arg(
        long,
        value_name = "MECHANISM",
        requires = "user",
        requires = "kafka",
        conflicts_with_all = ["webhook", "amqp"],
        default_value = "scram-sha-512"
    )]
    sasl: Mechanism,
    /// File with a secret that the gateway sends to a webhook as `Authorization: Bearer SECRET`
    #[arg(long, value_name = "FILE", requires = "webhook", conflicts_with_all = ["amqp", "kafka"])]
    token_file: Option<PathBuf>,
    /// PEM file of CA certificates to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Region of the gateway, for the ARN
    #[arg(long, default_value = "us-east-1")]
    region: String,
}

/// Where a target is.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Address {
    /// URL to which the gateway POSTs events
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// AMQP broker: amqp://HOST[:PORT][/VHOST], or amqps:// for TLS
    #[arg(long, value_name = "URL", requires = "routing_key")]
    amqp: Option<String>,
    /// Some brokers of a Kafka cluster: HOST:PORT[,HOST:PORT...]
    #[arg(long, value_name = "BROKERS", requires = "topic")]
    kafka: Option<String>,
}

/// How a user logs in to Kafka.
#[derive(Clone, Copy, ValueEnum)]
enum Mechanism {
    Plain,
    #[value(name = "scram-sha-256")]
    ScramSha256,
    #[value(name = "scram-sha-512")]
    ScramSha512,
}

pub async fn run(command: TargetCommand, pools: &GatewayPools, sal: &PoolSal, session: &Session) -> Outcome {
    let out = &session.out;
    match command {
        TargetCommand::Create(args) => {
            let (account, name) = account_and_name(&args.target, FORM)?;
            let invalid = |message| Error::invalid_argument(message);
            let token = args.token_file.as_deref().map(|file| read_secret(file, "the token")).transpose()?;
            let password =
                args.password_file.as_deref().map(|file| read_secret(file, "the password")).transpose()?;
            let ca = args.ca.as_deref().map(read).transpose()?;
            let (url, broker) = args.address_and_broker();
            match &broker {
                None => drop(webhook::Webhook::new(url, token.as_deref(), ca.as_deref()).map_err(invalid)?),
                Some(broker) => {
                    let (password, random) = (password.as_deref(), Environment::default().random);
                    let broker = broker::Broker::new(url, broker, password, ca.as_deref(), random);
                    drop(broker.map_err(invalid)?);
                }
            }
            let secret = token.or(password);
            let identities = match secret {
                Some(_) => pools.identities_with_secrets(sal, false)?,
                None => pools.identities(sal),
            };
            let new = NewEventTarget {
                url,
                secret: secret.as_deref(),
                ca: ca.as_deref(),
                broker: broker.as_ref(),
                topic: None,
            };
            let created = identities.create_event_target(account, name, new).await?;
            out.result(line(&args.target, &created, &args.region), || {
                fields(&args.target, &created, &args.region)
            })
        }
        TargetCommand::Ls { region } => {
            for (name, target) in pools.identities(sal).event_targets().await? {
                out.result(line(&name, &target, &region), || fields(&name, &target, &region))?;
            }
            Ok(())
        }
        TargetCommand::Rm { target } => {
            let (account, name) = account_and_name(&target, FORM)?;
            pools.identities(sal).remove_event_target(account, name).await?;
            out.result(format_args!("removed target {target}"), || json!({ "target": target }))
        }
    }
}

impl CreateArgs {
    /// The address of the target, and the broker; `None` for a web server.
    fn address_and_broker(&self) -> (&str, Option<Broker>) {
        let Address { webhook, amqp, kafka } = &self.address;
        // clap has checked that there is one address, and a routing key or a topic for it.
        if let Some(url) = amqp {
            let routing_key = self.routing_key.clone().unwrap_or_default();
            let broker =
                Broker::Amqp { exchange: self.exchange.clone(), routing_key, user: self.user.clone() };
            return (url, Some(broker));
        }
        if let Some(brokers) = kafka {
            let broker = Broker::Kafka {
                topic: self.topic.clone().unwrap_or_default(),
                tls: self.tls || self.ca.is_some(),
                user: self.user.clone(),
                sasl: match self.sasl {
                    Mechanism::Plain => Sasl::Plain,
                    Mechanism::ScramSha256 => Sasl::ScramSha256,
                    Mechanism::ScramSha512 => Sasl::ScramSha512,
                },
            };
            return (brokers, Some(broker));
        }
        (webhook.as_deref().unwrap_or_default(), None)
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path)
        .map_err(|error| Error::io(Action::Admin, "cannot read a file", error).with("path", path.display()))
}

fn read_secret(path: &Path, what: &str) -> Result<String> {
    let text = read(path)?;
    // An editor ends a line. Other spaces can belong to a password.
    let secret =
        text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    if secret.is_empty() {
        let message = format!("the file of {what} is empty");
        return Err(Error::invalid_argument(message).with("path", path.display()));
    }
    Ok(secret.to_owned())
}

fn arn(name: &str, region: &str) -> String {
    let (account, name) = name.split_once('/').unwrap_or((name, ""));
    target_arn(TOPIC, region, account, name)
}

fn line(name: &str, target: &EventTarget, region: &str) -> String {
    let arn = arn(name, region);
    let url = &target.url;
    match &target.broker {
        None if url.is_empty() => format!("{arn}  without an endpoint"),
        None if target.has_secret() => format!("{arn}  {url}  with a token"),
        None => format!("{arn}  {url}"),
        Some(Broker::Amqp { exchange, routing_key, .. }) => {
            format!("{arn}  {url}  exchange '{exchange}', routing key '{routing_key}'")
        }
        Some(Broker::Kafka { topic, .. }) => format!("{arn}  kafka {url}  topic '{topic}'"),
    }
}

fn fields(name: &str, target: &EventTarget, region: &str) -> Value {
    let mut fields = json!({
        "target": name,
        "arn": arn(name, region),
        "has_ca": target.ca.is_some(),
        "created_ms": target.created_ms,
    });
    if target.topic.is_some() {
        fields["created_with"] = json!("sns");
    }
    match &target.broker {
        None => {
            fields["webhook"] = json!(target.url);
            fields["has_token"] = json!(target.has_secret());
        }
        Some(Broker::Amqp { exchange, routing_key, user }) => {
            fields["amqp"] = json!(target.url);
            fields["exchange"] = json!(exchange);
            fields["routing_key"] = json!(routing_key);
            fields["user"] = json!(user);
        }
        Some(Broker::Kafka { topic, tls, user, sasl }) => {
            fields["kafka"] = json!(target.url);
            fields["topic"] = json!(topic);
            fields["tls"] = json!(tls);
            fields["user"] = json!(user);
            // As for `--sasl`.
            fields["sasl"] = json!(user.as_ref().map(|_| sasl.name().to_ascii_lowercase()));
        }
    }
    fields
}
