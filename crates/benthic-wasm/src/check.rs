//! Limits of a module's structure.
//!
//! wasmi has a set of limits of its own, which can be used only as a whole. It does not allow more
//! than 1,000 data segments, and the smallest modules of Go have 23,000: Go's linker begins a new
//! segment after a few zeros. So the limits are here.

use crate::nan;
use benthic_core::{Error, Result};
use wasmparser::{
    BinaryReaderError, CompositeInnerType, ElementItems, Operator, Parser, Payload, TypeSectionReader,
};

const TYPES_MAX: u32 = 10_000;
const PARAMETERS_MAX: usize = 32;
const FUNCTIONS_MAX: u32 = 10_000;
/// From this size of the code on, functions must have this many bytes on average.
const CODE_BYTES_CHECKED_MIN: u32 = 1_000;
const FUNCTION_BYTES_MIN: u32 = 40;
const GLOBALS_MAX: u32 = 1_000;
const EXPORTS_MAX: u32 = 1_000;
const TABLES_MAX: u32 = 1;
const SEGMENTS_MAX: u32 = 1_000;
const ELEMENTS_MAX: u64 = 100_000;
const DATA_SEGMENTS_MAX: u32 = 100_000;
/// A call sets all locals to zero, and costs fuel as if it did not.
const LOCALS_MAX: u64 = 5_000;
/// The interpreter needs memory for each open block while it translates.
const NESTED_BLOCKS_MAX: u32 = 10_000;
/// The translation of an instruction takes memory, and a module has room for 8 million.
const INSTRUCTIONS_MAX: u64 = 4_000_000;
/// Fuel of a new instance for each data segment and each entry of a table, in addition to 1 for
/// each byte of data.
const SEGMENT_FUEL: u64 = 16;

/// The cost of a module.
#[derive(Clone, Copy, Default)]
pub struct Costs {
    /// The fuel of a new instance.
    pub instance_fuel: u64,
    /// The instructions, with those that [`nan`] adds.
    pub instructions: u64,
}

/// Checks the numbers of a module's parts, and returns the cost of the module. `table.grow` is
/// refused, because no compiler of a supported language uses it. A start section is refused,
/// because wasmi cannot interrupt it.
///
/// # Errors
/// `InvalidArgument`.
pub fn check(wasm: &[u8]) -> Result<Costs> {
    let mut costs = Costs::default();
    match find_excess(wasm, &mut costs) {
        Ok(None) => Ok(costs),
        Ok(Some(message)) => Err(Error::invalid_argument(message)),
        Err(error) => Err(Error::invalid_argument(format!("this is not a valid module: {error}"))),
    }
}

fn find_excess(wasm: &[u8], costs: &mut Costs) -> Result<Option<&'static str>, BinaryReaderError> {
    let mut elements = 0;
    for payload in Parser::new(0).parse_all(wasm) {
        match payload? {
            Payload::TypeSection(types) if types.count() > TYPES_MAX => {
                return Ok(Some("the module has too many types"));
            }
            Payload::TypeSection(types) if has_long_signature(types.clone())? => {
                return Ok(Some("a function type of the module has too many parameters or results"));
            }
            Payload::FunctionSection(functions) if functions.count() > FUNCTIONS_MAX => {
                return Ok(Some("the module has too many functions"));
            }
            Payload::CodeSectionStart { count, size, .. }
                if size >= CODE_BYTES_CHECKED_MIN && size / FUNCTION_BYTES_MIN < count =>
            {
                return Ok(Some("the module has too many functions for its size"));
            }
            Payload::GlobalSection(globals) if globals.count() > GLOBALS_MAX => {
                return Ok(Some("the module has too many globals"));
            }
            Payload::ElementSection(segments) if segments.count() > SEGMENTS_MAX => {
                return Ok(Some("the module has too many segments for its table"));
            }
            Payload::DataSection(segments) if segments.count() > DATA_SEGMENTS_MAX => {
                return Ok(Some("the module has too many data segments"));
            }
            Payload::DataSection(segments) => {
                for segment in segments {
                    costs.instance_fuel += SEGMENT_FUEL + segment?.data.len() as u64;
                }
            }
            Payload::StartSection { .. } => {
                return Ok(Some(
                    "the module has a start section; export the function as `_initialize` instead",
                ));
            }
            Payload::ExportSection(exports) if exports.count() > EXPORTS_MAX => {
                return Ok(Some("the module has too many exports"));
            }
            Payload::TableSection(tables) if tables.count() > TABLES_MAX => {
                return Ok(Some("the module has more than one table"));
            }
            Payload::ElementSection(segments) => {
                for segment in segments {
                    elements += match segment?.items {
                        ElementItems::Functions(items) => u64::from(items.count()),
                        ElementItems::Expressions(_, items) => u64::from(items.count()),
                    };
                }
                if elements > ELEMENTS_MAX {
                    return Ok(Some("the module has too many entries for its table"));
                }
                costs.instance_fuel += SEGMENT_FUEL * elements;
            }
            Payload::CodeSectionEntry(function) => {
                let mut locals = 0;
                for group in function.get_locals_reader()? {
                    locals += u64::from(group?.0);
                }
                if locals > LOCALS_MAX {
                    return Ok(Some("a function of the module has too many locals"));
                }
                let mut blocks = 0;
                for operator in function.get_operators_reader()? {
                    let operator = operator?;
                    costs.instructions += if nan::is_arithmetic(&operator) { 1 + nan::ADDED } else { 1 };
                    match operator {
                        Operator::TableGrow { .. } => {
                            return Ok(Some("the module uses table.grow, which is not allowed"));
                        }
                        Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => {
                            blocks += 1;
                            if blocks > NESTED_BLOCKS_MAX {
                                return Ok(Some("a function of the module has too many nested blocks"));
                            }
                        }
                        // The last one ends the function.
                        Operator::End => blocks = blocks.saturating_sub(1),
                        _ => {}
                    }
                }
                if costs.instructions > INSTRUCTIONS_MAX {
                    return Ok(Some("the module has too many instructions"));
                }
            }
            _ => {}
        }
    }
    Ok(None)
}

fn has_long_signature(types: TypeSectionReader<'_>) -> Result<bool, BinaryReaderError> {
    for group in types {
        for type_ in group?.types() {
            if let CompositeInnerType::Func(function) = &type_.composite_type.inner
                && function.params().len().max(function.results().len()) > PARAMETERS_MAX
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
