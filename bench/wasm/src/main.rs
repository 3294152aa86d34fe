//! WebAssembly modules in a real OSD, beside the same work in a native class. `make bench-wasm`
//! builds the programs and runs it.
//!
//! The section `hostile` measures how modules that misbehave slow down other clients.
//!
//! Two clusters with one OSD run the same module: one compiles it, in the other it is interpreted.
//! The sides run in turns; the table shows medians.

mod hostile;

use bench_harness::cluster::Cluster;
use bench_harness::process::run as run_program;
use bench_harness::{Outcome, exit, is_wanted, machine};
use benthic_core::{ClassCall, ObjectId, Pool};
use benthic_wasm::{Call, Limits, ModuleId};
use bytes::Bytes;
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

const OBJECT_BYTES: usize = 4 << 20;
const KERNELS: [&str; 5] = ["md5", "lines", "json", "scale", "filter"];

#[derive(Parser)]
struct Args {
    /// The benthic program; the class libraries must be in the same directory
    #[arg(long, value_name = "FILE", default_value = "target/release/benthic")]
    benthic: PathBuf,
    /// The module with the measured work
    #[arg(long, value_name = "FILE", default_value = "bench/wasm/guest/kernels.wasm")]
    module: PathBuf,
    /// Sections: `kernels`, `hostile`; all by default
    sections: Vec<String>,
    /// An option of the OSD for `hostile`, which restarts the OSD
    #[arg(long, value_name = "NAME=VALUE", value_parser = option)]
    ceph: Vec<(String, String)>,
    /// Number of measured rounds; at most 5 for `hostile`
    #[arg(long, value_name = "N", default_value_t = 11)]
    rounds: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit(run(Args::parse()).await)
}

async fn run(args: Args) -> Outcome {
    for (name, value) in machine::describe(&std::env::temp_dir(), "Ceph", "ceph-osd")? {
        println!("{name}: {value}");
    }
    let module = Module::new(std::fs::read(&args.module)?.into());
    println!("module: {} KiB\n", module.wasm.len() / 1024);
    if is_wanted(&args.sections, "hostile") {
        for interpret in [false, true] {
            println!("{}:\n", if interpret { "interpreted" } else { "compiled" });
            hostile::measure(&args, &module, interpret).await?;
        }
    }
    if !is_wanted(&args.sections, "kernels") {
        return Ok(());
    }
    println!("| in the OSD | {}, ms | empty call, µs | first call, ms |", KERNELS.join(", ms | "));
    println!("| --- | {}--- | --- |", "--- | ".repeat(KERNELS.len()));
    for interpret in [false, true] {
        measure(&args, &module, interpret).await?;
    }
    Ok(())
}

fn option(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

async fn measure(args: &Args, module: &Module, interpret: bool) -> Outcome {
    let environment = [("BENTHIC_WASM_INTERPRET", if interpret { "1" } else { "0" })];
    let cluster = Cluster::up_with(&args.benthic, "wasm", &["--osds", "1"], &environment)?;
    for library in ["libcls_wasm_1.so", "libcls_kernels_1.so"] {
        let library = args.benthic.with_file_name(library);
        run_program(cluster.benthic(["class", "install"]).arg(&library).arg("--cluster").arg(cluster.dir()))?;
    }
    let store = cluster.connect().await?;
    store.create_pool("bench").await?;
    let pool = store.open_pool("bench").await?;
    for kernel in KERNELS {
        pool.write_full(&ObjectId::new(kernel)?, data(kernel)).await?;
    }
    let first_ms = first_calls(&*pool, module).await?;
    for _ in 0..2 {
        call(&*pool, &ObjectId::new("md5")?, module, "empty").await?;
    }
    // The OSD compiles the module meanwhile.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (mut native, mut sandboxed) = (Vec::new(), Vec::new());
    for kernel in KERNELS {
        let object = ObjectId::new(kernel)?;
        let (mut native_ms, mut module_ms) = (Vec::new(), Vec::new());
        for _ in 0..args.rounds {
            let started = Instant::now();
            let expected = pool.exec(&object, ClassCall::new("kernels", kernel, "")).await?;
            native_ms.push(started.elapsed().as_secs_f64() * 1e3);
            let started = Instant::now();
            let output = call(&*pool, &object, module, kernel).await?;
            module_ms.push(started.elapsed().as_secs_f64() * 1e3);
            if output != expected {
                return Err(format!("{kernel}: the module and the native class differ").into());
            }
        }
        native.push(median(native_ms));
        sandboxed.push(median(module_ms));
    }
    let (native_us, module_us) = empty_calls(&pool, module).await?;
    let row = |name: &str, times: &[f64], empty_us: f64, first_ms: Option<f64>| {
        let times: Vec<String> = times.iter().map(|ms| format!("{ms:.1}")).collect();
        let first_ms = first_ms.map_or("–".to_owned(), |ms| format!("{ms:.0}"));
        println!("| {name} | {} | {empty_us:.0} | {first_ms} |", times.join(" | "));
    };
    row("native class", &native, native_us, None);
    row(
        if interpret { "module, interpreted" } else { "module, compiled" },
        &sandboxed,
        module_us,
        Some(first_ms),
    );
    memory(&cluster, &*pool, module).await
}

/// A module and its hash.
struct Module {
    id: ModuleId,
    wasm: Bytes,
}

impl Module {
    fn new(wasm: Bytes) -> Module {
        Module { id: ModuleId::of(&wasm), wasm }
    }
}

async fn call(
    pool: &dyn Pool,
    object: &ObjectId,
    module: &Module,
    method: &str,
) -> benthic_core::Result<Bytes> {
    let call = Call {
        module: module.id,
        limits: Limits { fuel: Limits::MAX.fuel, ..Limits::default() },
        method: method.to_owned(),
        input: Bytes::new(),
        attached: None,
    };
    benthic_wasm::exec(pool, object, call, false, async || Ok(module.wasm.clone())).await
}

/// A module that differs from this one only in its hash.
fn another(module: &Module, number: usize) -> Module {
    let mut other = module.wasm.to_vec();
    // A custom section that nobody reads.
    let name = format!("{number:08}");
    other.extend_from_slice(&[0, 9, 8]);
    other.extend_from_slice(name.as_bytes());
    Module::new(other.into())
}

/// Milliseconds of the first call of a module: it is sent, checked and interpreted.
async fn first_calls(pool: &dyn Pool, module: &Module) -> Outcome<f64> {
    let object = ObjectId::new("md5")?;
    let mut times = Vec::new();
    for number in 0..11 {
        let other = another(module, number);
        let started = Instant::now();
        call(pool, &object, &other, "empty").await?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times))
}

/// Microseconds of a call that does nothing: of the native class and of the module.
async fn empty_calls(pool: &Arc<dyn Pool>, module: &Module) -> Outcome<(f64, f64)> {
    let object = ObjectId::new("md5")?;
    let (mut native, mut sandboxed) = (Vec::new(), Vec::new());
    for _ in 0..3_000 {
        let started = Instant::now();
        pool.exec(&object, ClassCall::new("kernels", "empty", "")).await?;
        native.push(started.elapsed().as_secs_f64() * 1e6);
        let started = Instant::now();
        call(&**pool, &object, module, "empty").await?;
        sandboxed.push(started.elapsed().as_secs_f64() * 1e6);
    }
    Ok((median(native), median(sandboxed)))
}

/// Prints how much memory of the OSD 100 modules of about 50 KiB take.
async fn memory(cluster: &Cluster, pool: &dyn Pool, module: &Module) -> Outcome {
    let object = ObjectId::new("md5")?;
    let before_mib = cluster.osd_mib()?;
    for number in 1_000..1_100 {
        let another = another(module, number);
        call(pool, &object, &another, "empty").await?;
        call(pool, &object, &another, "empty").await?;
        // The queue of the compiler is shorter than this.
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    println!(
        "\n100 more modules: {:.0} MiB more memory in the OSD, which has {:.0} MiB\n",
        cluster.osd_mib()? - before_mib,
        cluster.osd_mib()?
    );
    Ok(())
}

fn data(kernel: &str) -> Bytes {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut data = Vec::with_capacity(OBJECT_BYTES + 200);
    while data.len() < OBJECT_BYTES {
        match kernel {
            "lines" => data.extend_from_slice(
                format!(
                    "{} some words and a {} in a line\n",
                    random(),
                    if random() % 10 == 0 { "needle" } else { "straw" }
                )
                .as_bytes(),
            ),
            "json" => data.extend_from_slice(
                format!(
                    "{{\"n\":{},\"name\":\"user {}\",\"tags\":[\"a\",\"b\"],\"ok\":true}}\n",
                    random() % 1000,
                    random()
                )
                .as_bytes(),
            ),
            _ => data.extend_from_slice(&random().to_le_bytes()),
        }
    }
    if !matches!(kernel, "lines" | "json") {
        data.truncate(OBJECT_BYTES);
    }
    data.into()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
