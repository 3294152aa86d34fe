use super::{NO_SUDO, Ssh, check_destination, remote_command};
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn only_host_names_reach_ssh() {
    let ssh = Ssh {
        destinations: [("-oProxyCommand=x".to_owned(), "ceph@10.0.0.1".to_owned())].into(),
        ..Ssh::default()
    };
    for name in ["um", "um-1.example", "10.0.0.1", "fe80::1%eth0"] {
        assert_eq!(ssh.destination(name).unwrap(), name);
    }
    for name in [
        "",
        "-oProxyCommand=touch x",
        "-4",
        "a b",
        "a;b",
        "$(a)",
        "`a`",
        "a\nb",
        "a'b",
        "a@b",
        "ü",
        "../a",
        ".a",
    ] {
        assert!(ssh.destination(name).is_err(), "{name:?}");
    }
    assert!(ssh.destination(&"a".repeat(254)).is_err());
    assert_eq!(ssh.destination("-oProxyCommand=x").unwrap(), "ceph@10.0.0.1", "its own name is not used");
}

#[test]
fn destinations_have_the_forms_of_ssh() {
    for destination in ["um", "ceph@um", "ssh://ceph@um:2222", "ssh://[fe80::1]:22", "ceph@fe80::1"] {
        assert!(check_destination(destination).is_ok(), "{destination}");
    }
    for destination in ["", "-um", "a@-um", "-a@um", "ssh://", "ssh://-a", "a b", "a@b@c d", "a;b@c", "ceph@"]
    {
        assert!(check_destination(destination).is_err(), "{destination:?}");
    }
}

/// The remote command takes the program only, and leaves the rest of the input to the program, in
/// several shells.
#[test]
fn the_remote_command_reads_its_program_and_no_more() {
    let program = "echo \"$(id -u) 'a' \\\"$0\\\"\"; cat";
    for shell in ["sh", "bash"] {
        let mut child = Command::new(shell)
            .args(["-c", &remote_command(program.len())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = [program.as_bytes(), b"\0the rest\n"].concat();
        child.stdin.take().unwrap().write_all(&input).unwrap();
        let output = child.wait_with_output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            // Without root and without sudo.
            continue;
        }
        assert_eq!(stdout, "0 'a' \"sh\"\n\0the rest\n", "{shell}");
    }
}

/// On a host without `id` the user does not count as root, so this test may run as root.
#[test]
fn a_host_without_sudo_has_its_own_status() {
    let programs = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/sh", programs.path().join("sh")).unwrap();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &remote_command(1)]).env("PATH", programs.path());
    let ended = command.stdin(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(ended.code(), Some(NO_SUDO));
}
