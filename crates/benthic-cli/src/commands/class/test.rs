//! `benthic class test`: runs the methods of a module with cases, on the memory engine.

use super::build;
use super::cases::{self, CONTENT_BYTES_MAX, Case, Content};
use super::profile::{self, Profile};
use benthic_core::{
    Class, ClassCall, ClassRegistry, Error, ErrorKind, Fetch, Method, MethodContext, MethodFlags,
    MethodResult, ObjectId, OptionalExtension, Pool, ReadOp, ReadOutput, Result, WriteOp,
};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::local::read_file;
use benthic_program::session::Session;
use benthic_program::store::{blocking, open};
use benthic_program::units;
use benthic_wasm::names::with_functions;
use benthic_wasm::{Limits, Module};
use bytes::Bytes;
use clap::Args;
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limit of a value in the output, in characters.
const SHOWN_CHARS_MAX: usize = 200;
const ERROR_CHARS_MAX: usize = 1_000;

#[derive(Args)]
#[command(
    after_help = "The cases are in cases.json, in the class's directory; docs/guide/classes.md describes them. A directory \
    is built first, and a .wasm file is not. The command needs no store. If a case fails, the exit status is 1.\n\n\
    Examples:\n  benthic class test wordcount\n  benthic class test --filter empty --profile\n  \
    benthic class test wordcount.wasm --cases more.json"
)]
pub struct TestArgs {
    /// The directory of the class, or its module
    #[arg(default_value = ".", value_name = "DIR|FILE.wasm")]
    class: PathBuf,
    /// The file with the cases [default: cases.json beside the module]
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,
    /// Run only the cases whose names contain TEXT
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// Also print the functions that use the most fuel
    #[arg(long)]
    profile: bool,
}

/// A difference between a case and the effect of its call.
#[derive(Serialize)]
struct Difference {
    what: String,
    expected: String,
    actual: String,
}

pub async fn run(args: TestArgs, session: &Session) -> Outcome {
    let (wasm, file, cases) = {
        let (class, file) = (args.class, args.cases);
        blocking(move || load(&class, file)).await?
    };
    let dir = file.parent().unwrap_or(Path::new("."));
    let selected: Vec<&Case> = cases.iter().filter(|case| case.name.contains(&args.filter)).collect();
    if selected.is_empty() {
        let message = "no case has a name with this text, or the file has no case";
        return Err(Error::new(ErrorKind::NotFound, message).with("file", file.display()).into());
    }
    let runner = Runner::open(dir, &wasm, args.profile).await?;
    let mut failed = 0;
    for case in &selected {
        let (differences, fuel) = runner
            .run(case)
            .await
            .map_err(|error| error.with("case", &case.name).with("file", file.display()))?;
        failed += u64::from(!differences.is_empty());
        print(case, &differences, fuel, session)?;
    }
    let passed = selected.len() as u64 - failed;
    session.out.result(
        format_args!("{} passed, {failed} failed", units::count(passed, "case")),
        || json!({ "passed": passed, "failed": failed }),
    )?;
    if args.profile {
        runner.profile.print(&wasm, session)?;
    }
    if failed == 0 {
        return Ok(());
    }
    session.out.flush()?;
    Err(Failure::Some { failed, of: selected.len() as u64 })
}

/// The module, the path of the file with cases, and the cases.
fn load(class: &Path, file: Option<PathBuf>) -> Result<(Bytes, PathBuf, Vec<Case>)> {
    let is_dir = class.is_dir();
    if !class.exists() {
        let message = "there is no such directory or module";
        return Err(Error::new(ErrorKind::NotFound, message).with("path", class.display()));
    }
    if is_dir && !class.join("class.json").exists() && !class.join("Cargo.toml").exists() {
        let message = "there is no class here; `benthic class new NAME --lang rust` creates one";
        return Err(Error::new(ErrorKind::NotFound, message).with("dir", class.display()));
    }
    if is_dir && !class.join("class.json").exists() && class.join("Cargo.toml").exists() {
        let message = "this is a native class; its tests are in Rust, and `cargo test` there runs them";
        return Err(Error::new(ErrorKind::Unsupported, message).with("dir", class.display()));
    }
    let dir = if is_dir { class } else { class.parent().unwrap_or(Path::new("")) };
    let file = file.unwrap_or_else(|| dir.join(cases::FILE_NAME));
    // A malformed file is reported before the compiler runs.
    let cases = cases::read(&file)?;
    let module = if is_dir { build::build(class)?.0 } else { class.to_owned() };
    Ok((read_file(&module)?.data, file, cases))
}

fn print(case: &Case, differences: &[Difference], fuel: u64, session: &Session) -> Outcome {
    let name = units::one_line(&case.name);
    let verdict = if differences.is_empty() { "ok    " } else { "FAILED" };
    let mut text = format!("{verdict}  {name}, fuel {fuel}");
    for Difference { what, expected, actual } in differences {
        text.push_str(&format!("\n        {what}: expected {expected}\n        {what}: actual   {actual}"));
    }
    session.out.result(text, || {
        json!({ "case": case.name, "ok": differences.is_empty(), "fuel": fuel, "differences": differences })
    })
}

/// Runs cases, one after the other.
struct Runner {
    pool: Arc<dyn Pool>,
    object: ObjectId,
    /// The directory of the files in the cases.
    dir: PathBuf,
    module: Arc<Module>,
    /// The same module, instrumented for the profile.
    profiled: Arc<Module>,
    profile: Profile,
    /// Whether to profile calls that succeed, too.
    profiles_all: bool,
}

/// The parts of an object that cases compare: data, attributes, and the first page of the omap.
/// `None` if the object is missing.
type ObjectState = Option<Vec<ReadOutput>>;

impl Runner {
    async fn open(dir: &Path, wasm: &Bytes, profiles_all: bool) -> Result<Runner> {
        let (module, profiled) = (Arc::new(Module::new(wasm)?), Arc::new(Module::new(wasm)?));
        let profile = profile::instrument(&profiled)?;
        let store = open("mem:", true, ClassRegistry::new().with(UnderTest)).await?.store;
        store.create_pool("test").await?;
        let (pool, object) = (store.open_pool("test").await?, ObjectId::new("object")?);
        Ok(Runner { pool, object, dir: dir.to_owned(), module, profiled, profile, profiles_all })
    }

    /// Runs a case, and returns the differences and the fuel that the call used.
    async fn run(&self, case: &Case) -> Result<(Vec<Difference>, u64)> {
        self.prepare(case).await?;
        let before = self.state().await?;
        let (mut outcome, fuel) = self.call(case, &self.module, Limits::default()).await?;
        let output = match &outcome {
            Ok(output) => self.result(case, output).await?,
            Err(_) => Bytes::new(),
        };
        let mut differences = self.compare_object(case).await?;
        let writes = self.module.manifest().method(&case.method).is_ok_and(|method| method.writes);
        if (outcome.is_err() || !writes) && self.state().await? != before {
            differences.push(Difference {
                what: "object".to_owned(),
                expected: "unchanged, because the method failed or does not write".to_owned(),
                actual: "changed".to_owned(),
            });
        }
        let ended_inside = outcome
            .as_ref()
            .is_err_and(|error| matches!(error.kind(), ErrorKind::ClassFailed | ErrorKind::LimitExceeded));
        if ended_inside || (self.profiles_all && outcome.is_ok()) {
            // A call that ran out of fuel must not get more.
            let fuel_max = if ended_inside { Limits::default().fuel } else { Limits::MAX.fuel };
            let limits = Limits { fuel: fuel_max, ..Limits::default() };
            self.prepare(case).await?;
            let (again, _) = self.call(case, &self.profiled, limits).await?;
            let functions = self.profile.end(fuel, self.profiles_all);
            outcome = match (outcome, again) {
                (Err(error), Err(_)) => Err(with_functions(error, self.module.wasm(), &functions)),
                (Ok(_), Err(error)) => return Err(error.with("option", "--profile")),
                (outcome, Ok(_)) => outcome,
            };
        }
        differences.extend(self.compare_outcome(case, &outcome, &output)?);
        Ok((differences, fuel))
    }

    /// Sets the object to the initial state of the case.
    async fn prepare(&self, case: &Case) -> Result<()> {
        match self.pool.remove(&self.object).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let Some(data) = &case.object else { return Ok(()) };
        let mut op = WriteOp::new().write_full(self.bytes(data)?);
        for (name, value) in &case.xattrs {
            op = op.set_xattr(name, self.bytes(value)?);
        }
        if !case.omap.is_empty() {
            let entries =
                case.omap.iter().map(|(key, value)| Ok((Bytes::from(key.clone()), self.bytes(value)?)));
            op = op.omap_set(entries.collect::<Result<Vec<_>>>()?);
        }
        self.pool.write(&self.object, op).await.map(drop)
    }

    fn bytes(&self, content: &Content) -> Result<Bytes> {
        content.bytes(&self.dir)
    }

    async fn call(&self, case: &Case, module: &Arc<Module>, limits: Limits) -> Result<(Result<Bytes>, u64)> {
        let input = self.bytes(&case.input)?;
        let others = case.objects.iter().map(|(name, content)| Ok((name.clone(), self.bytes(content)?)));
        let others = others.collect::<Result<Vec<_>>>()?;
        let collected = module.manifest().method(&case.method).and_then(|method| {
            Ok((method.collect(input, &method.in_declared_order(others)?)?, method.writes))
        });
        let (input, writes) = match collected {
            Ok(collected) => collected,
            Err(error) => return Ok((Err(error), 0)),
        };
        let call = Call { module: Arc::clone(module), method: case.method.clone(), input, limits, fuel: 0 };
        *lock() = Some(call);
        let run =
            ClassCall::new(UnderTest::NAME, if writes { "run_write" } else { "run_read" }, Bytes::new());
        let outcome = self.pool.exec(&self.object, run).await;
        let fuel = lock().take().map_or(0, |call| call.fuel);
        Ok((outcome, fuel))
    }

    /// The output, or the attribute with the result, as `benthic exec` prints it.
    async fn result(&self, case: &Case, output: &Bytes) -> Result<Bytes> {
        match &self.module.manifest().method(&case.method)?.result_xattr {
            None => Ok(output.clone()),
            Some(xattr) => Ok(self.pool.get_xattr(&self.object, xattr).await.optional()?.unwrap_or_default()),
        }
    }

    async fn state(&self) -> Result<ObjectState> {
        let op = ReadOp::new().stat().read(0, CONTENT_BYTES_MAX).list_xattrs().omap_range(None, "", 1_000);
        Ok(self.pool.read(&self.object, op).await.optional()?.map(|reply| reply.outputs))
    }

    fn compare_outcome(
        &self,
        case: &Case,
        outcome: &Result<Bytes>,
        output: &Bytes,
    ) -> Result<Vec<Difference>> {
        let expect = &case.expect;
        let different = |what: &str, expected: String, actual: String| {
            Ok(vec![Difference { what: what.to_owned(), expected, actual }])
        };
        match outcome {
            Ok(_) if expect.fails() => {
                let kind = expect.error.map_or("an error", |kind| kind.row().name);
                different("error", kind.to_owned(), format!("none; the output is {}", show(output)))
            }
            Ok(_) => match &expect.output {
                Some(expected) if self.bytes(expected)? != *output => {
                    different("output", show(&self.bytes(expected)?), show(output))
                }
                _ => Ok(Vec::new()),
            },
            Err(error) => {
                let text = text_of(error);
                let actual = format!(
                    "{}: {}",
                    error.kind().row().name,
                    shorten(&units::no_control(&text), ERROR_CHARS_MAX)
                );
                let is_kind = expect.error.is_none_or(|kind| kind == error.kind());
                let has_text = expect.error_contains.as_ref().is_none_or(|part| text.contains(part));
                match (expect.fails(), is_kind, has_text) {
                    (true, true, true) => Ok(Vec::new()),
                    (false, ..) => different("error", "none".to_owned(), actual),
                    (true, false, _) => {
                        different("error", expect.error.map_or("", |kind| kind.row().name).to_owned(), actual)
                    }
                    (true, true, false) => {
                        let part = expect.error_contains.as_deref().unwrap_or_default();
                        different("error", format!("a message with {}", show(part.as_bytes())), actual)
                    }
                }
            }
        }
    }

    /// Compares the object, its attributes and its omap with those of the case.
    async fn compare_object(&self, case: &Case) -> Result<Vec<Difference>> {
        let mut differences = Vec::new();
        let missing_or = |value: Option<&Bytes>| value.map_or("missing".to_owned(), |value| show(value));
        let mut compare = |what: String, expected: Option<Bytes>, actual: Option<Bytes>| {
            if expected != actual {
                let (expected, actual) = (missing_or(expected.as_ref()), missing_or(actual.as_ref()));
                differences.push(Difference { what, expected, actual });
            }
        };
        if let Some(expected) = &case.expect.object {
            let expected = expected.as_ref().map(|content| self.bytes(content)).transpose()?;
            let size_bytes = self.pool.stat(&self.object).await.optional()?.map(|(stat, _)| stat.size_bytes);
            let is_large = size_bytes.is_some_and(|size_bytes| size_bytes > CONTENT_BYTES_MAX);
            let actual = match size_bytes {
                Some(size_bytes) if is_large => Some(Bytes::from(format!("an object of {size_bytes} bytes"))),
                Some(size_bytes) => Some(self.pool.read_range(&self.object, 0, size_bytes).await?),
                None => None,
            };
            compare("object".to_owned(), expected, actual);
        }
        for (name, expected) in &case.expect.xattrs {
            let expected = expected.as_ref().map(|content| self.bytes(content)).transpose()?;
            let actual = self.pool.get_xattr(&self.object, name).await.optional()?;
            compare(format!("attribute {}", units::one_line(name)), expected, actual);
        }
        for (key, expected) in &case.expect.omap {
            let expected = expected.as_ref().map(|content| self.bytes(content)).transpose()?;
            let fetched = self.pool.fetch(&self.object, Fetch::omap_get([key.clone()])).await;
            let entry = fetched.optional()?.and_then(|(page, _)| page.entries.into_iter().next());
            let actual = entry.map(|(_, value)| value);
            compare(format!("omap {}", units::one_line(key)), expected, actual);
        }
        Ok(differences)
    }
}

/// The error's text, without the names of this command's own class, method and object.
fn text_of(error: &Error) -> String {
    let values = error.context().filter(|(key, _)| !["class", "method", "object"].contains(key));
    let plain = Error::new(error.kind(), error.message());
    values.fold(plain, |error, (key, value)| error.with(key, value)).text()
}

/// A value in quotes, cut to a length that fits a terminal.
fn show(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(4 * SHOWN_CHARS_MAX)];
    let text = match std::str::from_utf8(bytes) {
        Ok(_) => String::from_utf8_lossy(start).escape_debug().to_string(),
        Err(_) => start.escape_ascii().to_string(),
    };
    let shown = shorten(&text, SHOWN_CHARS_MAX);
    if shown == text && start == bytes {
        return format!("\"{text}\"");
    }
    format!("\"{shown}\" of {}", units::count(bytes.len() as u64, "byte"))
}

fn shorten(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// The call that [`UnderTest`] makes next. Methods are functions without state.
struct Call {
    module: Arc<Module>,
    method: String,
    input: Bytes,
    limits: Limits,
    /// The fuel that the call used.
    fuel: u64,
}

static CALL: Mutex<Option<Call>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Call>> {
    CALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The class that runs the module, as the class `wasm` does, and reports the fuel.
struct UnderTest;

impl UnderTest {
    const NAME: &str = "under_test";
}

fn make_call(context: &mut MethodContext<'_>, _: &[u8]) -> Result<Vec<u8>> {
    let mut call = lock();
    let call = call.as_mut().ok_or_else(|| Error::new(ErrorKind::Internal, "no case runs"))?;
    let (outcome, cost) = call.module.run(context, &call.method, call.input.clone(), call.limits);
    call.fuel = cost.fuel;
    outcome
}

const fn method(name: &'static str, flags: MethodFlags, result: MethodResult) -> Method {
    Method {
        name,
        flags,
        run: make_call,
        result,
        summary: "run the case",
        input: "none",
        output: "that of the method",
        examples: &[],
    }
}

impl Class for UnderTest {
    fn name(&self) -> &'static str {
        UnderTest::NAME
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "run a module that is tested"
    }

    fn methods(&self) -> &'static [Method] {
        const METHODS: &[Method] = &[
            method("run_read", MethodFlags::READ, MethodResult::Output),
            method("run_write", MethodFlags::READ_WRITE, MethodResult::Nothing),
        ];
        METHODS
    }
}
