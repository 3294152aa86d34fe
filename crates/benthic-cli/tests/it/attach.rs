//! `benthic image attach`, with a real file system on the device.

use crate::guest::Guest;
use crate::nbd::tool;
use crate::support::{Home, Running, pattern};
use benthic_testkit::devices::can_attach;
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const MIB: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(40);

/// An attached image.
struct Attached {
    running: Running,
    device: PathBuf,
}

impl Attached {
    fn start(home: &Home, args: &[&str]) -> Attached {
        let running = Running::start(home.command(&[&["--json", "image", "attach"], args].concat()));
        let Ok(line) = running.stdout.recv_timeout(PATIENCE) else {
            panic!("no device: {:?}", running.stderr.iter().collect::<Vec<_>>());
        };
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["pid"], running.pid());
        Attached { running, device: line["device"].as_str().unwrap().into() }
    }

    fn device(&self) -> &str {
        self.device.to_str().unwrap()
    }

    fn stop(mut self) {
        self.running.signal(Signal::TERM);
        assert_eq!(self.running.ends_within(PATIENCE).code(), Some(143));
        let left = fs::read_to_string("/proc/mounts").unwrap();
        assert!(!left.contains(self.device()), "{left}");
    }
}

/// A mount that ends with the test, also with a failed one.
struct Mounted(PathBuf);

impl Mounted {
    fn new(home: &Home, device: &str, options: &str) -> Mounted {
        let point = home.path("mount");
        fs::create_dir_all(&point).unwrap();
        tool("mount", &["-o", options, device, point.to_str().unwrap()]);
        Mounted(point)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_file_system_on_a_device_keeps_its_files() {
    if !can_attach("a_file_system_on_a_device_keeps_its_files") {
        return;
    }
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", "64MiB"]);
    let data = pattern(20 * MIB);
    {
        let attached = Attached::start(&home, &["p/i"]);
        tool("mkfs.ext4", &["-q", attached.device()]);
        let mounted = Mounted::new(&home, attached.device(), "discard");
        let mut file = fs::File::create(mounted.0.join("data")).unwrap();
        file.write_all(&data).unwrap();
        file.sync_all().unwrap();
        drop(file);
        // Nobody else may write, and the device does not end while it is mounted.
        home.fails_with("busy", &["image", "attach", "p/i"]);
        attached.running.signal(Signal::INT);
        let error = attached.running.says("error");
        assert_eq!((&error["kind"], &error["context"]["mounted_at"]), (&"busy".into(), &path(&mounted.0)));
        assert!(fs::read(mounted.0.join("data")).unwrap() == data);
        home.ok(&["image", "snap", "create", "p/i@s"]);
        fs::write(mounted.0.join("later"), "later").unwrap();
        drop(mounted);
        attached.stop();
    }
    {
        let attached = Attached::start(&home, &["p/i"]);
        let mounted = Mounted::new(&home, attached.device(), "defaults");
        assert!(fs::read(mounted.0.join("data")).unwrap() == data);
        assert_eq!(fs::read_to_string(mounted.0.join("later")).unwrap(), "later");
        // A discard frees the space of the file in the pool.
        let used = || home.json(&["image", "du", "p/i"])[0]["used_bytes"].as_u64().unwrap();
        let before = used();
        home.ok(&["image", "snap", "rm", "p/i@s"]);
        home.ok(&["image", "snap", "create", "p/i@t"]);
        home.ok(&["image", "snap", "rm", "p/i@t"]);
        fs::remove_file(mounted.0.join("data")).unwrap();
        rustix::fs::sync();
        tool("fstrim", &[mounted.0.to_str().unwrap()]);
        assert!(used() < before - 8 * MIB as u64, "{before} -> {}", used());
        drop(mounted);
        attached.stop();
    }
    assert_eq!(home.json(&["image", "check", "p/i"])[0]["damage_count"], Value::from(0));
}

#[test]
fn a_snapshot_is_a_read_only_device() {
    if !can_attach("a_snapshot_is_a_read_only_device") {
        return;
    }
    let home = Home::with_pool();
    let disk = home.file("disk.raw", pattern(3 * MIB));
    home.ok(&["image", "import", disk.to_str().unwrap(), "p/i"]);
    home.ok(&["image", "snap", "create", "p/i@s"]);
    // Another program may write to the image meanwhile.
    let image = Attached::start(&home, &["p/i"]);
    let snapshot = Attached::start(&home, &["p/i@s"]);
    write(&image.device, &[7; 4096]).unwrap();
    assert!(write(&snapshot.device, &[8; 4096]).is_err());
    assert!(fs::read(&snapshot.device).unwrap() == fs::read(&disk).unwrap());
    // The device does not end while a program has it open.
    let open = fs::File::open(&snapshot.device).unwrap();
    snapshot.running.signal(Signal::TERM);
    let error = snapshot.running.says("error");
    assert_eq!((&error["kind"], error["context"]["process"].is_string()), (&"busy".into(), true));
    drop(open);
    snapshot.stop();
    image.stop();
    let image = Attached::start(&home, &["p/i", "--read-only"]);
    assert!(write(&image.device, &[8; 4096]).is_err());
    assert_eq!(fs::read(&image.device).unwrap()[..4096], [7; 4096]);
    image.stop();
}

#[test]
fn a_guest_attaches_an_image_with_the_kernels_client() {
    let home = Home::bare();
    Guest::with_program(&home, Some(env!("CARGO_BIN_EXE_benthic"))).attaches_an_image();
}

/// All data that were synced before the kill must be there, and the killed program's device must
/// not disturb.
#[test]
fn a_killed_program_leaves_nothing_that_stays() {
    if !can_attach("a_killed_program_leaves_nothing_that_stays") {
        return;
    }
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", "8MiB"]);
    let killed = Attached::start(&home, &["p/i"]);
    let device = OpenOptions::new().write(true).open(&killed.device).unwrap();
    device.write_all_at(&pattern(MIB), 0).unwrap();
    device.sync_all().unwrap();
    let old = killed.device.clone();
    // Kills it.
    drop(killed);
    // Requests of the old device fail; they do not hang.
    let failed = device.write_all_at(&[1; 4096], 4 * MIB as u64).and_then(|()| device.sync_all());
    assert!(failed.is_err());
    drop(device);
    let attached = Attached::start(&home, &["p/i"]);
    assert!(fs::read(&attached.device).unwrap()[..MIB] == pattern(MIB));
    attached.stop();
    // The kernel shows a file whose mount has ended without the path of the mount.
    let shown = Path::new("/sys/block").join(old.file_name().unwrap()).join("loop/backing_file");
    let shown = fs::read_to_string(shown).unwrap_or_default();
    assert!(!shown.starts_with("/image"), "{shown}");
}

/// Writes to the beginning of a device.
fn write(device: &Path, data: &[u8]) -> io::Result<()> {
    let device = OpenOptions::new().write(true).open(device)?;
    device.write_all_at(data, 0)?;
    device.sync_all()
}

fn path(path: &Path) -> Value {
    Value::from(path.to_str().unwrap())
}
