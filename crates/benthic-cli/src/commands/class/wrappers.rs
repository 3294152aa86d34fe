//! Puts a wrapper before each function of a module, for [`profile`](super::profile).
//!
//! A wrapper tells the host the function's index, calls the function, and tells the host that it
//! returned. Each wrapper takes the index of its function, and the functions follow after the
//! wrappers, so the code, exports and tables of the module stay as they are. The wrappers call the
//! host through a table of their own: an import would change all indices.

use benthic_wasm::put_leb128 as put;
use std::ops::Range;
use wasmparser::{BinaryReader, BinaryReaderError, FuncType, Parser, Payload, TypeRef};

/// The export with the table whose only entry the host sets: a function that takes an event.
pub const TABLE: &str = "benthic profile: table";
/// The export with the function that the module would run at its start.
pub const START: &str = "benthic profile: start";
/// The event of a function that returned; other events are the index of a function that begins.
const RETURNED: i32 = -1;

/// The sections that [`rewrite`] changes, by their ids.
const TYPES: u8 = 1;
const FUNCTIONS: u8 = 3;
const TABLES: u8 = 4;
const EXPORTS: u8 = 7;
const START_FUNCTION: u8 = 8;
const CODE: u8 = 10;

/// The module with wrappers. It must be valid. Custom sections are left out.
///
/// # Errors
/// Those of the parser.
pub fn rewrite(wasm: &[u8]) -> Result<Vec<u8>, BinaryReaderError> {
    let mut sections: Vec<(u8, Range<usize>)> = Vec::new();
    let (mut types, mut type_of, mut bodies) = (Vec::<FuncType>::new(), Vec::<u32>::new(), Vec::new());
    let (mut imported, mut tables, mut start) = (0, 0, None);
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload?;
        sections.extend(payload.as_section().filter(|(id, _)| *id != 0));
        match payload {
            Payload::TypeSection(section) => {
                types = section.into_iter_err_on_gc_types().collect::<Result<_, _>>()?;
            }
            Payload::ImportSection(section) => {
                for import in section {
                    imported += u32::from(matches!(import?.ty, TypeRef::Func(_)));
                }
            }
            Payload::FunctionSection(section) => type_of = section.into_iter().collect::<Result<_, _>>()?,
            Payload::TableSection(section) => tables = section.count(),
            Payload::StartSection { func, .. } => start = Some(func),
            Payload::CodeSectionEntry(body) => bodies.push(body.range()),
            _ => {}
        }
    }
    if !sections.iter().any(|(id, _)| *id == TABLES) {
        let after_functions = sections.iter().position(|(id, _)| *id > FUNCTIONS).unwrap_or(sections.len());
        sections.insert(after_functions, (TABLES, 0..0));
    }
    let event_type = types.len();
    let functions = bodies.len();
    let mut rewritten = wasm[..8].to_vec();
    for (id, range) in sections {
        let content = match id {
            TYPES => extend_section(wasm, range, &[&[0x60, 1, 0x7f, 0]])?,
            FUNCTIONS => {
                let (count, list) = read_count(wasm, range)?;
                let mut content = Vec::new();
                put(&mut content, count * 2);
                content.extend_from_slice(list);
                content.extend_from_slice(list);
                content
            }
            TABLES => extend_section(wasm, range, &[&[0x70, 0, 1]])?,
            EXPORTS => {
                let table = export(TABLE, 1, tables);
                let start = start.map(|function| export(START, 0, function));
                let added: Vec<&[u8]> =
                    [Some(&table), start.as_ref()].into_iter().flatten().map(Vec::as_slice).collect();
                extend_section(wasm, range, &added)?
            }
            START_FUNCTION => continue,
            CODE => {
                let mut content = Vec::new();
                put(&mut content, functions * 2);
                for (index, function_type) in type_of.iter().enumerate() {
                    let params = types.get(*function_type as usize).map_or(0, |of| of.params().len());
                    let code = wrapper(imported as usize + index, functions, params, event_type, tables);
                    put(&mut content, code.len());
                    content.extend_from_slice(&code);
                }
                for body in &bodies {
                    put(&mut content, body.len());
                    content.extend_from_slice(&wasm[body.clone()]);
                }
                content
            }
            _ => wasm[range].to_vec(),
        };
        rewritten.push(id);
        put(&mut rewritten, content.len());
        rewritten.extend_from_slice(&content);
    }
    Ok(rewritten)
}

/// The code of a wrapper.
fn wrapper(index: usize, functions: usize, params: usize, event_type: usize, table: u32) -> Vec<u8> {
    // No locals.
    let mut code = vec![0];
    let tell = |code: &mut Vec<u8>, event: i32| {
        code.push(0x41);
        put_signed(code, event);
        // The entry of the table.
        code.extend_from_slice(&[0x41, 0, 0x11]);
        put(code, event_type);
        put(code, table as usize);
    };
    tell(&mut code, index as i32);
    for param in 0..params {
        code.push(0x20);
        put(&mut code, param);
    }
    code.push(0x10);
    put(&mut code, index + functions);
    tell(&mut code, RETURNED);
    code.push(0x0b);
    code
}

fn export(name: &str, kind: u8, index: u32) -> Vec<u8> {
    let mut entry = Vec::new();
    put(&mut entry, name.len());
    entry.extend_from_slice(name.as_bytes());
    entry.push(kind);
    put(&mut entry, index as usize);
    entry
}

/// A section with more entries. An empty range is a section that is missing.
fn extend_section(wasm: &[u8], range: Range<usize>, added: &[&[u8]]) -> Result<Vec<u8>, BinaryReaderError> {
    let (count, list) = if range.is_empty() { (0, &[][..]) } else { read_count(wasm, range)? };
    let mut content = Vec::new();
    put(&mut content, count + added.len());
    content.extend_from_slice(list);
    added.iter().for_each(|entry| content.extend_from_slice(entry));
    Ok(content)
}

/// The count of a section's entries, and the entries.
fn read_count(wasm: &[u8], range: Range<usize>) -> Result<(usize, &[u8]), BinaryReaderError> {
    let mut reader = BinaryReader::new(&wasm[range.clone()], range.start);
    let count = reader.read_var_u32()? as usize;
    Ok((count, &wasm[reader.original_position()..range.end]))
}

/// As `put`, for a number that may be negative.
fn put_signed(bytes: &mut Vec<u8>, mut number: i32) {
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if (number == 0 && low & 0x40 == 0) || (number == -1 && low & 0x40 != 0) {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}
