//! The measured work as a native class, `kernels`.

use benthic_core::{Class, ClassRegistry, Method, MethodContext, MethodFlags, MethodResult, Result};

#[allow(dead_code)]
#[path = "../../kernels.rs"]
mod kernels;

struct Kernels;

fn run(context: &mut MethodContext<'_>, kernel: fn(&[u8]) -> Vec<u8>) -> Result<Vec<u8>> {
    let size_bytes = context.stat()?.size_bytes;
    Ok(kernel(&context.read(0, size_bytes)?))
}

const fn method(name: &'static str, run: fn(&mut MethodContext<'_>, &[u8]) -> Result<Vec<u8>>) -> Method {
    let (result, flags) = (MethodResult::Output, MethodFlags::READ);
    Method { name, flags, run, result, summary: "", input: "", output: "", examples: &[] }
}

impl Class for Kernels {
    fn name(&self) -> &'static str {
        "kernels"
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "the measured work"
    }

    fn methods(&self) -> &'static [Method] {
        METHODS
    }
}

const METHODS: &[Method] = &[
    method("empty", |_, _| Ok(Vec::new())),
    method("md5", |context, _| run(context, kernels::md5)),
    method("lines", |context, _| run(context, kernels::lines)),
    method("json", |context, _| run(context, kernels::json)),
    method("scale", |context, _| run(context, kernels::scale)),
    method("filter", |context, _| run(context, kernels::filter)),
];

benthic_cls::export!("kernels_1", ClassRegistry::new().with(Kernels));
