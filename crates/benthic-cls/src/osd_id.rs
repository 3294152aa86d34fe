//! The number of the OSD that this process is. ceph-osd exports no function for it, so it comes
//! from the process' arguments: `-i 3`, `--id 3`, `--id=3`, `-n osd.3`, `--name osd.3` or
//! `--name=osd.3`.

/// The number of this process' OSD; `None` if the arguments do not show it.
pub fn of_this_process() -> Option<u32> {
    let arguments: Vec<String> =
        std::env::args_os().filter_map(|argument| argument.into_string().ok()).collect();
    of(&arguments)
}

fn of(arguments: &[String]) -> Option<u32> {
    arguments.iter().enumerate().find_map(|(at, argument)| {
        let (option, value) = match argument.split_once('=') {
            Some((option, value)) => (option, value),
            None => (argument.as_str(), arguments.get(at + 1)?.as_str()),
        };
        match option {
            "-i" | "--id" => value.parse().ok(),
            "-n" | "--name" => value.strip_prefix("osd.")?.parse().ok(),
            _ => None,
        }
    })
}

#[cfg(test)]
#[path = "osd_id_tests.rs"]
mod tests;
