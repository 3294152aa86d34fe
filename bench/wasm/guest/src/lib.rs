//! The measured work as a WebAssembly module.

#[path = "../../../../crates/benthic-wasm/guest/benthic.rs"]
mod benthic;
#[path = "../../kernels.rs"]
mod kernels;

use benthic::{Object, Result};
use std::hint::black_box;

export!(empty, md5, keep_md5, lines, json, scale, filter, spin, recurse, hoard);

fn empty(_: &mut Object, _: &[u8]) -> Result<Vec<u8>> {
    Ok(kernels::empty(&[]))
}

fn run(object: &mut Object, kernel: fn(&[u8]) -> Vec<u8>) -> Result<Vec<u8>> {
    Ok(kernel(&object.read(0, object.stat()?.size_bytes)?))
}

fn md5(object: &mut Object, _: &[u8]) -> Result<Vec<u8>> {
    run(object, kernels::md5)
}

/// Repeats: stat, read of all, MD5, set attribute. The input is the number of repetitions.
fn keep_md5(object: &mut Object, input: &[u8]) -> Result<Vec<u8>> {
    let count = std::str::from_utf8(input).ok().and_then(|text| text.parse().ok());
    for _ in 0..count.unwrap_or(1_u32) {
        let digest = run(object, kernels::md5)?;
        let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        object.set_xattr("wasm.md5", text.as_bytes())?;
    }
    Ok(Vec::new())
}

fn lines(object: &mut Object, _: &[u8]) -> Result<Vec<u8>> {
    run(object, kernels::lines)
}

fn json(object: &mut Object, _: &[u8]) -> Result<Vec<u8>> {
    run(object, kernels::json)
}

fn scale(object: &mut Object, _: &[u8]) -> Result<Vec<u8>> {
    run(object, kernels::scale)
}

fn filter(object: &mut Object, _: &[u8]) -> Result<Vec<u8>> {
    run(object, kernels::filter)
}

/// Runs until the fuel ends.
fn spin(_: &mut Object, _: &[u8]) -> Result<Vec<u8>> {
    let mut number = 1_u64;
    while black_box(number) != 0 {
        number = number.wrapping_mul(3) | 1;
    }
    Ok(Vec::new())
}

/// Recurses until the stack ends.
fn recurse(_: &mut Object, input: &[u8]) -> Result<Vec<u8>> {
    fn deeper(number: u64) -> u64 {
        let number = black_box(number);
        if number == u64::MAX { number } else { 1 + deeper(number + 1) * 3 }
    }
    Ok(deeper(input.len() as u64).to_le_bytes().into())
}

/// Fills memory until its limit.
fn hoard(_: &mut Object, _: &[u8]) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        all.push(black_box(vec![1_u8; 64 << 10]));
    }
}
