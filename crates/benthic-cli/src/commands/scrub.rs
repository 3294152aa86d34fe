//! `benthic scrub`: verifies the data, attributes and keys of all objects, and lists damage.

use benthic_core::{Damage, Error, ObjectAddress, ObjectId, ScrubPage};
use benthic_program::exit::Outcome;
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::{interrupt, units};
use clap::Args;
use serde_json::{Value, json};

#[derive(Args)]
#[command(
    after_help = "The store reads and verifies data, attributes and keys beside the objects. The command lists \
    damage and then exits with status 12.\n\nExamples:\n  benthic scrub\n  benthic scrub photos"
)]
pub struct ScrubArgs {
    /// The pool [default: all pools]
    pool: Option<String>,
}

pub async fn run(args: ScrubArgs, session: &Session) -> Outcome {
    let pools = match args.pool {
        Some(pool) => vec![pool],
        None => session.store().await?.list_pools().await?,
    };
    let mut damages = 0;
    for pool in pools {
        damages += scrub(session, &pool).await?;
    }
    if damages == 0 {
        return Ok(());
    }
    Err(Error::corrupt("stored data are damaged; restore the objects above from a backup")
        .with("damages", damages)
        .into())
}

async fn scrub(session: &Session, name: &str) -> Outcome<usize> {
    let pool = session.pool(name).await?;
    let progress = Progress::objects(&format!("scrubbing {name}"));
    let mut total = ScrubPage::default();
    loop {
        interrupt::check()?;
        let page = pool.scrub(total.next.take()).await?;
        progress.advance(page.objects);
        total.objects += page.objects;
        total.bytes += page.bytes;
        for damage in &page.damage {
            progress.suspend(|| session.out.note(line(name, damage)))?;
        }
        total.damage.extend(page.damage);
        total.next = page.next;
        if total.next.is_none() {
            break;
        }
    }
    drop(progress);
    let text = format!(
        "{name}: {}, {} verified, {}",
        units::count(total.objects, "object"),
        units::size(total.bytes),
        units::count(total.damage.len() as u64, "finding")
    );
    session.out.result(text, || {
        json!({
            "pool": name,
            "objects": total.objects,
            "verified_bytes": total.bytes,
            "damage": total.damage.iter().map(value).collect::<Vec<_>>(),
        })
    })?;
    Ok(total.damage.len())
}

fn line(pool: &str, damage: &Damage) -> String {
    let place = match &damage.object {
        Some(object) => ObjectAddress { pool: pool.to_owned(), object: object.clone() }.to_string(),
        None => pool.to_owned(),
    };
    let offset = damage.offset_bytes.map_or(String::new(), |offset| format!(" offset_bytes={offset}"));
    units::no_control(&format!("{place}: {}{offset}", damage.message))
}

fn value(damage: &Damage) -> Value {
    json!({
        "namespace": damage.object.as_ref().map(ObjectId::namespace),
        "object": damage.object.as_ref().map(ObjectId::name),
        "offset_bytes": damage.offset_bytes,
        "message": damage.message,
    })
}
