//! The names of a module's functions, for errors and profiles.
//!
//! Compilers write the names into the custom section `name`. It is read only when a name is needed,
//! because few calls fail, and a module may be hostile: the section is never copied, and the work
//! is limited by its size and by the limits below.

use benthic_core::Error;
use std::fmt::{self, Write};
use wasmparser::{BinaryReaderError, KnownCustom, Name, Parser, Payload};

/// The innermost functions that [`with_functions`] looks at. More make no difference.
pub const FRAMES_MAX: usize = 24;
/// Limit of the functions in an error.
const FRAMES_SHOWN: usize = 8;
/// Functions of Rust's panic, seven of which are between a panic and its end. An error leaves them
/// out.
const PANIC: [&str; 4] = ["core::panicking::", "std::panicking::", "std::sys::backtrace::", "__rustc::"];
/// Limit of the names in a section. None of the names of a section with more is used.
const NAMES_MAX: u32 = 100_000;
const NAME_CHARS_MAX: usize = 80;
/// Limit of a name that is demangled.
const MANGLED_BYTES_MAX: usize = 4_096;

/// The names of functions: `func[INDEX]` for one that has none. A name has at most 80 characters,
/// and no control characters.
pub fn function_names(wasm: &[u8], functions: &[u32]) -> Vec<String> {
    let found = find(wasm, functions).unwrap_or_else(|_| vec![None; functions.len()]);
    let named = found.into_iter().zip(functions);
    named.map(|(name, index)| name.map_or_else(|| format!("func[{index}]"), plain)).collect()
}

/// The error of a call that failed in the module, with its stack trace, the innermost function
/// first.
pub fn with_functions(error: Error, wasm: &[u8], innermost_first: &[u32]) -> Error {
    let names = function_names(wasm, &innermost_first[..innermost_first.len().min(FRAMES_MAX)]);
    let is_own = |name: &String| !PANIC.iter().any(|start| name.starts_with(start));
    let names = &names[names.iter().position(is_own).unwrap_or_default()..];
    if names.is_empty() {
        return error;
    }
    let shown = &names[..names.len().min(FRAMES_SHOWN)];
    let rest = if shown.len() < names.len() { " < ..." } else { "" };
    let message = format!("{}; in {}{rest}", error.message(), shown.join(" < "));
    let kind = error.kind();
    error.context().fold(Error::new(kind, message), |located, (key, value)| located.with(key, value))
}

fn find<'a>(wasm: &'a [u8], functions: &[u32]) -> Result<Vec<Option<&'a str>>, BinaryReaderError> {
    let mut found = vec![None; functions.len()];
    for payload in Parser::new(0).parse_all(wasm) {
        let Payload::CustomSection(section) = payload? else { continue };
        let KnownCustom::Name(subsections) = section.as_known() else { continue };
        for subsection in subsections {
            let Name::Function(names) = subsection? else { continue };
            if names.count() > NAMES_MAX {
                break;
            }
            for naming in names {
                let naming = naming?;
                for (name, _) in found.iter_mut().zip(functions).filter(|(_, index)| **index == naming.index)
                {
                    *name = Some(naming.name);
                }
            }
            // A section has one list of functions, and a module has one section of names.
            return Ok(found);
        }
        break;
    }
    Ok(found)
}

/// A name for a line of text. Rust's names are mangled.
fn plain(name: &str) -> String {
    let mut line = Line { text: String::new(), chars: 0 };
    // It fails when the line is full.
    let _ = match name.len() <= MANGLED_BYTES_MAX {
        true => write!(line, "{:#}", rustc_demangle::demangle(name)),
        false => line.write_str(name),
    };
    line.text
}

/// The beginning of a text, without control characters.
struct Line {
    text: String,
    chars: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if self.chars == NAME_CHARS_MAX {
                self.text.push_str("...");
                return Err(fmt::Error);
            }
            self.chars += 1;
            self.text.push(if is_invisible(character) { '?' } else { character });
        }
        Ok(())
    }
}

/// Whether a character controls a terminal, or changes the direction of the text around it.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
