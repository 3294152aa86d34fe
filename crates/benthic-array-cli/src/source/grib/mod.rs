//! GRIB files: a sequence of messages with a field each.
//!
//! Fields of the same parameter, type of level and grid become one array, with the axes member,
//! time, step and level before those of the grid; axes of length 1 become scalar coordinates. Names
//! are those of cfgrib. cfgrib refuses a file in which two arrays need different coordinates of the
//! same name; here, the second coordinate gets a number.
//!
//! One field is one chunk. Its codec decodes the bytes of the file.

mod array;
mod coordinates;
mod grid;
mod messages;
mod octets;
mod parameters;
mod product;

use super::{Skipped, SourceGroup};
use array::Variable;
use benthic_array::AttributeValue;
use benthic_core::{Error, Result};
use benthic_program::{local, units};
use coordinates::Coordinates;
use grid::Grid;
pub use messages::MAGIC;
use messages::{Field, LocalFile, SkippedFields, Values};
use parameters::Names;
use product::{LEVEL, ProductKey};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// Reads the headers of a file.
///
/// # Errors
/// `Corrupt`, also if the file has no field; `LimitExceeded`; `Unsupported` if no field can become
/// an array.
pub fn read(file: File, path: &Path, skipped: &mut Vec<Skipped>) -> Result<SourceGroup> {
    let size_bytes = file.metadata().map_err(local::failed("cannot read the file", path))?.len();
    let file = Arc::new(LocalFile { file, path: path.to_owned(), size_bytes });
    let found = messages::read(&file)?;
    for SkippedFields { reason, first_offset_bytes, count } in found.skipped {
        let fields = units::count(count, "field");
        skipped.push(Skipped { path: format!("{fields}, the first at byte {first_offset_bytes}"), reason });
    }
    let mut variables = variables(&found.fields, skipped);
    distinguish(&mut variables);
    let mut coordinates = Coordinates::default();
    // Axes take the plain names before scalar coordinates.
    for are_axes in [true, false] {
        variables.iter_mut().for_each(|variable| variable.add_coordinates(&mut coordinates, are_axes));
    }
    for variable in &mut variables {
        variable.name = coordinates.unused(&variable.name);
    }
    let mut arrays = coordinates.into_arrays();
    arrays.extend(variables.into_iter().map(|variable| variable.into_array(&file)));
    match skipped.first() {
        Some(first) if arrays.is_empty() => {
            let message = format!("no field of the file can become an array: {}", first.reason);
            Err(Error::unsupported(message).with("variable", &first.path))
        }
        None if arrays.is_empty() => Err(Error::corrupt("the file has no GRIB message with a field")),
        _ => {
            let attributes = vec![("Conventions".to_owned(), AttributeValue::Text("CF-1.7".to_owned()))];
            Ok(SourceGroup { attributes, arrays, groups: Vec::new() })
        }
    }
}

/// Groups the fields to arrays, in the order of the file. If arrays cannot have one of the fields
/// with the same product, all of these are skipped: the others would look like all that the file
/// has.
fn variables(fields: &[Field], skipped: &mut Vec<Skipped>) -> Vec<Variable> {
    type Key<'a> = (&'a ProductKey, &'a str, *const Grid);
    type Array<'a> = (&'a Rc<Names>, &'a Rc<Grid>, Vec<(&'a Field, Values)>);
    // The name depends on the level, too: the temperature 2 m above ground has one of its own.
    let mut names: HashMap<(&ProductKey, u64), Rc<Names>> = HashMap::new();
    let mut refused: HashMap<&ProductKey, &str> = HashMap::new();
    // A parameter on several types of level has one name.
    let mut noted = HashSet::new();
    for Field { product, content } in fields {
        let key = (&product.key, product.at[LEVEL][0].to_bits());
        let names =
            names.entry(key).or_insert_with(|| Rc::new(product.key.parameter.names(&product.details())));
        if let Err(reason) = content
            && refused.insert(&product.key, reason).is_none()
            && noted.insert((names.name.clone(), reason))
        {
            skipped.push(Skipped { path: names.name.clone(), reason: reason.clone() });
        }
    }
    let mut places: HashMap<Key<'_>, usize> = HashMap::new();
    let mut arrays: Vec<Array<'_>> = Vec::new();
    for field in fields {
        let key = &field.product.key;
        let Ok((grid, values)) = &field.content else { continue };
        if refused.contains_key(key) {
            continue;
        }
        let names = &names[&(key, field.product.at[LEVEL][0].to_bits())];
        let place = *places.entry((key, &names.name, Rc::as_ptr(grid))).or_insert_with(|| {
            arrays.push((names, grid, Vec::new()));
            arrays.len() - 1
        });
        arrays[place].2.push((field, *values));
    }
    let variable = |(names, grid, fields): Array<'_>| {
        let key = fields[0].0.product.key.clone();
        Variable::new(key, Rc::clone(names), Rc::clone(grid), &fields, skipped)
    };
    arrays.into_iter().filter_map(variable).collect()
}

/// Adds the type of level to names that several arrays have, then how the values of a period were
/// made one, then a number.
fn distinguish(variables: &mut [Variable]) {
    let additions: [fn(&Variable) -> &str; 2] =
        [|variable| &variable.key.level_type, |variable| &variable.key.step_type];
    for addition in additions {
        let mut counts: HashMap<String, usize> = HashMap::new();
        variables.iter().for_each(|variable| *counts.entry(variable.name.clone()).or_default() += 1);
        for variable in variables.iter_mut().filter(|variable| counts[&variable.name] > 1) {
            variable.name = format!("{}_{}", variable.name, addition(variable));
        }
    }
    let mut used = HashSet::new();
    for variable in variables {
        let usual = variable.name.clone();
        for number in 2.. {
            if used.insert(variable.name.clone()) {
                break;
            }
            variable.name = format!("{usual}_{number}");
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
