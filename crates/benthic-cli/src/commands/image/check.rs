//! `benthic image check`: finds damage of an image, and finds and removes the objects that
//! interrupted operations have left.

use super::image_name;
use super::open::images;
use benthic_block::{Check, ImageAddress, OpenMode};
use benthic_core::{Error, Finding};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::session::Session;
use benthic_program::units;
use clap::Args;
use serde_json::{Value, json};

#[derive(Args)]
#[command(
    after_help = "The image must not be open for writing, because writes change what is compared. The check compares the image's maps \
    with the stored objects. It reads no data; `benthic scrub` does.\n\n\
    Damage means that bytes are lost, and the command ends with status 12. What interrupted operations have left only takes space; \
    --repair removes it, unless the image is damaged. On a Ceph cluster, --repair rebuilds an object map that is not valid.\n\n\
    Examples:\n  benthic image check vms/root\n  benthic image check --repair vms/root"
)]
pub struct CheckArgs {
    /// POOL/IMAGE
    image: ImageAddress,
    /// Remove what interrupted operations have left
    #[arg(long)]
    repair: bool,
}

pub async fn run(args: CheckArgs, session: &Session) -> Outcome {
    let name = image_name(&args.image)?;
    let image = images(session, &args.image.pool).await?.open(name, None, OpenMode::Write).await?;
    let checked = image.check(args.repair).await;
    let closed = image.close().await;
    let check = checked?;
    closed?;
    let repaired = args.repair && check.damage_count == 0;
    print(&args.image, &check, repaired, session)?;
    if check.damage_count > 0 {
        let message = "the image is damaged; restore it from a backup";
        return Err(Error::corrupt(message).with("findings", check.damage_count).into());
    }
    if check.repairable_count > 0 && !repaired {
        let count = units::count(check.repairable_count, "finding");
        return Err(Failure::Found(format!(
            "{count}; `benthic image check --repair {}` repairs",
            args.image
        )));
    }
    Ok(())
}

fn print(address: &ImageAddress, check: &Check, repaired: bool, session: &Session) -> Outcome {
    if session.out.is_json() {
        return session.out.json_line(&json!({
            "image": address.to_string(),
            "objects": check.objects,
            "damage": check.damage.iter().map(describe).collect::<Vec<_>>(),
            "damage_count": check.damage_count,
            "repairable": check.repairable.iter().map(describe).collect::<Vec<_>>(),
            "repairable_count": check.repairable_count,
            "repaired": repaired,
        }));
    }
    for finding in check.damage.iter().chain(&check.repairable) {
        let text = match &finding.object {
            Some(object) => format!("{object}: {}", finding.message),
            None => finding.message.clone(),
        };
        session.out.note(units::no_control(&text))?;
    }
    let listed = (check.damage.len() + check.repairable.len()) as u64;
    let all = check.damage_count + check.repairable_count;
    if listed < all {
        session.out.note(format_args!("and {} more", units::count(all - listed, "finding")))?;
    }
    session.out.note(format_args!(
        "{}, {} of damage, {} {}",
        units::count(check.objects, "object"),
        units::count(check.damage_count, "finding"),
        units::count(check.repairable_count, "finding"),
        if repaired { "repaired" } else { "to repair" },
    ))
}

fn describe(finding: &Finding) -> Value {
    json!({ "object": finding.object, "message": finding.message })
}
