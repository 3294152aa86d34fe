//! A short description of the machine.

use crate::Outcome;
use crate::process::output;
use crate::tables::Conditions;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The conditions of the results as names and values: the machine, the version of the reference
/// `program`, and the disk that holds `dir`.
pub fn describe(dir: &Path, name: &'static str, program: &str) -> Outcome<Conditions> {
    let cpu = fs::read_to_string("/proc/cpuinfo")?;
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let memory = fs::read_to_string("/proc/meminfo")?;
    let memory_kib: u64 = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0);
    let cores = std::thread::available_parallelism()?;
    let load = fs::read_to_string("/proc/loadavg")?;
    Ok(vec![
        ("CPU", cpu.trim_start_matches([' ', '\t', ':']).to_owned()),
        ("cores", cores.to_string()),
        ("memory", format!("{} GiB", memory_kib.div_ceil(1024 * 1024))),
        ("kernel", last_line(Command::new("uname").args(["-sr"]))?),
        (name, last_line(Command::new(program).arg("--version"))?),
        ("disk", last_line(Command::new("df").args(["--output=source,fstype,size", "-h"]).arg(dir))?),
        ("load before", load.split(' ').take(3).collect::<Vec<_>>().join(" ")),
    ])
}

fn last_line(command: &mut Command) -> Outcome<String> {
    let printed = output(command)?;
    let text = String::from_utf8_lossy(&printed);
    let line = text.trim().lines().last().unwrap_or_default();
    Ok(line.split_whitespace().collect::<Vec<_>>().join(" "))
}
