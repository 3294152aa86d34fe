//! Options of a client, from Ceph's configuration files and from the program.

use std::collections::BTreeMap;

/// The option that names the store, as `benthic --store` does.
pub const STORE: &str = "benthic_store";

/// Maximum size of a configuration file.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Maximum number of options.
pub const OPTIONS_MAX: usize = 10_000;

/// The name of an option as Ceph's programs compare it: blanks and hyphens are underscores.
pub fn option_name(name: &str) -> String {
    name.trim().chars().map(|c| if c == ' ' || c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// Reads the options of a client out of a configuration file: those of the sections `global`,
/// `client` and its own, each over the ones before.
pub fn parse(text: &str, client: &str) -> BTreeMap<String, String> {
    let sections = ["global", "client", client];
    let mut found = vec![BTreeMap::new(); sections.len()];
    let mut section = Some(0);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = sections.iter().position(|section| *section == name.trim());
        } else if let (Some(section), Some((name, value))) = (section, line.split_once('='))
            && !line.starts_with(['#', ';'])
        {
            let value = value.split([';', '#']).next().unwrap_or_default();
            found[section].insert(option_name(name), value.trim().trim_matches('"').to_owned());
        }
    }
    found.into_iter().flatten().take(OPTIONS_MAX).collect()
}

#[cfg(test)]
#[path = "conf_tests.rs"]
mod tests;
