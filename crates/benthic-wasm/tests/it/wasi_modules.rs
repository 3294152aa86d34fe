//! Modules that import the subset of WASI.

use super::{Case, forever, reading};
use benthic_core::ErrorKind::{ClassFailed, InvalidArgument, LimitExceeded};

pub fn all() -> Vec<Case> {
    let with = |fields: &str| {
        let imports = [
            ("fd_write", "(param i32 i32 i32 i32) (result i32)"),
            ("fd_close", "(param i32) (result i32)"),
            ("random_get", "(param i32 i32) (result i32)"),
            ("clock_time_get", "(param i32 i64 i32) (result i32)"),
            ("poll_oneoff", "(param i32 i32 i32 i32) (result i32)"),
            ("environ_sizes_get", "(param i32 i32) (result i32)"),
            ("proc_exit", "(param i32)"),
        ];
        let imports: String = imports
            .iter()
            .map(|(name, types)| {
                format!("(import \"wasi_snapshot_preview1\" \"{name}\" (func ${name} {types}))")
            })
            .collect();
        wat::parse_str(format!("(module {imports} (memory (export \"memory\") 1) {fields})")).unwrap()
    };
    let method = |body: &str| with(&format!("(func (export \"run\") (result i32) {body} i32.const 0)"));
    let traps = |name, body: &str| reading(name, method(body), ClassFailed);
    // The function must return this error number.
    let answers = |name, call: &str, number: u32| {
        reading(name, method(&format!("(if (i32.ne {call} (i32.const {number})) (then unreachable))")), None)
    };
    let random = "(drop (call $random_get (i32.const 0) (i32.const 65536)))";
    let run = "(func (export \"run\") (result i32) i32.const 0)";
    vec![
        traps(
            "writes from parts outside",
            "(drop (call $fd_write (i32.const 1) (i32.const -8) (i32.const 2) (i32.const 0)))",
        ),
        traps(
            "writes from a part that ends outside",
            "(i32.store (i32.const 0) (i32.const 65530)) (i32.store (i32.const 4) (i32.const 7)) \
            (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 100)))",
        ),
        traps(
            "stores the length of a write outside",
            "(drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 65533)))",
        ),
        traps("4 GiB of random bytes", "(drop (call $random_get (i32.const 1) (i32.const -1)))"),
        traps(
            "a clock outside",
            "(drop (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 65529)))",
        ),
        traps("an environment outside", "(drop (call $environ_sizes_get (i32.const 0) (i32.const -1)))"),
        traps(
            "polls outside",
            "(drop (call $poll_oneoff (i32.const 65000) (i32.const 0) (i32.const 12) (i32.const 0)))",
        ),
        traps("exits", "(call $proc_exit (i32.const 0))"),
        reading("random bytes in a straight line", method(&random.repeat(1_000)), LimitExceeded),
        reading(
            "random bytes while a recursion returns",
            with(&format!(
                "(func $deep (param i32) (if (local.get 0) (then (call $deep (i32.sub (local.get 0) (i32.const 1))))) {}) \
                (func (export \"run\") (result i32) (call $deep (i32.const 100)) i32.const 0)",
                random.repeat(10)
            )),
            LimitExceeded,
        ),
        answers(
            "a write of millions of parts",
            "(call $fd_write (i32.const 1) (i32.const 0) (i32.const 1025) (i32.const 100))",
            28,
        ),
        answers(
            "a poll of millions of events",
            "(call $poll_oneoff (i32.const 0) (i32.const 0) (i32.const -1) (i32.const 0))",
            28,
        ),
        answers(
            "a write to a file",
            "(call $fd_write (i32.const 3) (i32.const 0) (i32.const 1) (i32.const 100))",
            8,
        ),
        answers("closes standard output", "(call $fd_close (i32.const 1))", 8),
        reading(
            "a write of 1,024 overlapping parts is cut short",
            method(
                "(local $at i32) (loop $again (i32.store offset=4 (local.get $at) (i32.const 65536)) \
                (br_if $again (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 8))) (i32.const 8192)))) \
                (drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1024) (i32.const 9000))) \
                (if (i32.ne (i32.load (i32.const 9000)) (i32.const 65536)) (then unreachable))",
            ),
            None,
        ),
        reading(
            "a flood of lines",
            method(&format!(
                "(memory.fill (i32.const 16) (i32.const 10) (i32.const 60000)) (i32.store (i32.const 0) (i32.const 16)) \
                (i32.store (i32.const 4) (i32.const 60000)) {}",
                forever("(drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))")
            )),
            LimitExceeded,
        ),
        reading(
            "waits for the clock",
            method(&forever("(drop (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 0)))")),
            LimitExceeded,
        ),
        reading(
            "a sleep of centuries",
            method(
                "(i64.store (i32.const 24) (i64.const -1)) \
                (if (call $poll_oneoff (i32.const 0) (i32.const 100) (i32.const 1) (i32.const 200)) (then unreachable)) \
                (if (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 0)) (then unreachable)) \
                (if (i64.ne (i64.load (i32.const 0)) (i64.const -1)) (then unreachable))",
            ),
            None,
        ),
        reading(
            "the same random bytes in each call",
            method(
                "(drop (call $random_get (i32.const 0) (i32.const 8))) \
                (if (i64.ne (i64.load (i32.const 0)) (i64.const 0xe220a8397b1dcdaf)) (then unreachable))",
            ),
            None,
        ),
        reading(
            "an initialization before the method",
            with(
                "(global $ready (mut i32) (i32.const 5)) \
                (func (export \"_initialize\") (global.set $ready (i32.sub (global.get $ready) (i32.const 5)))) \
                (func (export \"run\") (result i32) (global.get $ready))",
            ),
            None,
        ),
        reading(
            "an initialization that loops",
            with(&format!("(func (export \"_initialize\") {}) {run}", forever(""))),
            LimitExceeded,
        ),
        reading(
            "an initialization that exits",
            with(&format!("(func (export \"_initialize\") (call $proc_exit (i32.const 3))) {run}")),
            ClassFailed,
        ),
        reading(
            "an initialization with a result",
            with(&format!("(func (export \"_initialize\") (result i32) i32.const 0) {run}")),
            InvalidArgument,
        ),
        reading(
            "an unknown function of WASI",
            wat::parse_str(format!(
                "(module (import \"wasi_snapshot_preview1\" \"proc_raise\" (func (param i32) (result i32))) \
                (memory (export \"memory\") 1) {run})"
            ))
            .unwrap(),
            InvalidArgument,
        ),
    ]
}
