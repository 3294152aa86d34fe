//! `benthic placement plan`: plans a move of a pool's primaries to a site or a new number of
//! replicas, and writes the plan to a file. It changes nothing in the cluster.

use super::{cluster, show};
use benthic_ceph::placement::latency::Latency;
use benthic_ceph::placement::plan::{Plan, Request};
use benthic_ceph::placement::resize::Resize;
use benthic_core::{Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::{local, units};
use clap::Args;
use serde_json::json;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(
    after_help = "The command shows the plan and writes it to a file; it does not change the cluster. Keep the file after \
    apply, because undo needs it.\n\nExamples:\n  benthic placement plan --pool photos --primary-site um --store ceph:\n  \
    benthic placement plan --pool photos --primary-site um --replicas 4 --store ceph:\n  \
    benthic placement plan --pool photos --primary-site rack7 --domain rack --out plan.json --store ceph:"
)]
pub struct PlanArgs {
    /// The pool
    #[arg(long)]
    pool: String,
    /// The site for the primaries: a bucket of the CRUSH tree
    #[arg(long, value_name = "SITE")]
    primary_site: String,
    /// The bucket type of sites, such as datacenter, rack or host
    #[arg(long, value_name = "TYPE")]
    domain: Option<String>,
    /// The new number of replicas, primary included [default: unchanged]
    #[arg(long, value_name = "N")]
    replicas: Option<usize>,
    /// The plan's file, which must not exist [default: POOL-at-SITE.plan.json]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub async fn run(args: PlanArgs, session: &Session) -> Outcome {
    let store = cluster(session).await?;
    let file = args.out.unwrap_or_else(|| format!("{}-at-{}.plan.json", args.pool, args.primary_site).into());
    let request = Request {
        pool: args.pool,
        primary_site: args.primary_site,
        domain: args.domain,
        replicas: args.replicas,
    };
    let plan = Plan::make(&*store, &request).await?;
    let kept = file.clone();
    let content = format!("{:#}\n", json!(plan));
    blocking(move || write_new(&kept, &content)).await?;
    let shown = units::one_line_path(&file);
    let next = format!("nothing was changed; `benthic placement apply {shown}` applies the plan");
    session
        .out
        .result(format_args!("{}\n\n{next}", describe(&plan)), || json!({ "file": file, "plan": plan }))
}

/// Writes a new file. It never replaces an existing plan, because undoing that plan needs its file.
fn write_new(file: &Path, content: &str) -> Result<()> {
    let written = File::create_new(file).and_then(|mut file| {
        file.write_all(content.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::already_exists(
            "the file exists, and undo may need the plan in it; name another file with --out",
        )
        .with("file", file.display()),
        _ => local::failed("cannot write the plan", file)(error),
    })
}

pub fn describe(plan: &Plan) -> String {
    let effect = &plan.effect;
    let replicas = plan.pgs as usize * plan.new_replicas();
    let rule = if plan.new_rule == plan.old_rule {
        "as before".to_owned()
    } else {
        format!("{}in place of {}", if plan.adds_rule { "new, " } else { "already present, " }, plan.old_rule)
    };
    let mut text = format!(
        "primaries of {} go to {}, the other replicas to the other sites{}\n\nrule {}, {rule}:",
        units::one_line(&plan.pool),
        plan.primary_site,
        plan.resize.as_ref().map(|resize| resize_line(plan, resize)).unwrap_or_default(),
        plan.new_rule
    );
    for step in &plan.steps {
        let _ = write!(text, "\n  step {step}");
    }
    if let Some(below) = &plan.adds_root_of {
        let _ = write!(text, "\nnew root {}: {}", plan.other_root, below.join(", "));
    }
    let _ = write!(text, "\n\nbefore\n{}", show::table(&plan.domain, &effect.before));
    let _ = write!(text, "\nafter\n{}", show::table(&plan.domain, &effect.after));
    let _ = write!(
        text,
        "\n\nmoves {} of {replicas} replicas ({}%), {} of {}, in {} of {} placement groups; {} get another primary",
        effect.replicas_moving,
        percent(effect.replicas_moving as u64, replicas as u64),
        units::size(effect.bytes_moving),
        units::size(effect.bytes),
        effect.pgs_moving,
        plan.pgs,
        effect.primaries_moving
    );
    text.push_str(&latencies(&effect.latency_before, &effect.latency_after));
    for warning in &effect.warnings {
        let _ = write!(text, "\nnote: {warning}");
    }
    text
}

fn resize_line(plan: &Plan, resize: &Resize) -> String {
    let (old, new) = (plan.replicas as u64, resize.replicas as u64);
    let min_size = if resize.min_size == resize.old_min_size {
        format!("min_size stays {}", resize.min_size)
    } else {
        format!("min_size {} -> {}", resize.old_min_size, resize.min_size)
    };
    let mut text = format!(
        "\n\nreplicas {old} -> {new}; {min_size}: with fewer copies there are no reads and writes\n{} take {}% {} space: {} -> {} \
         on disks",
        units::count(new, "replica"),
        percent(new.abs_diff(old), old),
        if new > old { "more" } else { "less" },
        units::size(resize.disk_bytes),
        units::size(resize.new_disk_bytes),
    );
    if resize.fullest_osd >= 0 {
        let _ = write!(
            text,
            "; the fullest OSD of the pool is then osd.{}, {:.0}% full",
            resize.fullest_osd,
            100.0 * resize.fullest_share
        );
    }
    text
}

fn percent(part: u64, of: u64) -> u64 {
    (100 * part + of / 2) / of.max(1)
}

fn latencies(before: &[Latency], after: &[Latency]) -> String {
    if before.is_empty() || after.is_empty() {
        return "\n\nlatency: unknown, because the OSDs have not measured all round trips yet; this takes a minute after their start"
            .to_owned();
    }
    let mut text =
        format!("\n\nlatency of the network, in ms\n  {:<18} {:>19} {:>19}", "client at", "reads", "writes");
    for (before, after) in before.iter().zip(after) {
        let change = |before: f64, after: f64| format!("{before:.1} -> {after:.1}");
        let _ = write!(
            text,
            "\n  {:<18} {:>19} {:>19}",
            before.site,
            change(before.read_ms, after.read_ms),
            change(before.write_ms, after.write_ms)
        );
    }
    text
}
