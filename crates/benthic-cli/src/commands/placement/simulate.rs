//! `benthic placement simulate`: predicts how a hypothetical cluster spreads its data, how much
//! data a change moves, and how much data failing disks lose. Ceph's crushtool computes the
//! placement from a generated CRUSH map.

use benthic_ceph::placement::simulate::{
    Change, Distribution, FULL_RATIO, Level, Load, Loss, Movement, Shape, Simulation,
};
use benthic_core::Result;
use benthic_program::exit::Outcome;
use benthic_program::html::{self, Bar};
use benthic_program::local::NewFile;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::units;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

#[derive(Args)]
#[command(
    after_help = "The command needs no cluster. It generates a CRUSH map of this shape, and Ceph's crushtool computes the placement \
    of a single pool that fills the cluster. All OSDs are alike, and no balancer runs. A disk recovers at --rate, reads and \
    writes together; recovery ends when the busiest disk is done.\n\nExamples:\n  \
    benthic placement simulate --hosts 48 --osds-per-host 24 --racks 12 --rooms 2 --pg-num 38400\n  \
    benthic placement simulate --hosts 10 --osds-per-host 12 --add-host --lose host --report growth.html"
)]
pub struct SimulateArgs {
    /// Number of hosts
    #[arg(long, value_name = "N")]
    hosts: u32,
    /// Number of OSDs per host
    #[arg(long, value_name = "N")]
    osds_per_host: u32,
    /// Number of racks, over which the hosts are spread [default: 1]
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    racks: u32,
    /// Number of rooms, over which the racks are spread [default: 1]
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    rooms: u32,
    /// Number of placement groups [default: a power of two with about 100 replicas per OSD]
    #[arg(long, value_name = "N")]
    pg_num: Option<u32>,
    /// Number of replicas of each placement group
    #[arg(long, value_name = "N", default_value_t = 3)]
    replicas: u8,
    /// The failure domain: no two replicas share one [default: rack if there are enough, otherwise
    /// host]
    #[arg(long, value_name = "TYPE")]
    domain: Option<Domain>,
    /// Size of an OSD
    #[arg(long, value_name = "SIZE", default_value = "10TiB", value_parser = units::parse_size)]
    osd_size: u64,
    /// Used share of all OSDs together, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 60, value_parser = clap::value_parser!(u8).range(0..=100))]
    fill: u8,
    /// Bytes that a disk reads and writes for recovery per second
    #[arg(long, value_name = "SIZE", default_value = "50MiB", value_parser = units::parse_size)]
    rate: u64,
    /// Simulate the addition of N hosts
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1")]
    add_host: Option<u32>,
    /// Simulate the permanent loss of one of these; repeat the option for separate simulations
    #[arg(long, value_name = "TYPE")]
    lose: Vec<LostPart>,
    /// Compute the losses if up to N disks fail at once
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    failures: u32,
    /// Also write an HTML page with charts
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Domain {
    Host,
    Rack,
    Room,
}

#[derive(Clone, Copy, ValueEnum)]
enum LostPart {
    Osd,
    Host,
    Rack,
    Room,
}

struct Findings {
    shape: Shape,
    load: Load,
    distribution: Distribution,
    changes: Vec<(String, Movement)>,
    losses: Vec<Loss>,
}

pub async fn run(args: SimulateArgs, session: &Session) -> Outcome {
    let report = args.report.clone();
    let findings = blocking(move || {
        // Check first that the report can be written, so that a bad path fails before the long
        // computation.
        args.report.as_ref().map(|path| NewFile::create(path)).transpose()?;
        simulate(&args)
    })
    .await?;
    let mut text = describe(&findings);
    if let Some(path) = report {
        let _ = write!(text, "\nreport: {}", units::one_line_path(&path));
        let page = page(&findings);
        blocking(move || NewFile::write_whole(&path, page.as_bytes())).await?;
    }
    session.out.result(text, || value(&findings))
}

#[expect(clippy::cast_precision_loss, reason = "sizes of disks, to be multiplied by shares")]
fn simulate(args: &SimulateArgs) -> Result<Findings> {
    let shape =
        Shape { rooms: args.rooms, racks: args.racks, hosts: args.hosts, osds_per_host: args.osds_per_host };
    let replicas = usize::from(args.replicas);
    let domain = match args.domain {
        Some(Domain::Host) => Level::Host,
        Some(Domain::Rack) => Level::Rack,
        Some(Domain::Room) => Level::Room,
        None if args.racks as usize >= replicas => Level::Rack,
        None => Level::Host,
    };
    let load = Load {
        pg_num: args.pg_num.unwrap_or_else(|| usual_pg_num(&shape, args.replicas)),
        replicas,
        domain,
        osd_bytes: args.osd_size as f64,
        fill: f64::from(args.fill) / 100.0,
        rate_bytes_per_s: args.rate as f64,
    };
    let simulation = Simulation::new(shape.clone(), load.clone())?;
    let mut changes = Vec::new();
    if let Some(count) = args.add_host {
        let what = format!("{} more", units::count(u64::from(count), "host"));
        changes.push((what, simulation.change(Change::AddHosts(count))?));
    }
    for lost in &args.lose {
        let (level, what) = match lost {
            LostPart::Osd => (Level::Osd, "an OSD lost"),
            LostPart::Host => (Level::Host, "a host lost"),
            LostPart::Rack => (Level::Rack, "a rack lost"),
            LostPart::Room => (Level::Room, "a room lost"),
        };
        changes.push((what.to_owned(), simulation.change(Change::Lose(level))?));
    }
    let mut losses = simulation.losses(args.failures);
    // Fewer failed disks than replicas cannot lose data.
    losses.retain(|loss| loss.failed_osds >= u32::from(args.replicas));
    Ok(Findings { distribution: simulation.distribution(), shape, load, changes, losses })
}

fn usual_pg_num(shape: &Shape, replicas: u8) -> u32 {
    let osds = u64::from(shape.hosts) * u64::from(shape.osds_per_host);
    let target = (osds.saturating_mul(100) / u64::from(replicas.max(1))).clamp(1, 1 << 20);
    let below = 1_u32 << target.ilog2();
    if target * 2 > u64::from(below) * 3 { below * 2 } else { below }
}

fn describe(findings: &Findings) -> String {
    let mut text = format!("{}\n{}", describe_shape(findings), describe_spread(findings));
    for (bin, osds) in bins(&findings.distribution) {
        let width = osds * 40 / bins(&findings.distribution).iter().map(|(_, osds)| *osds).max().unwrap_or(1);
        let _ = write!(text, "\n  {bin:>9} replicas {osds:>6} OSDs {}", "#".repeat(width as usize));
    }
    for (what, movement) in &findings.changes {
        let _ = write!(text, "\n{what}: {}", describe_movement(movement));
    }
    if !findings.losses.is_empty() {
        text.push_str("\ndisks that fail at once, before any recovery:");
    }
    for loss in &findings.losses {
        let _ = write!(text, "\n  {}", describe_loss(loss));
    }
    text
}

fn describe_shape(Findings { shape, load, .. }: &Findings) -> String {
    let count = |number: u32, noun| units::count(u64::from(number), noun);
    format!(
        "{} of {} each in {} and {}: {} of {}, {} full; {} with {} in different {}s",
        count(shape.hosts, "host"),
        count(shape.osds_per_host, "OSD"),
        count(shape.racks, "rack"),
        count(shape.rooms, "room"),
        count(shape.osds(), "OSD"),
        bytes(load.osd_bytes),
        percent(load.fill),
        count(load.pg_num, "placement group"),
        units::count(load.replicas as u64, "replica"),
        load.domain.name(),
    )
}

fn describe_spread(findings: &Findings) -> String {
    let found = &findings.distribution;
    let mut text = format!(
        "{:.1} replicas per OSD, standard deviation {:.1}, {} to {}; the fullest OSD is {} full. It reaches its limit ({}) when all OSDs \
         together are {} full.",
        found.mean,
        found.deviation,
        found.least,
        found.most,
        percent(found.fullest_fill),
        percent(FULL_RATIO),
        percent(found.full_at_fill),
    );
    if found.incomplete > 0 {
        let _ = write!(text, " CRUSH found too few OSDs for {}.", pgs(found.incomplete));
    }
    text
}

fn describe_movement(movement: &Movement) -> String {
    let after = &movement.after;
    let mut text = format!(
        "{} of the replicas move (the minimum is {}), {} of {}; {} until the busiest disk has read and written {}. Then the \
         fullest OSD is {} full",
        percent(movement.moved_share),
        percent(movement.ideal_share),
        units::count(movement.moved, "replica"),
        bytes(movement.moved_bytes),
        duration(movement.hours),
        bytes(movement.busiest_osd_bytes),
        percent(after.fullest_fill),
    );
    if after.fullest_fill > FULL_RATIO {
        text.push_str(", MORE THAN ITS LIMIT");
    }
    if after.incomplete > 0 {
        let _ = write!(text, ", and {} FEWER REPLICAS THAN THEY SHOULD", has(after.incomplete));
    }
    text + "."
}

fn describe_loss(loss: &Loss) -> String {
    format!(
        "{} disks: the chance to lose a placement group is {}; {:.2e} lost placement groups on average",
        loss.failed_osds,
        percent(loss.chance),
        loss.pgs_lost
    )
}

fn has(count: usize) -> String {
    format!("{} {}", pgs(count), if count == 1 { "has" } else { "have" })
}

fn pgs(count: usize) -> String {
    units::count(count as u64, "placement group")
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "only for display")]
fn bytes(size_bytes: f64) -> String {
    units::size(size_bytes as u64)
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.1 { format!("{percent:.1e}%") } else { format!("{percent:.2}%") }
}

fn duration(hours: f64) -> String {
    if hours >= 48.0 {
        format!("{:.1} days", hours / 24.0)
    } else if hours >= 1.0 {
        format!("{hours:.1} hours")
    } else {
        format!("{:.0} minutes", (hours * 60.0).ceil())
    }
}

/// A histogram of OSDs by their number of replicas, with about fifteen bins.
fn bins(found: &Distribution) -> Vec<(String, u32)> {
    const STEPS: u32 = 15;
    let width = (found.most - found.least) / STEPS + 1;
    let steps = (found.most - found.least) / width + 1;
    let in_step = |from: u32| {
        let is_in = |replicas: u32| replicas >= from && replicas < from + width;
        found.osds_by_replicas.iter().filter(|(replicas, _)| is_in(*replicas)).map(|(_, osds)| osds).sum()
    };
    let name = |from: u32| if width == 1 { from.to_string() } else { format!("{from}-{}", from + width - 1) };
    (0..steps).map(|step| found.least + step * width).map(|from| (name(from), in_step(from))).collect()
}

fn value(findings: &Findings) -> Value {
    let changes = findings.changes.iter().map(|(what, movement)| {
        let mut value = json!(movement);
        value["what"] = json!(what);
        value
    });
    let changes: Vec<Value> = changes.collect();
    json!({
        "shape": findings.shape,
        "osds": findings.shape.osds(),
        "load": findings.load,
        "distribution": findings.distribution,
        "osds_by_replicas": findings.distribution.osds_by_replicas,
        "changes": changes,
        "losses": findings.losses,
    })
}

fn page(findings: &Findings) -> String {
    let bar = |label: String, length: f64, value: String, class| Bar { label, length, value, class };
    let osds: Vec<Bar> = bins(&findings.distribution)
        .into_iter()
        .map(|(bin, osds)| {
            bar(format!("{bin} replicas"), f64::from(osds), units::count(osds.into(), "OSD"), "storage")
        })
        .collect();
    let fill = [
        ("all OSDs together", findings.load.fill, "storage"),
        ("the fullest OSD", findings.distribution.fullest_fill, "client"),
        ("all together, when the fullest is at its limit", findings.distribution.full_at_fill, "other"),
    ];
    let fill = fill.map(|(label, share, class)| bar(label.to_owned(), share, percent(share), class));
    let mut body = format!(
        "<h1>A simulated cluster</h1>\n<p>{}</p>\n<h2>Spread</h2>\n<p>{}</p>\n{}\n<h2>Fill</h2>\n{}\n",
        html::escape(&describe_shape(findings)),
        html::escape(&describe_spread(findings)),
        html::chart(&osds),
        html::chart(&fill)
    );
    for (what, movement) in &findings.changes {
        let bars = [
            bar("moves".to_owned(), movement.moved_share, percent(movement.moved_share), "client"),
            bar("minimum".to_owned(), movement.ideal_share, percent(movement.ideal_share), "storage"),
        ];
        let (what, moved) = (html::escape(what), html::escape(&describe_movement(movement)));
        let _ = write!(body, "<h2>{what}</h2>\n<p>{moved}</p>\n{}\n", html::chart(&bars));
    }
    if !findings.losses.is_empty() {
        let rows = findings.losses.iter().map(|loss| {
            vec![loss.failed_osds.to_string(), percent(loss.chance), format!("{:.2e}", loss.pgs_lost)]
        });
        let heads = ["disks", "chance to lose a placement group", "lost placement groups, on average"];
        let _ = write!(body, "<h2>Disks that fail at once</h2>\n{}\n", html::table(&heads, rows));
    }
    html::page("A simulated cluster", &body)
}
