//! Keeps the library in memory until the process ends. An OSD closes its class libraries when it
//! shuts down, and the thread that compiles may still run then.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
