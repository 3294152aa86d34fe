//! `benthic image bench`: throughput and latency of reads and writes of an image.

use super::open::images;
use super::{image_name, used_bytes};
use crate::commands::bench::measure::{Amount, Measurement, measure, print_result};
use benthic_block::{Image, ImageAddress, OpenMode};
use benthic_core::{Durability, Error};
use benthic_program::confirm::Deletion;
use benthic_program::exit::Outcome;
use benthic_program::noise::Noise;
use benthic_program::session::Session;
use benthic_program::units;
use bytes::Bytes;
use clap::{Args, ValueEnum};

#[derive(Args)]
#[command(
    after_help = "The load runs in this process, without NBD. Writing overwrites the image: unless it is empty, the command \
    asks for its name; --yes NAME answers without a terminal. Time for the last flush counts.\n\n\
    Examples:\n  benthic image bench vms/test --rw randwrite --bs 4KiB --depth 16\n  \
    benthic image bench vms/root@monday --rw read --bs 1MiB --seconds 5"
)]
pub struct BenchArgs {
    /// POOL/IMAGE, or POOL/IMAGE@SNAPSHOT to read
    image: ImageAddress,
    /// What to measure, by fio's names
    #[arg(long, value_enum)]
    rw: Load,
    /// Size of a request
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, default_value = "4KiB")]
    bs: u64,
    /// Flush after this number of writes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    fsync: Option<u64>,
    #[command(flatten)]
    amount: Amount,
    /// Confirm that the image is overwritten: its name again, without the pool
    #[arg(long, value_name = "NAME")]
    yes: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Load {
    Read,
    Write,
    Randread,
    Randwrite,
}

impl Load {
    fn writes(self) -> bool {
        matches!(self, Load::Write | Load::Randwrite)
    }
}

/// Limit on the size of a request.
const REQUEST_BYTES_MAX: u64 = 32 << 20;

pub async fn run(args: BenchArgs, session: &Session) -> Outcome {
    let BenchArgs { image: address, rw, bs, fsync, amount, yes } = args;
    let writes = rw.writes();
    let images = images(session, &address.pool).await?;
    let mode = if writes { OpenMode::Write } else { OpenMode::ReadOnly };
    if writes {
        let name = image_name(&address)?;
        let deletion = Deletion { noun: "what is in image", name, yes: yes.as_deref(), missing: None };
        let contents = async || {
            let image = images.open(name, None, OpenMode::ReadOnly).await?;
            let used = used_bytes(&*image).await?;
            Ok(if used == 0 { Vec::new() } else { vec![format!("{} in use", units::size(used))] })
        };
        deletion.confirm(&session.out, contents).await?;
    }
    let image = images.open(&address.image, address.snapshot.as_deref(), mode).await?;
    let measured = load(&*image, rw, bs, fsync, &amount).await;
    let closed = image.close().await;
    let name = rw.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
    let measured = measured?;
    closed?;
    print_result(&name, ("image", &address.to_string()), &amount, &measured, session, bs, writes)
}

/// Runs the load on an open image.
async fn load(
    image: &dyn Image,
    rw: Load,
    bs: u64,
    fsync: Option<u64>,
    amount: &Amount,
) -> Outcome<Measurement> {
    let writes = rw.writes();
    let requests = image.info().size_bytes.checked_div(bs).unwrap_or(0);
    if requests == 0 || bs > REQUEST_BYTES_MAX {
        let message = "a request must have 1 byte to 32 MiB and fit into the image";
        return Err(Error::invalid_argument(message).with("bs_bytes", bs).into());
    }
    let payload = Bytes::from(Noise::new(1).bytes(bs as usize));
    let op = async |number: u64| {
        let is_random = matches!(rw, Load::Randread | Load::Randwrite);
        let at = if is_random { Noise::new(number).below(requests) } else { number % requests } * bs;
        if writes {
            image.write(at, payload.clone(), Durability::Buffered).await?;
            if fsync.is_some_and(|every| (number + 1).is_multiple_of(every)) {
                image.flush().await?;
            }
        } else {
            image.read(at, bs).await?;
        }
        Ok(Some(bs))
    };
    measure("image bench", amount, op, async || image.flush().await).await
}
