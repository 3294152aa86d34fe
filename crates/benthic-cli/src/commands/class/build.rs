//! `benthic class build`: compiles a class to a WebAssembly module with the compiler of its
//! language, and adds the manifest.

use super::language::{Language, c_sources};
use benthic_core::{Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::local::{NewFile, failed, read_file};
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::units;
use benthic_wasm::{Manifest, Module, with_manifest};
use clap::Args;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";
/// The result of the compilers of all languages but Rust.
const COMPILED: &str = "target/module.wasm";
/// C++ without a standard library.
const CPP_FLAGS: [&str; 5] =
    ["-nostdinc++", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fno-c++-static-destructors"];
/// Limit of a compiler's output in an error message.
const OUTPUT_BYTES_MAX: usize = 4_000;

#[derive(Args)]
#[command(
    after_help = "The directory has class.json, which describes the class, and Cargo.toml (Rust), *.c (C), *.cpp (C++), \
    main.zig (Zig), main.ts (AssemblyScript) or go.mod (Go). The module is NAME.wasm in that directory.\n\n\
    Example:\n  benthic class new wordcount --lang rust && benthic class build wordcount"
)]
pub struct BuildArgs {
    /// The directory of the class
    #[arg(default_value = ".")]
    dir: PathBuf,
}

pub async fn run(args: BuildArgs, session: &Session) -> Outcome {
    let (file, len_bytes, class) = blocking(move || build(&args.dir)).await?;
    let shown = units::one_line_path(&file);
    session.out.result(
        format_args!(
            "built {shown}, {}\nnext: benthic class deploy {shown} --pool POOL",
            units::size(len_bytes)
        ),
        || json!({ "class": class, "file": file, "len_bytes": len_bytes }),
    )
}

/// Builds the class in a directory. Returns the path of the module, its size and the name of the
/// class.
pub fn build(dir: &Path) -> Result<(PathBuf, u64, String)> {
    let manifest_file = dir.join("class.json");
    let json = fs::read(&manifest_file)
        .map_err(failed("cannot read the description of the class", &manifest_file))?;
    let manifest = Manifest::parse(&json).map_err(|error| error.with("file", manifest_file.display()))?;
    let compiled = match Language::of_project(dir)? {
        Language::Rust => compile_rust(dir)?,
        Language::C => compile_c(dir, &[])?,
        Language::Cpp => compile_c(dir, &CPP_FLAGS)?,
        Language::Zig => compile_zig(dir)?,
        Language::AssemblyScript => compile_assemblyscript(dir)?,
        Language::Go => compile_go(dir)?,
    };
    let wasm = with_manifest(&read_file(&compiled)?.data, &json).into();
    let module = Module::new(&wasm).map_err(|error| error.with("file", compiled.display()))?;
    let file = dir.join(format!("{}.wasm", manifest.class));
    let mut new = NewFile::create(&file)?;
    new.write(&wasm)?;
    new.finish(None)?;
    Ok((file, module.wasm().len() as u64, manifest.class))
}

fn compile_rust(dir: &Path) -> Result<PathBuf> {
    let libraries = output(
        Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]),
        "Rust, from https://rustup.rs",
    )?;
    if !Path::new(libraries.trim()).exists() {
        let message = "Rust cannot compile to WebAssembly here; `rustup target add wasm32-unknown-unknown` installs what is missing";
        return Err(Error::unsupported(message));
    }
    let target_dir = dir.join("target");
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--release", "--quiet", "--target", TARGET, "--target-dir", "target"])
        .current_dir(dir);
    output(&mut cargo, "Rust, from https://rustup.rs")?;
    let built = target_dir.join(TARGET).join("release");
    let entries = fs::read_dir(&built).map_err(failed("cannot read the directory", &built))?;
    let mut modules: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "wasm"))
        .collect();
    match (modules.pop(), modules.pop()) {
        (Some(module), None) => Ok(module),
        (None, _) => {
            let message = "cargo built no module; Cargo.toml needs `[lib]` with `crate-type = [\"cdylib\"]`";
            Err(Error::not_found(message).with("dir", built.display()))
        }
        (Some(_), Some(_)) => {
            let message =
                "cargo built several modules; remove the directory `target` if the package was renamed";
            Err(Error::invalid_argument(message).with("dir", built.display()))
        }
    }
}

fn compile_c(dir: &Path, flags: &[&str]) -> Result<PathBuf> {
    let mut clang = Command::new("clang");
    clang
        .args(["--target=wasm32", "-O2", "-mbulk-memory", "-ffreestanding", "-nostdlib", "-Wall"])
        .args(["-Wl,--no-entry", "-Wl,--strip-debug", "-o", COMPILED])
        .args(flags)
        // A name that begins with `-` is no option.
        .args(c_sources(dir)?.iter().map(|source| Path::new(".").join(source)));
    compile(dir, &mut clang, "clang and lld, such as Debian's packages of these names")
}

fn compile_zig(dir: &Path) -> Result<PathBuf> {
    // The package `ziglang` of PyPI has no program `zig`.
    const PROGRAMS: [&[&str]; 2] = [&["zig"], &["python3", "-m", "ziglang"]];
    let command = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    };
    let is_installed =
        |words: &&&[&str]| command(words).arg("version").output().is_ok_and(|run| run.status.success());
    let Some(words) = PROGRAMS.iter().find(is_installed) else {
        return Err(Error::unsupported(
            "zig is missing; install Zig, for example with `pip install ziglang`",
        ));
    };
    let mut zig = command(words);
    zig.args(["build-exe", "main.zig", "-target", "wasm32-freestanding", "-O", "ReleaseSafe", "-fstrip"])
        .args(["-fno-entry", "-rdynamic", "--stack", "131072", "--cache-dir", "target/zig"])
        .arg(format!("-femit-bin={COMPILED}"));
    compile(dir, &mut zig, "Zig, for example with `pip install ziglang`")
}

fn compile_assemblyscript(dir: &Path) -> Result<PathBuf> {
    let own = fs::canonicalize(dir.join("node_modules/.bin/asc"));
    let mut asc = Command::new(own.unwrap_or_else(|_| PathBuf::from("asc")));
    asc.args([
        "main.ts",
        "--optimize",
        "--use",
        "abort=benthic/abort",
        "--exportStart",
        "_initialize",
        "--outFile",
        COMPILED,
    ]);
    compile(
        dir,
        &mut asc,
        "AssemblyScript with `npm install assemblyscript` in the class's directory, or for all with `npm install --global assemblyscript`",
    )
}

fn compile_go(dir: &Path) -> Result<PathBuf> {
    let mut go = Command::new("go");
    // A build must not download another toolchain, and must give the same module everywhere.
    go.envs([("GOOS", "wasip1"), ("GOARCH", "wasm"), ("GOTOOLCHAIN", "local")]).args([
        "build",
        "-buildmode=c-shared",
        "-trimpath",
        "-buildvcs=false",
        "-o",
        COMPILED,
        ".",
    ]);
    compile(dir, &mut go, "Go 1.24 or newer, from https://go.dev/dl")
}

/// Runs a compiler in the directory of a project, where it writes [`COMPILED`].
fn compile(dir: &Path, compiler: &mut Command, needed: &str) -> Result<PathBuf> {
    let target = dir.join("target");
    fs::create_dir_all(&target).map_err(failed("cannot create the directory", &target))?;
    output(compiler.current_dir(dir), needed)?;
    Ok(dir.join(COMPILED))
}

/// Runs a compiler and returns its output.
fn output(command: &mut Command, needed: &str) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let run = command.output().map_err(|error| {
        let message = if error.kind() == std::io::ErrorKind::NotFound {
            format!("{program} is missing; install {needed}")
        } else {
            format!("{program} cannot be started")
        };
        Error::unsupported(message).with_source(error)
    })?;
    if run.status.success() {
        return Ok(String::from_utf8_lossy(&run.stdout).into_owned());
    }
    let printed = String::from_utf8_lossy(&run.stderr);
    let printed = printed.get(..printed.floor_char_boundary(OUTPUT_BYTES_MAX)).unwrap_or_default();
    Err(Error::invalid_argument(format!("{program} failed:\n{}", printed.trim_end())))
}
