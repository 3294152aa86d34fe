//! Limits of a module's structure that the interpreter does not have.

use benthic_core::{Error, ErrorKind, Result};
use wasmparser::{BinaryReaderError, ElementItems, Operator, Parser, Payload};

const TYPES_MAX: u32 = 10_000;
const EXPORTS_MAX: u32 = 1_000;
const TABLES_MAX: u32 = 1;
const ELEMENTS_MAX: u64 = 100_000;
/// A call sets all locals to zero, and costs fuel as if it did not.
const LOCALS_MAX: u64 = 5_000;

/// Checks the numbers of types, exports, tables, their entries and locals. `table.grow` is refused:
/// wasmi 2.0.0 does not resume it correctly when fuel runs out.
///
/// # Errors
/// `InvalidArgument`.
pub fn check(wasm: &[u8]) -> Result<()> {
    match find_excess(wasm) {
        Ok(None) => Ok(()),
        Ok(Some(message)) => Err(Error::new(ErrorKind::InvalidArgument, message)),
        Err(error) => {
            let message = format!("this is not a valid module: {error}");
            Err(Error::new(ErrorKind::InvalidArgument, message))
        }
    }
}

fn find_excess(wasm: &[u8]) -> Result<Option<&'static str>, BinaryReaderError> {
    let mut elements = 0;
    for payload in Parser::new(0).parse_all(wasm) {
        match payload? {
            Payload::TypeSection(types) if types.count() > TYPES_MAX => {
                return Ok(Some("the module has too many types"));
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
            }
            Payload::CodeSectionEntry(function) => {
                let mut locals = 0;
                for group in function.get_locals_reader()? {
                    locals += u64::from(group?.0);
                }
                if locals > LOCALS_MAX {
                    return Ok(Some("a function of the module has too many locals"));
                }
                for operator in function.get_operators_reader()? {
                    if let Operator::TableGrow { .. } = operator? {
                        return Ok(Some("the module uses table.grow, which is not allowed"));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(None)
}
