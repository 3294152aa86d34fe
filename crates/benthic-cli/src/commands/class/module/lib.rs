//! A class that counts words. `class.json` describes it.

mod benthic;

use benthic::{Object, Result, results};

export!(count, keep, sum);

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

/// Merges results of `count` into their sum: `benthic map POOL {name} count --reduce sum`.
fn sum(_object: &mut Object, input: &[u8]) -> Result<Vec<u8>> {
    let mut sum = 0_u64;
    for result in results(input)? {
        let words = str::from_utf8(result).ok().and_then(|text| text.parse::<u64>().ok());
        sum += words.ok_or("a result is not a number")?;
    }
    Ok(sum.to_string().into_bytes())
}
