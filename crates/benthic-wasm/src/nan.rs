//! Makes NaNs canonical, as the compiler does. Otherwise the bits of a NaN depend on the processor.
//!
//! Code is added after each arithmetic instruction. It compares the result with itself, and
//! replaces a NaN. For a number, the interpreter runs one more instruction.

use crate::put_leb128 as put;
use std::borrow::Cow;
use wasmparser::{BinaryReaderError, FunctionBody, Operator, Parser, Payload};

/// The section that [`canonicalize`] changes, by its id.
const CODE: u8 = 10;

/// The instructions that are added for each arithmetic instruction.
pub const ADDED: u64 = 9;

/// A type of floating-point numbers.
#[derive(Clone, Copy)]
enum Float {
    F32,
    F64,
}

/// The module with canonical NaNs. A module without floating-point arithmetic stays as it is.
///
/// # Errors
/// Those of the parser. If the module is not valid, the result is not valid either.
pub fn canonicalize(wasm: &[u8]) -> Result<Cow<'_, [u8]>, BinaryReaderError> {
    let (mut sections, mut bodies) = (Vec::new(), Vec::new());
    let (mut params_of_types, mut type_of) = (Vec::new(), Vec::<u32>::new());
    let mut has_floats = false;
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload?;
        sections.extend(payload.as_section());
        match payload {
            Payload::TypeSection(section) => {
                for function in section.into_iter_err_on_gc_types() {
                    params_of_types.push(function?.params().len());
                }
            }
            Payload::FunctionSection(section) => type_of = section.into_iter().collect::<Result<_, _>>()?,
            Payload::CodeSectionEntry(body) => {
                let params = type_of.get(bodies.len()).and_then(|index| params_of_types.get(*index as usize));
                let rewritten = rewrite(wasm, &body, params.copied().unwrap_or_default())?;
                has_floats |= rewritten.is_some();
                bodies.push(rewritten.map_or(Cow::Borrowed(&wasm[body.range()]), Cow::Owned));
            }
            _ => {}
        }
    }
    if !has_floats {
        return Ok(Cow::Borrowed(wasm));
    }
    let mut code = Vec::new();
    put(&mut code, bodies.len());
    for body in bodies {
        put(&mut code, body.len());
        code.extend_from_slice(&body);
    }
    let mut rewritten = wasm[..8].to_vec();
    for (id, range) in sections {
        let content = if id == CODE { &code } else { &wasm[range] };
        rewritten.push(id);
        put(&mut rewritten, content.len());
        rewritten.extend_from_slice(content);
    }
    Ok(Cow::Owned(rewritten))
}

/// The function with canonical NaNs, or `None` if it has no floating-point arithmetic.
fn rewrite(
    wasm: &[u8],
    body: &FunctionBody<'_>,
    params: usize,
) -> Result<Option<Vec<u8>>, BinaryReaderError> {
    let mut operators = body.get_operators_reader()?;
    let (mut code, mut copied) = (Vec::new(), operators.original_position());
    let (locals, locals_end) = (body.get_locals_reader()?, copied);
    let (groups, groups_start) = (locals.get_count() as usize, locals.original_position());
    let mut next_local = params;
    for group in locals {
        next_local += group?.0 as usize;
    }
    while !operators.eof() {
        let operator = operators.read()?;
        if let Some(float) = result(&operator) {
            let end = operators.original_position();
            code.extend_from_slice(&wasm[copied..end]);
            put_canonical(&mut code, float, next_local);
            copied = end;
        }
    }
    if code.is_empty() {
        return Ok(None);
    }
    code.extend_from_slice(&wasm[copied..body.range().end]);
    // Two more locals, one of each type.
    let mut rewritten = Vec::with_capacity(code.len() + 64);
    put(&mut rewritten, groups + 2);
    rewritten.extend_from_slice(&wasm[groups_start..locals_end]);
    rewritten.extend_from_slice(&[1, 0x7d, 1, 0x7c]);
    rewritten.extend_from_slice(&code);
    Ok(Some(rewritten))
}

/// Appends code that replaces a NaN. `next_local` is a local for 32 bits, and the one after it for
/// 64 bits.
fn put_canonical(code: &mut Vec<u8>, float: Float, next_local: usize) {
    const GET: u8 = 0x20;
    const SET: u8 = 0x21;
    let (local, differs) = match float {
        Float::F32 => (next_local, 0x5c),
        Float::F64 => (next_local + 1, 0x62),
    };
    let with_local = |code: &mut Vec<u8>, instruction: u8| {
        code.push(instruction);
        put(code, local);
    };
    with_local(code, SET);
    with_local(code, GET);
    with_local(code, GET);
    // `if` without a result
    code.extend_from_slice(&[differs, 0x04, 0x40]);
    match float {
        Float::F32 => {
            code.push(0x43);
            code.extend_from_slice(&0x7fc0_0000_u32.to_le_bytes());
        }
        Float::F64 => {
            code.push(0x44);
            code.extend_from_slice(&0x7ff8_0000_0000_0000_u64.to_le_bytes());
        }
    }
    with_local(code, SET);
    // `end`
    code.push(0x0b);
    with_local(code, GET);
}

/// Whether an instruction is floating-point arithmetic.
pub fn is_arithmetic(operator: &Operator<'_>) -> bool {
    result(operator).is_some()
}

/// The type of the result of an instruction that can make a NaN.
fn result(operator: &Operator<'_>) -> Option<Float> {
    match operator {
        Operator::F32Ceil
        | Operator::F32Floor
        | Operator::F32Trunc
        | Operator::F32Nearest
        | Operator::F32Sqrt
        | Operator::F32Add
        | Operator::F32Sub
        | Operator::F32Mul
        | Operator::F32Div
        | Operator::F32Min
        | Operator::F32Max
        | Operator::F32DemoteF64 => Some(Float::F32),
        Operator::F64Ceil
        | Operator::F64Floor
        | Operator::F64Trunc
        | Operator::F64Nearest
        | Operator::F64Sqrt
        | Operator::F64Add
        | Operator::F64Sub
        | Operator::F64Mul
        | Operator::F64Div
        | Operator::F64Min
        | Operator::F64Max
        | Operator::F64PromoteF32 => Some(Float::F64),
        _ => None,
    }
}
