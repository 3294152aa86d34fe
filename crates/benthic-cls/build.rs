//! Compiles the shim against the headers of Debian's Ceph packages.
//!
//! A machine without these headers still builds the workspace. The Rust side needs no header and is
//! checked in full. Only the shim is left out, and `export!` then exports nothing. Such a library
//! has no `__cls_init`, and `benthic class install` refuses it.

use std::path::Path;
use std::process::exit;

const HEADERS: &str = "/usr/include/rados";
/// A required header and the package that contains it.
const NEEDED: [(&str, &str); 2] = [("objclass.h", "rados-objclass-dev"), ("buffer.h", "libradospp-dev")];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(ceph_headers)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/shim.cc");
    for (header, _) in NEEDED {
        println!("cargo::rerun-if-changed={HEADERS}/{header}");
    }
    let missing: Vec<_> = NEEDED
        .iter()
        .filter(|(header, _)| !Path::new(HEADERS).join(header).exists())
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        println!(
            "cargo::warning=built without classes for ceph-osd; `make ceph` installs the missing packages missing={}",
            missing.join(",")
        );
        return;
    }
    println!("cargo::rustc-cfg=ceph_headers");
    let compiled = cc::Build::new()
        .cpp(true)
        .file("src/shim.cc")
        .flag("-std=c++17")
        .flag("-isystem")
        .flag(HEADERS)
        .flag("-fvisibility=hidden")
        .opt_level(2)
        .pic(true)
        .warnings_into_errors(true)
        .try_compile("benthic_cls_shim");
    if let Err(error) = compiled {
        println!("cargo::error=the shim for ceph-osd does not compile; `make ceph` installs g++: {error}");
        exit(1);
    }
}
