//! A WebAssembly class for the tests of SQL.

use benthic_core::{Pool, SystemClock};
use benthic_wasm::deployed::{self, Actor};
use benthic_wasm::{Limits, with_manifest};
use bytes::Bytes;

const METHODS: &str = r#"
    (import "benthic_1" "input" (func $input (result i64)))
    (import "benthic_1" "take" (func $take (param i32 i32 i32)))
    (import "benthic_1" "output" (func $output (param i32 i32) (result i64)))
    (import "benthic_1" "stat" (func $stat (result i64)))
    (import "benthic_1" "create" (func $create (param i32) (result i64)))
    (memory (export "memory") 2)
    (func (export "upper") (result i32)
        (local $len i32) (local $at i32) (local $byte i32)
        (local.set $len (i32.wrap_i64 (call $input)))
        (call $take (i32.const 0) (i32.const 0) (local.get $len))
        (block $done (loop $next
            (br_if $done (i32.ge_u (local.get $at) (local.get $len)))
            (local.set $byte (i32.load8_u (local.get $at)))
            (if (i32.and (i32.ge_u (local.get $byte) (i32.const 97)) (i32.le_u (local.get $byte) (i32.const 122)))
                (then (i32.store8 (local.get $at) (i32.sub (local.get $byte) (i32.const 32)))))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br $next)))
        (drop (call $output (i32.const 0) (local.get $len)))
        i32.const 0)
    (func (export "not_a_text") (result i32)
        (i32.store8 (i32.const 0) (i32.const 255))
        (drop (call $output (i32.const 0) (i32.const 1)))
        i32.const 0)
    (func (export "size") (result i32)
        (local $size i32)
        (call $take (i32.const 0) (i32.const 0) (i32.wrap_i64 (call $stat)))
        (local.set $size (i32.load (i32.const 0)))
        (i32.store8 (i32.const 0) (i32.add (i32.const 48) (i32.div_u (local.get $size) (i32.const 10))))
        (i32.store8 (i32.const 1) (i32.add (i32.const 48) (i32.rem_u (local.get $size) (i32.const 10))))
        (drop (call $output (i32.const 0) (i32.const 2)))
        i32.const 0)
    (func (export "traps") (result i32) unreachable)
    (func (export "traps_at_ten") (result i32)
        (call $take (i32.const 0) (i32.const 0) (i32.wrap_i64 (call $stat)))
        (if (i32.eq (i32.load (i32.const 0)) (i32.const 10)) (then unreachable))
        i32.const 0)
    (func (export "endless") (result i32) (loop $again br $again) i32.const 0)
    (func (export "hungry") (result i32)
        (loop $again (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
        unreachable)
    (func (export "reads") (result i32) (i32.sub (i32.const 0) (i32.wrap_i64 (call $stat))))
    (func (export "collects") (result i32) i32.const 0)
    (func (export "writes") (result i32) (drop (call $create (i32.const 0))) i32.const 0)
"#;

/// Deploys the class `texts`. Versions differ in their number only.
pub async fn deploy(pool: &dyn Pool, version: u32, limits: Limits) {
    let methods = ["upper", "size", "not_a_text", "traps", "traps_at_ten", "endless", "hungry", "reads"]
        .map(|name| format!(r#"{{"method":"{name}","reads":true}}"#))
        .join(",");
    let manifest = format!(
        r#"{{"class":"texts","version":{version},"methods":[{methods},{{"method":"writes","writes":true}},
            {{"method":"collects","reads":true,"objects":["schema"]}}]}}"#
    );
    let wasm = wat::parse_str(format!("(module {METHODS})")).unwrap();
    let wasm = Bytes::from(with_manifest(&wasm, manifest.as_bytes()));
    deployed::deploy(pool, wasm, limits, Actor { name: "test", clock: &SystemClock }).await.unwrap();
}
