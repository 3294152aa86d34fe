//! A class that counts words. `class.json` describes it.

mod benthic;

use benthic::{Object, Result};

export!(count, keep);

/// Returns the number of words in the object.
fn count(object: &mut Object, _input: &[u8]) -> Result<Vec<u8>> {
    let data = object.read(0, object.stat()?.size_bytes)?;
    let words = data.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
    Ok(words.to_string().into_bytes())
}

/// Stores the number of words in the attribute `words`.
fn keep(object: &mut Object, input: &[u8]) -> Result<Vec<u8>> {
    let words = count(object, input)?;
    object.set_xattr("words", &words)?;
    Ok(Vec::new())
}
