//! `benthic mv`: moves objects to other names, pools or stores.

use super::cp::between::{self, To};
use super::cp::{Options, PlaceArgs, Tally, plan};
use crate::jobs;
use benthic_program::exit::{Failure, Outcome};
use benthic_program::session::Session;
use clap::Args;

#[derive(Args)]
#[command(
    after_help = "Names are those of `benthic cp`: an object goes to POOL/NAME, or to POOL/PREFIX/ under its own \
    last part. With -r, all objects below PREFIX/ go below the destination. A target that exists is replaced.\n\n\
    The command copies an object with its data, attributes and keys, and compares the digests. Only then does it \
    remove the source, and only if no other client has changed it. An interrupted move can leave both objects; \
    repeat the command to complete it.\n\n\
    Examples:\n  benthic mv photos/cat.jpg photos/cats/tom.jpg\n  benthic mv -r photos/2025 archive/2025\n  \
    benthic mv -r photos/2025 photos/2025 --to-store file:./archive"
)]
pub struct MvArgs {
    /// Move all objects below a prefix
    #[arg(short, long)]
    recursive: bool,
    /// Concurrent moves [default: two per core, 8 to 16]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Objects: POOL/OBJECT or POOL:NAMESPACE/OBJECT; with -r prefixes of objects
    #[arg(required = true, value_name = "SRC")]
    sources: Vec<String>,
    /// The destination
    #[arg(value_name = "DST")]
    destination: String,
}

pub async fn run(args: MvArgs, session: &Session) -> Outcome {
    let sources = args.sources.iter().map(|text| plan::address(text)).collect::<Outcome<_>>()?;
    let target = plan::address(&args.destination)?;
    let options = Options {
        jobs: args.jobs.unwrap_or_else(jobs::default_jobs),
        checksum: true,
        check: true,
        began_unix_ns: u64::MAX,
        dry_run: false,
        outage_wait: jobs::OUTAGE_WAIT,
    };
    if args.place.is_to_memory() {
        let message =
            "a store in memory ends with the command, so nothing can be moved there; use `benthic cp`";
        return Err(Failure::Usage(message.to_owned()));
    }
    let mut tally = Tally::new(session, "moved");
    let moved = args.place.in_store(session, async |there| {
        let to = To { there, target, create_pool: args.place.create_pool, moves: true };
        between::run(sources, to, args.recursive, options, &mut tally).await
    });
    let ended = moved.await;
    tally.finish(ended)
}
