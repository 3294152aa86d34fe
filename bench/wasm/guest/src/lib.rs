//! The measured work as a WebAssembly module.

#[path = "../../../../crates/benthic-wasm/guest/benthic.rs"]
mod benthic;
#[path = "../../kernels.rs"]
mod kernels;

use benthic::{Object, Result};

export!(empty, md5, lines, json, scale, filter);

fn empty(_: &mut Object, _: &[u8]) -> Result<Vec<u8>> {
    Ok(kernels::empty(&[]))
}

fn run(object: &mut Object, kernel: fn(&[u8]) -> Vec<u8>) -> Result<Vec<u8>> {
    Ok(kernel(&object.read(0, object.stat()?.size_bytes)?))
}

fn md5(object: &mut Object, _: &[u8]) -> Result<Vec<u8>> {
    run(object, kernels::md5)
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
