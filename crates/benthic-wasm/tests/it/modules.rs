//! Modules that misbehave, and how a call of each must end. Every engine and runtime runs all of
//! them: the tests of `benthic-cls-wasm` include this file.

#[path = "wasi_modules.rs"]
mod wasi;

use benthic_core::ErrorKind::{
    self, Busy, ClassFailed, InvalidArgument, LimitExceeded, NotFound, OutcomeUnknown,
};
use benthic_wasm::{MODULE_BYTES_MAX, with_manifest};

/// A module, and the kind of the error of its method `run`; `None` if the call succeeds.
pub struct Case {
    pub name: &'static str,
    pub wasm: Vec<u8>,
    pub writes: bool,
    pub expected: Option<ErrorKind>,
}

/// The manifest of a class with the method `run`.
pub fn manifest(reads: bool, writes: bool) -> String {
    format!(
        r#"{{"class":"case","version":1,"methods":[{{"method":"run","reads":{reads},"writes":{writes}}}]}}"#
    )
}

/// A module with all imports, a memory of one page, and other fields.
pub fn module(fields: &str) -> Vec<u8> {
    let imports = [
        ("input", "(result i64)"),
        ("take", "(param i32 i32 i32)"),
        ("output", "(param i32 i32) (result i64)"),
        ("fail", "(param i32 i32)"),
        ("log", "(param i32 i32 i32)"),
        ("stat", "(result i64)"),
        ("read", "(param i64 i64) (result i64)"),
        ("get_xattr", "(param i32 i32) (result i64)"),
        ("list_xattrs", "(result i64)"),
        ("omap_get", "(param i32 i32) (result i64)"),
        ("omap_range", "(param i32 i32 i32 i32 i32) (result i64)"),
        ("create", "(param i32) (result i64)"),
        ("write", "(param i64 i32 i32) (result i64)"),
        ("write_full", "(param i32 i32) (result i64)"),
        ("append", "(param i32 i32) (result i64)"),
        ("truncate", "(param i64) (result i64)"),
        ("zero", "(param i64 i64) (result i64)"),
        ("remove", "(result i64)"),
        ("set_xattr", "(param i32 i32 i32 i32) (result i64)"),
        ("omap_set", "(param i32 i32) (result i64)"),
        ("omap_remove", "(param i32 i32) (result i64)"),
        ("omap_clear", "(result i64)"),
        ("call", "(param i32 i32 i32 i32 i32 i32) (result i64)"),
    ];
    let imports: String = imports
        .iter()
        .map(|(name, types)| format!("(import \"benthic_1\" \"{name}\" (func ${name} {types}))\n"))
        .collect();
    let memory = if fields.contains("(memory (") { "" } else { "(memory (export \"memory\") 1)" };
    wat::parse_str(format!("(module\n{imports}{memory}\n{fields})")).unwrap()
}

/// A module whose method `run` has this body.
pub fn method(body: &str) -> Vec<u8> {
    module(&format!("(func (export \"run\") (result i32) {body} i32.const 0)"))
}

/// A body that returns the errno of the value on the stack.
const RETURN_ERRNO: &str = "i32.wrap_i64 i32.const 0 i32.sub return";

fn errno_of(call: &str) -> String {
    format!("{call} {RETURN_ERRNO}")
}

/// A loop that ends only by a limit.
fn forever(body: &str) -> String {
    format!("(loop $again {body} br $again)")
}

pub fn all() -> Vec<Case> {
    [traps(), endless(), memory(), invalid(), misuse(), answers(), numbers(), wasi::all()]
        .into_iter()
        .flatten()
        .collect()
}

/// A case with a method that only reads.
fn reading(name: &'static str, wasm: Vec<u8>, expected: impl Into<Option<ErrorKind>>) -> Case {
    let wasm = with_manifest(&wasm, manifest(true, false).as_bytes());
    Case { name, wasm, writes: false, expected: expected.into() }
}

/// A case with a method that reads and writes.
fn writing(name: &'static str, wasm: Vec<u8>, expected: impl Into<Option<ErrorKind>>) -> Case {
    let wasm = with_manifest(&wasm, manifest(true, true).as_bytes());
    Case { name, wasm, writes: true, expected: expected.into() }
}

/// Calculations. A method traps if the result of one is wrong.
fn numbers() -> Vec<Case> {
    let right = |name, body: &str| reading(name, method(body), None);
    let mut nans = String::new();
    for (float, bits, nan, canonical) in [
        ("f32", "i32", "0xffc12345", "0x7fc00000"),
        ("f64", "i64", "0xfff8000000012345", "0x7ff8000000000000"),
    ] {
        let operand = format!("({float}.reinterpret_{bits} (local.get ${bits}))");
        let mut is = |result: &str, expected: &str| {
            nans += &format!(
                "(if ({bits}.ne ({bits}.reinterpret_{float} {result}) ({bits}.const {expected})) (then unreachable))\n"
            );
        };
        for unary in ["ceil", "floor", "trunc", "nearest", "sqrt"] {
            is(&format!("({float}.{unary} {operand})"), canonical);
        }
        for binary in ["add", "sub", "mul", "div", "min", "max"] {
            is(&format!("({float}.{binary} {operand} ({float}.const 1))"), canonical);
            is(&format!("({float}.{binary} ({float}.const 1) {operand})"), canonical);
        }
        is(&operand, nan);
        is(&format!("({float}.neg ({float}.neg {operand}))"), nan);
        is(&format!("({float}.copysign {operand} {operand})"), nan);
        is(&format!("({float}.sub ({float}.const inf) ({float}.const inf))"), canonical);
        is(&format!("({float}.sqrt ({float}.const -1))"), canonical);
    }
    nans += "(if (i32.ne (i32.reinterpret_f32 (f32.demote_f64 (f64.reinterpret_i64 (local.get $i64))))
            (i32.const 0x7fc00000)) (then unreachable))
        (if (i64.ne (i64.reinterpret_f64 (f64.promote_f32 (f32.reinterpret_i32 (local.get $i32))))
            (i64.const 0x7ff8000000000000)) (then unreachable))";
    vec![
        right(
            "choice after a comparison with zero",
            "(local $x i32)
            (i32.store (i32.const 0) (i32.const 5))
            (local.set $x (i32.load (i32.const 0)))
            (if (i32.ne (select (i32.const 1) (local.get $x) (i32.eqz (local.get $x))) (i32.const 5))
                (then unreachable))",
        ),
        right(
            "NaNs are canonical",
            &format!(
                "(local $i32 i32) (local $i64 i64)
                (i32.store (i32.const 0) (i32.const 0xffc12345))
                (i64.store (i32.const 8) (i64.const 0xfff8000000012345))
                (local.set $i32 (i32.load (i32.const 0)))
                (local.set $i64 (i64.load (i32.const 8)))
                {nans}"
            ),
        ),
    ]
}

fn traps() -> Vec<Case> {
    let of = |name, body: &str| reading(name, method(body), ClassFailed);
    vec![
        of("unreachable", "unreachable"),
        of("division by zero", "(drop (i32.div_u (i32.const 1) (i32.const 0)))"),
        of("overflow of a division", "(drop (i64.div_s (i64.const -9223372036854775808) (i64.const -1)))"),
        of("conversion of NaN", "(drop (i32.trunc_f32_s (f32.const nan)))"),
        of("load outside", "(drop (i32.load (i32.const 65533)))"),
        of("load far outside", "(drop (i64.load offset=4294967295 (i32.const -1)))"),
        of("store outside", "(i64.store (i32.const -8) (i64.const 1))"),
        of("copy outside", "(memory.copy (i32.const 0) (i32.const 65530) (i32.const 100))"),
        of("fill outside", "(memory.fill (i32.const 65530) (i32.const 1) (i32.const 100))"),
        reading(
            "call of an empty table entry",
            module(
                "(table 2 funcref) (func (export \"run\") (result i32) (call_indirect (result i32) (i32.const 1)))",
            ),
            ClassFailed,
        ),
        reading(
            "call outside the table",
            module(
                "(table 2 funcref) (func (export \"run\") (result i32) (call_indirect (result i32) (i32.const 7)))",
            ),
            ClassFailed,
        ),
        reading(
            "call of a function of another type",
            module(
                "(table funcref (elem $other)) (func $other (param i64)) \
                (func (export \"run\") (result i32) (call_indirect (result i32) (i32.const 0)))",
            ),
            ClassFailed,
        ),
        reading(
            "data segment outside",
            module(
                "(data (i32.const 65530) \"0123456789\") (func (export \"run\") (result i32) i32.const 0)",
            ),
            ClassFailed,
        ),
        reading(
            "blocks with several results",
            method("(block (result i32 i32) i32.const 1 i32.const 2) drop drop"),
            InvalidArgument,
        ),
        reading(
            "deeply nested blocks",
            method(&format!("{}{}", "block ".repeat(10_001), "end ".repeat(10_001))),
            InvalidArgument,
        ),
        reading(
            "start function that traps",
            module(
                "(func $start unreachable) (start $start) (func (export \"run\") (result i32) i32.const 0)",
            ),
            InvalidArgument,
        ),
        writing(
            "trap after changes",
            method(
                "(drop (call $write_full (i32.const 0) (i32.const 9))) (drop (call $omap_clear)) unreachable",
            ),
            ClassFailed,
        ),
    ]
}

fn endless() -> Vec<Case> {
    let of = |name, body: &str| reading(name, method(&forever(body)), LimitExceeded);
    vec![
        of("endless loop", ""),
        of("endless loop of stat", "(drop (call $stat))"),
        of("endless loop of read", "(drop (call $read (i64.const 0) (i64.const 4096)))"),
        of("endless loop of log", "(call $log (i32.const 2) (i32.const 0) (i32.const 60000))"),
        of("endless loop of fail", "(call $fail (i32.const 0) (i32.const 60000))"),
        of(
            "endless loop of omap_range",
            "(drop (call $omap_range (i32.const -1) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 1000)))",
        ),
        of("endless loop of list_xattrs", "(drop (call $list_xattrs))"),
        of("endless loop of fills", "(memory.fill (i32.const 0) (i32.const 1) (i32.const 65536))"),
        of("endless loop of copies", "(memory.copy (i32.const 1) (i32.const 0) (i32.const 65535))"),
        of("endless loop of memory.grow", "(drop (memory.grow (i32.const 0)))"),
        of("endless loop of memory.grow that succeeds and fails", "(drop (memory.grow (i32.const 1)))"),
        of("endless loop of memory.grow beyond any limit", "(drop (memory.grow (i32.const -1)))"),
        reading(
            "endless loop of large fills",
            module(&format!(
                "(memory (export \"memory\") 200) (func (export \"run\") (result i32) {} i32.const 0)",
                forever("(memory.fill (i32.const 0) (i32.const 1) (i32.const 13107200))")
            )),
            LimitExceeded,
        ),
        writing(
            "endless loop of writes",
            method(&forever("(drop (call $write (i64.const 0) (i32.const 0) (i32.const 65536)))")),
            LimitExceeded,
        ),
        writing(
            "endless loop of appends",
            method(&forever("(drop (call $append (i32.const 0) (i32.const 10)))")),
            LimitExceeded,
        ),
        writing(
            "too many changes",
            method(
                "(local $n i32) (loop $again (local.set $n (i32.add (local.get $n) (i32.const 1))) \
                (br_if $again (i64.ge_s (call $append (i32.const 0) (i32.const 0)) (i64.const 0)))) \
                (if (i32.ne (local.get $n) (i32.const 16385)) (then unreachable)) i32.const 27 return",
            ),
            LimitExceeded,
        ),
        writing(
            "endless loop of set_xattr",
            method(&forever(
                "(i32.store8 (i32.const 0) (i32.const 97)) (drop (call $set_xattr (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 60000)))",
            )),
            LimitExceeded,
        ),
        reading(
            "endless output",
            method(&forever("(drop (call $output (i32.const 0) (i32.const 65536)))")),
            LimitExceeded,
        ),
        reading(
            "start function that loops",
            module(&format!(
                "(func $start {}) (start $start) (func (export \"run\") (result i32) i32.const 0)",
                forever("")
            )),
            InvalidArgument,
        ),
        reading(
            "endless recursion",
            module("(func $again (export \"run\") (result i32) (call $again))"),
            ClassFailed,
        ),
        reading(
            "endless recursion of two functions with many locals",
            module(&format!(
                "(func $one (param {0}) (result i32) (call $two {1})) \
                (func $two (param {0}) (result i32) (call $one {1})) \
                (func (export \"run\") (result i32) (call $one {1}))",
                "i64 ".repeat(30),
                "(i64.const 1)".repeat(30)
            )),
            ClassFailed,
        ),
    ]
}

fn memory() -> Vec<Case> {
    let with_memory = |pages: u32, body: &str| {
        module(&format!(
            "(memory (export \"memory\") {pages}) (func (export \"run\") (result i32) {body} i32.const 0)"
        ))
    };
    vec![
        reading(
            "grows to the limit, and no further",
            method(
                "(loop $again (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) \
            (i32.store (i32.const 16777212) (i32.const 1)) \
            (if (i32.ne (memory.size) (i32.const 256)) (then unreachable))",
            ),
            None,
        ),
        reading(
            "grows too far at once",
            method("(if (i32.ne (memory.grow (i32.const 65535)) (i32.const -1)) (then unreachable))"),
            None,
        ),
        reading("memory over the limit", with_memory(257, ""), LimitExceeded),
        reading("the largest memory", with_memory(65536, ""), LimitExceeded),
        reading(
            "grows a table",
            module(
                "(table $t 1 funcref) (func (export \"run\") (result i32) \
                (if (i32.ne (table.grow $t (ref.null func) (i32.const 10000000)) (i32.const -1)) (then unreachable)) \
                i32.const 0)",
            ),
            InvalidArgument,
        ),
        reading(
            "a table of millions",
            module("(table 10000001 funcref) (func (export \"run\") (result i32) i32.const 0)"),
            InvalidArgument,
        ),
        reading(
            "large local frames",
            module(&format!(
                "(func (export \"run\") (result i32) (local {}) i32.const 0)",
                "i64 ".repeat(5_000)
            )),
            None,
        ),
        reading("deep blocks", method(&format!("{}{}", "(block ".repeat(3_000), ")".repeat(3_000))), None),
        reading(
            "a large jump table",
            method(&format!("(block (br_table {} (i32.const 3)))", "0 ".repeat(20_000))),
            None,
        ),
        reading(
            "a long function",
            method(&"(drop (i32.add (i32.load (i32.const 0)) (i32.const 1)))".repeat(8_000)),
            None,
        ),
        reading(
            "two tables",
            module("(table 1 funcref) (table 1 funcref) (func (export \"run\") (result i32) i32.const 0)"),
            InvalidArgument,
        ),
        reading(
            "2,000 exports",
            module(&format!(
                "(func $run (export \"run\") (result i32) i32.const 0) {}",
                (0..2_000).map(|number| format!("(export \"{number}\" (func $run))")).collect::<String>()
            )),
            InvalidArgument,
        ),
        reading(
            "100,000 locals",
            module(&format!(
                "(func (export \"run\") (result i32) (local {}) i32.const 0)",
                "i64 ".repeat(40_000)
            )),
            InvalidArgument,
        ),
        reading(
            "100,000 functions",
            module(&format!("{} (func (export \"run\") (result i32) i32.const 0)", "(func)".repeat(100_000))),
            InvalidArgument,
        ),
        reading(
            "200,000 data segments",
            module(&format!(
                "{} (func (export \"run\") (result i32) i32.const 0)",
                "(data (i32.const 0) \"x\")".repeat(200_000)
            )),
            InvalidArgument,
        ),
        reading(
            "a module over the size limit",
            module(&format!(
                "(memory (export \"memory\") 200) (data (i32.const 0) \"{}\") (func (export \"run\") (result i32) i32.const 0)",
                "x".repeat(MODULE_BYTES_MAX)
            )),
            LimitExceeded,
        ),
    ]
}

fn invalid() -> Vec<Case> {
    let raw = |name, wasm: &[u8]| Case {
        name,
        wasm: wasm.to_vec(),
        writes: false,
        expected: Some(InvalidArgument),
    };
    let of = |name, wasm: Vec<u8>| reading(name, wasm, InvalidArgument);
    let text = |name, text: &str| of(name, wat::parse_str(text).unwrap());
    let run = "(func (export \"run\") (result i32) i32.const 0)";
    let good = method("");
    let described = |name, manifest: &str| raw(name, &with_manifest(&method(""), manifest.as_bytes()));
    let entry = r#"{"method":"run","reads":true}"#;
    vec![
        raw("a text", b"this is not a module, but somebody's shopping list"),
        raw("a program for Linux", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"),
        raw("a component", b"\0asm\x0d\0\x01\0"),
        raw("a header alone", b"\0asm\x01\0\0\0"),
        of(
            "too many instructions with those that make NaNs canonical",
            module(&format!("(func (result f64) f64.const 2 {}) {run}", "f64.sqrt ".repeat(400_000))),
        ),
        raw("a cut module", &good[..good.len() / 2]),
        raw("no manifest", &good),
        described("a manifest that is no JSON", "run"),
        described(
            "a manifest with unknown fields",
            &format!(r#"{{"class":"c","version":1,"root":true,"methods":[{entry}]}}"#),
        ),
        described("a manifest without methods", r#"{"class":"c","version":1,"methods":[]}"#),
        described(
            "a manifest with a method twice",
            &format!(r#"{{"class":"c","version":1,"methods":[{entry},{entry}]}}"#),
        ),
        described("a manifest without flags", r#"{"class":"c","version":1,"methods":[{"method":"run"}]}"#),
        described(
            "a manifest with a path as the name",
            &format!(r#"{{"class":"../c","version":1,"methods":[{entry}]}}"#),
        ),
        described(
            "a manifest with a method that is not exported",
            r#"{"class":"c","version":1,"methods":[{"method":"stop","reads":true}]}"#,
        ),
        described(
            "a manifest of a megabyte",
            &format!(
                r#"{{"class":"c","version":1,"summary":"{}","methods":[{entry}]}}"#,
                "x".repeat(1 << 20)
            ),
        ),
        text(
            "a method that takes parameters",
            "(module (memory (export \"memory\") 1) (func (export \"run\") (param i32) (result i32) i32.const 0))",
        ),
        text("a method that is a memory", "(module (memory (export \"memory\") (export \"run\") 1))"),
        text("no memory", &format!("(module {run})")),
        text(
            "an import from elsewhere",
            &format!(
                "(module (import \"env\" \"print\" (func (param i32))) (memory (export \"memory\") 1) {run})"
            ),
        ),
        text(
            "an import of an unknown function",
            &format!("(module (import \"benthic_1\" \"fork\" (func)) (memory (export \"memory\") 1) {run})"),
        ),
        text(
            "an import of another type",
            &format!(
                "(module (import \"benthic_1\" \"stat\" (func (param i32))) (memory (export \"memory\") 1) {run})"
            ),
        ),
        text(
            "an imported memory",
            &format!(
                "(module (import \"benthic_1\" \"memory\" (memory 1)) (export \"memory\" (memory 0)) {run})"
            ),
        ),
        text(
            "vector instructions",
            &format!("(module (memory (export \"memory\") 1) (func (drop (v128.const i64x2 1 2))) {run})"),
        ),
        text("a shared memory", &format!("(module (memory (export \"memory\") 1 2 shared) {run})")),
        text("a memory with 64-bit addresses", &format!("(module (memory (export \"memory\") i64 1) {run})")),
        text("two memories", &format!("(module (memory (export \"memory\") 1) (memory 1) {run})")),
        text(
            "tail calls",
            &format!("(module (memory (export \"memory\") 1) (func $f (return_call $f)) {run})"),
        ),
        text(
            "exceptions",
            &format!("(module (memory (export \"memory\") 1) (tag $t) (func (throw $t)) {run})"),
        ),
        text(
            "garbage collection",
            &format!("(module (memory (export \"memory\") 1) (type $s (struct (field i32))) {run})"),
        ),
    ]
}

fn misuse() -> Vec<Case> {
    let outside = |name, body: &str| reading(name, method(body), ClassFailed);
    let refused = |name, call: &str, expected: ErrorKind| writing(name, method(&errno_of(call)), expected);
    vec![
        outside(
            "takes more than the result",
            "(drop (call $stat)) (call $take (i32.const 0) (i32.const 0) (i32.const 17))",
        ),
        outside(
            "takes from after the result",
            "(drop (call $stat)) (call $take (i32.const 0) (i32.const -1) (i32.const 1))",
        ),
        outside(
            "takes to outside",
            "(drop (call $stat)) (call $take (i32.const -1) (i32.const 0) (i32.const 16))",
        ),
        outside("outputs from outside", "(drop (call $output (i32.const 1) (i32.const 65536)))"),
        outside("logs from outside", "(call $log (i32.const 0) (i32.const -2) (i32.const -2))"),
        outside("a name outside", "(drop (call $get_xattr (i32.const 70000) (i32.const 1)))"),
        writing(
            "writes from outside",
            method("(drop (call $write (i64.const 0) (i32.const 65536) (i32.const 1)))"),
            ClassFailed,
        ),
        reading(
            "writes without permission",
            method("(drop (call $write_full (i32.const 0) (i32.const 1)))"),
            ClassFailed,
        ),
        reading("removes without permission", method(&errno_of("(call $remove)")), ClassFailed),
        Case {
            name: "reads without permission",
            wasm: with_manifest(
                &method(&errno_of("(call $read (i64.const 0) (i64.const 1))")),
                manifest(false, true).as_bytes(),
            ),
            writes: true,
            expected: Some(ClassFailed),
        },
        refused(
            "reads after a write",
            "(drop (call $write_full (i32.const 0) (i32.const 1))) (call $read (i64.const 0) (i64.const 9))",
            ClassFailed,
        ),
        refused("a read that is too large", "(call $read (i64.const 0) (i64.const -1))", LimitExceeded),
        refused(
            "a write far behind the end",
            "(call $write (i64.const -1) (i32.const 0) (i32.const 1))",
            LimitExceeded,
        ),
        refused("an object that is too large", "(call $truncate (i64.const 1099511627776))", LimitExceeded),
        refused(
            "an empty attribute name",
            "(call $set_xattr (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))",
            InvalidArgument,
        ),
        refused(
            "an attribute name that is not text",
            "(i32.store8 (i32.const 0) (i32.const 255)) (call $get_xattr (i32.const 0) (i32.const 1))",
            InvalidArgument,
        ),
        refused(
            "an attribute that is missing",
            "(i32.store8 (i32.const 0) (i32.const 120)) (call $get_xattr (i32.const 0) (i32.const 1))",
            NotFound,
        ),
        refused(
            "too many keys",
            "(drop (memory.grow (i32.const 1))) (i32.store (i32.const 0) (i32.const 16385)) (call $omap_remove (i32.const 0) (i32.const 65544))",
            LimitExceeded,
        ),
        refused(
            "keys that are malformed",
            "(i32.store (i32.const 0) (i32.const 9)) (call $omap_get (i32.const 0) (i32.const 8))",
            InvalidArgument,
        ),
        refused(
            "entries that are malformed",
            "(i32.store (i32.const 0) (i32.const 1)) (call $omap_set (i32.const 0) (i32.const 9))",
            InvalidArgument,
        ),
        refused(
            "too much memory for changes",
            "(drop (memory.grow (i32.const 200))) (drop (call $write (i64.const 0) (i32.const 0) (i32.const 13000000))) \
            (loop $again (br_if $again (i64.ge_s (call $append (i32.const 0) (i32.const 13000000)) (i64.const 0)))) (call $append (i32.const 0) (i32.const 13000000))",
            LimitExceeded,
        ),
    ]
}

fn answers() -> Vec<Case> {
    let returns = |name, number: i32, expected: ErrorKind| {
        reading(name, method(&format!("i32.const {number} return")), expected)
    };
    vec![
        returns("returns a number that is no errno", 100_000, ClassFailed),
        returns("returns a negative number", -1, ErrorKind::PermissionDenied),
        returns("returns the smallest number", i32::MIN, ClassFailed),
        returns("returns EAGAIN", 11, Busy),
        returns("returns EINPROGRESS", 115, ClassFailed),
        returns("returns ETIMEDOUT", 110, OutcomeUnknown),
        reading(
            "a message that is not text",
            method(
                "(i32.store (i32.const 0) (i32.const -1)) (call $fail (i32.const 0) (i32.const 60000)) i32.const 22 return",
            ),
            InvalidArgument,
        ),
        writing(
            "a failure after changes",
            method(
                "(drop (call $write_full (i32.const 0) (i32.const 9))) (drop (call $remove)) i32.const 28 return",
            ),
            LimitExceeded,
        ),
    ]
}
