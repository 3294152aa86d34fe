//! `benthic image limit`: limits of the requests of an image.

use super::image_name;
use super::open::images;
use benthic_block::limits::{BURST_S_DEFAULT, BURST_S_MAX};
use benthic_block::{ImageAddress, Limits, OpenMode};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use clap::Args;
use serde_json::{Value, json};

#[derive(Args)]
#[command(
    after_help = "Without options, the command prints the limits. An option that is not given leaves its limit as it was; the \
    value `none` removes it. `benthic image serve` enforces the limits, for all clients of the image together. A running \
    server applies new limits within a few seconds.\n\n\
    Trims and zeros count as writes; they have no bytes, unless the zeros keep their space. Flushes are not limited. A \
    request above the limit waits. An image that was idle may catch up on as many seconds as --burst says.\n\n\
    Examples:\n  benthic image limit vms/root --iops 500 --bytes-per-s 100MiB --burst 10\n  \
    benthic image limit vms/root --write-iops none\n  benthic image limit vms/root --none"
)]
pub struct LimitArgs {
    /// POOL/IMAGE
    image: ImageAddress,
    /// Reads per second
    #[arg(long, value_name = "N", value_parser = parse_count)]
    read_iops: Option<Rate>,
    /// Writes per second
    #[arg(long, value_name = "N", value_parser = parse_count)]
    write_iops: Option<Rate>,
    /// Reads per second, and as many writes
    #[arg(long, value_name = "N", value_parser = parse_count, conflicts_with_all = ["read_iops", "write_iops"])]
    iops: Option<Rate>,
    /// Bytes per second that reads return, such as 100MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    read_bytes_per_s: Option<Rate>,
    /// Bytes per second that writes carry
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    write_bytes_per_s: Option<Rate>,
    /// Bytes per second of reads, and as many of writes
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = parse_bytes,
        conflicts_with_all = ["read_bytes_per_s", "write_bytes_per_s"]
    )]
    bytes_per_s: Option<Rate>,
    /// Seconds of unused limit that an idle image may use at once [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=BURST_S_MAX))]
    burst: Option<u64>,
    /// Remove all limits
    #[arg(
        long,
        conflicts_with_all = [
            "read_iops", "write_iops", "iops", "read_bytes_per_s", "write_bytes_per_s", "bytes_per_s", "burst",
        ]
    )]
    none: bool,
}

/// A new limit; `None` removes the old one.
#[derive(Clone, Copy)]
pub struct Rate(Option<u64>);

fn parse_count(text: &str) -> Result<Rate, String> {
    parse(text, |text| text.parse().map_err(|_| "a limit is a number, or `none`".to_owned()))
}

fn parse_bytes(text: &str) -> Result<Rate, String> {
    parse(text, units::parse_size)
}

fn parse(text: &str, number: impl Fn(&str) -> Result<u64, String>) -> Result<Rate, String> {
    if text == "none" {
        return Ok(Rate(None));
    }
    match number(text)? {
        0 => Err("a limit of 0 would stop the image; `none` removes the limit".to_owned()),
        number => Ok(Rate(Some(number))),
    }
}

impl LimitArgs {
    fn apply(&self, old: Limits) -> Limits {
        let new =
            |rate: Option<Rate>, of_both: Option<Rate>, old| rate.or(of_both).map_or(old, |rate| rate.0);
        Limits {
            read_ops_per_s: new(self.read_iops, self.iops, old.read_ops_per_s),
            write_ops_per_s: new(self.write_iops, self.iops, old.write_ops_per_s),
            read_bytes_per_s: new(self.read_bytes_per_s, self.bytes_per_s, old.read_bytes_per_s),
            write_bytes_per_s: new(self.write_bytes_per_s, self.bytes_per_s, old.write_bytes_per_s),
            burst_s: self.burst.or(old.burst_s),
        }
    }
}

pub async fn run(args: LimitArgs, session: &Session) -> Outcome {
    let name = image_name(&args.image)?;
    let images = images(session, &args.image.pool).await?;
    let limits = if args.none {
        // Also if the old ones are damaged.
        images.set_limits(name, Limits::default()).await?;
        Limits::default()
    } else {
        let image = images.open(name, None, OpenMode::ReadOnly).await?;
        let old = image.limits().await?;
        image.close().await?;
        let limits = args.apply(old);
        if limits != old {
            images.set_limits(name, limits).await?;
        }
        limits
    };
    session.out.result(
        format_args!("image {}\n{}", args.image, text(&limits).unwrap_or_else(|| "no limits".to_owned())),
        || {
            let mut value = describe(&limits);
            value["image"] = json!(args.image.to_string());
            value
        },
    )
}

/// A line for each direction, or `None` without limits.
pub fn text(limits: &Limits) -> Option<String> {
    let direction = |verb: &str, ops: Option<u64>, bytes: Option<u64>| {
        let ops = ops.map(|ops| format!("{ops} operations/s"));
        let bytes = bytes.map(|bytes| format!("{}/s", units::size(bytes)));
        let rates: Vec<String> = ops.into_iter().chain(bytes).collect();
        (!rates.is_empty()).then(|| format!("limit of {verb} {}", rates.join(", ")))
    };
    let burst = limits.burst_s.unwrap_or(BURST_S_DEFAULT);
    let mut lines: Vec<String> = [
        direction("reads", limits.read_ops_per_s, limits.read_bytes_per_s),
        direction("writes", limits.write_ops_per_s, limits.write_bytes_per_s),
    ]
    .into_iter()
    .flatten()
    .collect();
    if lines.is_empty() {
        return None;
    }
    lines.push(format!("burst of {burst} s"));
    Some(lines.join("\n"))
}

pub fn describe(limits: &Limits) -> Value {
    limits.fields().map(|(name, value)| (name.to_owned(), json!(value))).into_iter().collect()
}

#[derive(Args)]
pub struct ClientLimitArgs {
    /// Limit each client connection to so many reads per second, and as many writes
    #[arg(long, value_name = "N", value_parser = parse_count)]
    client_iops: Option<Rate>,
    /// Limit each client connection to so many bytes per second of reads, and as many of writes
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    client_bytes_per_s: Option<Rate>,
}

impl ClientLimitArgs {
    pub fn limits(&self) -> benthic_core::Result<Limits> {
        let ops_per_s = self.client_iops.and_then(|rate| rate.0);
        let bytes_per_s = self.client_bytes_per_s.and_then(|rate| rate.0);
        let limits = Limits {
            read_ops_per_s: ops_per_s,
            write_ops_per_s: ops_per_s,
            read_bytes_per_s: bytes_per_s,
            write_bytes_per_s: bytes_per_s,
            burst_s: None,
        };
        limits.check()?;
        Ok(limits)
    }
}
