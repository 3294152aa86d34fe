//! A real guest on an image: QEMU boots a Linux kernel, which makes a file system and writes files
//! with fsync. The server is killed meanwhile, and the guest with it. After the next boot, all
//! synced files must be there.

use crate::nbd::Server;
use crate::support::{Home, Running, printed};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where `make guest-packages` unpacks the kernel.
const KERNEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/guest");
const MAKE_INITRAMFS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/make-initramfs");
/// Time in which the guest must say something. QEMU emulates the processor, which is slow.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Guest<'a> {
    home: &'a Home,
    kernel: PathBuf,
    initramfs: PathBuf,
}

impl Guest<'_> {
    pub fn new(home: &Home) -> Guest<'_> {
        Guest::with_program(home, None)
    }

    /// A guest that has the program `benthic`, and the kernel's NBD client.
    pub fn with_program<'a>(home: &'a Home, program: Option<&str>) -> Guest<'a> {
        let boot = Path::new(KERNEL).join("boot");
        let files = std::fs::read_dir(&boot)
            .unwrap_or_else(|error| panic!("{boot:?}: {error}; run `make guest-packages`"));
        let is_kernel = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("vmlinuz");
        let kernel = files.map(|entry| entry.unwrap().path()).find(is_kernel).unwrap();
        let initramfs = home.path("initramfs");
        let made = Command::new("sh")
            .arg(MAKE_INITRAMFS)
            .arg(KERNEL)
            .arg(&initramfs)
            .args(program)
            .output()
            .unwrap();
        printed(&made, &["make-initramfs"]);
        Guest { home, kernel, initramfs }
    }

    fn boot(&self, server: &Server, image: &str, task: &str) -> Running {
        let socket = server.socket();
        let drive = format!("format=raw,if=virtio,discard=unmap,file=nbd:unix:{socket}:exportname={image}");
        self.run(task, &["-drive", &drive])
    }

    fn run(&self, task: &str, options: &[&str]) -> Running {
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args(["-accel", "tcg", "-m", "256M", "-nographic", "-no-reboot", "-kernel"])
            .arg(&self.kernel);
        command.arg("-initrd").arg(&self.initramfs);
        command.args(["-append", &format!("console=ttyS0 quiet panic=-1 {task}")]);
        command.args(options).stdin(Stdio::null());
        Running::start(command)
    }

    /// Attaches an image of a store of its own.
    pub fn attaches_an_image(&self) {
        let running = self.run("task=attach", &["-m", "1G"]);
        assert_eq!(says(&running), "detached");
        assert_eq!(says(&running), "attached");
    }

    /// Writes synced files to an image of this pool, kills the server, and checks that all of them
    /// are there; then those of a snapshot that was taken meanwhile. `restart` are the arguments of
    /// a server that starts after the kill.
    pub fn finds_all_synced_files(&self, store: &str, pool: &str, restart: &[&str]) {
        let (home, store) = (self.home, ["--store", store]);
        let image = &format!("{pool}/disk");
        let snapshot = &format!("{image}@running");
        let with_store = |args: &[&str]| home.ok(&[args, &store].concat());
        with_store(&["image", "create", image, "--size", "64MiB"]);
        let server = Server::start(home, &[&[image.as_str()], &store[..]].concat());
        let running = self.boot(&server, image, "task=write");
        while synced(&running) < 12 {}
        // A snapshot of the running guest must hold the data that were synced by then.
        let in_snapshot = synced(&running);
        with_store(&["image", "snap", "create", snapshot]);
        let mut last = in_snapshot;
        while last < in_snapshot + 12 {
            last = synced(&running);
        }
        // Kills it.
        drop(server);
        drop(running);

        let check_image = |image: &str, last: u64, args: &[&str]| {
            let server = Server::start(home, &[&[image], &store[..], args].concat());
            let running = self.boot(&server, image, &format!("task=check last={last}"));
            assert_eq!(says(&running), format!("checked {last}"));
            drop(running);
            server.stop();
        };
        let check = |last: u64, args: &[&str]| check_image(image, last, args);
        check(last, restart);
        with_store(&["image", "snap", "rollback", snapshot, "--yes", "disk"]);
        check(in_snapshot, &[]);

        // A clone shows the same files, and has only the data that the guest writes when it mounts
        // them.
        let clone = format!("{pool}/clone");
        with_store(&["image", "clone", snapshot, &clone]);
        check_image(&clone, in_snapshot, &[]);
        let stored = |image: &str| {
            home.json(&[&["image", "check", image], &store[..]].concat())[0]["objects"].as_u64().unwrap()
        };
        // On a cluster, the number follows from the size.
        if store[1].starts_with("file:") {
            let (cloned, whole) = (stored(&clone), stored(image));
            assert!(cloned * 2 < whole, "the clone has {cloned} objects, the image {whole}");
        }
    }
}

/// The next line of the guest.
fn says(guest: &Running) -> String {
    loop {
        let line = guest.stdout.recv_timeout(PATIENCE).expect("the guest says something in time");
        if let Some((_, said)) = line.split_once("guest: ") {
            return said.trim().to_owned();
        }
    }
}

fn synced(guest: &Running) -> u64 {
    let said = says(guest);
    said.strip_prefix("synced ").unwrap_or_else(|| panic!("the guest said {said:?}")).parse().unwrap()
}
