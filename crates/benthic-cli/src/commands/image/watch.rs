//! `benthic image watch`: the programs that have an image open for writing.

use super::image_name;
use super::open::images;
use benthic_block::ImageAddress;
use benthic_program::exit::Outcome;
use benthic_program::interrupt;
use benthic_program::session::Session;
use clap::Args;
use serde_json::json;
use std::time::Duration;

/// How often `--follow` looks.
const POLL: Duration = Duration::from_secs(1);

#[derive(Args)]
#[command(
    after_help = "A program of this machine shows as HOST process PID, a client of a Ceph cluster by its number and address. \
    A program that was killed shows until its lease ends. Programs that only read an image are not known.\n\n\
    Examples:\n  benthic image watch vms/root\n  benthic image watch --follow vms/root"
)]
pub struct WatchArgs {
    /// POOL/IMAGE
    image: ImageAddress,
    /// Go on, and show who opens and closes the image, until Ctrl-C
    #[arg(long)]
    follow: bool,
}

pub async fn run(args: WatchArgs, session: &Session) -> Outcome {
    let name = image_name(&args.image)?;
    let images = images(session, &args.image.pool).await?;
    let mut before: Vec<String> = Vec::new();
    let mut is_first = true;
    loop {
        let now = images.writers(name).await?;
        if is_first && now.is_empty() && !session.out.is_json() {
            session
                .out
                .result(format_args!("no program has {} open for writing", args.image), || json!(null))?;
        }
        let print = |writer: &String, is_open: bool| {
            let verb = if is_open { "open for writing by" } else { "closed by" };
            session.out.result(
                format_args!("{verb} {writer}"),
                || json!({ "image": args.image.to_string(), "writer": writer, "is_open": is_open }),
            )
        };
        for writer in before.iter().filter(|writer| !now.contains(writer)) {
            print(writer, false)?;
        }
        for writer in now.iter().filter(|writer| !before.contains(writer)) {
            print(writer, true)?;
        }
        if !args.follow {
            return Ok(());
        }
        session.out.flush()?;
        (before, is_first) = (now, false);
        tokio::select! {
            () = interrupt::wait() => return Ok(()),
            () = tokio::time::sleep(POLL) => {}
        }
    }
}
