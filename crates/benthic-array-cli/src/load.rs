//! Writes the arrays of a file.
//!
//! The file is read in slabs of whole chunks. While the chunks of one slab are written, the next
//! slab is read.
//!
//! With `--reference`, the file is stored as it is, and arrays refer to it.

use crate::reference::{CreatedFile, FileArray, SourceFile, StoredFile};
use crate::source::{ReadElements, Skipped, SourceArray, SourceGroup};
use benthic_array::{
    ArrayWriter, Compressor, Creation, Dtype, NewArray, Place, Slice, TouchedChunks, Values, WriteStats,
    group_document,
};
use benthic_core::{Error, ErrorKind, Result};
use benthic_program::store::blocking;
use bytes::Bytes;
use std::sync::Arc;

/// The chunks of a file are kept if their decoded size is in this range.
const KEPT_BYTES_MIN: u64 = 1 << 20;
const KEPT_BYTES_MAX: u64 = 16 << 20;
/// Other chunks become about as large as this.
const CHUNK_BYTES: u64 = 4 << 20;
/// Approximate limit on a slab, of which two are in memory. A slab has at least one chunk.
const SLAB_BYTES_MAX: u64 = 128 << 20;

/// Limit on an array, decoded. A damaged file may describe a larger one, which would take years.
const ARRAY_BYTES_MAX: u64 = 1 << 50;

/// The options of new arrays.
pub struct Layout {
    /// For arrays with as many axes. Empty for the default.
    pub chunks: Vec<u64>,
    pub compressor: Compressor,
    /// The file to which arrays refer. `None` to copy the arrays.
    pub file: Option<SourceFile>,
}

/// The arrays and groups to write.
pub struct Plan {
    arrays: Vec<PlannedArray>,
    /// The arrays that refer to the file.
    file_arrays: Vec<FileArray>,
    /// The arrays that should refer to the file, but are copied.
    pub copied: Vec<Skipped>,
    file: Option<StoredFile>,
    /// By the key of the document.
    groups: Vec<(String, Bytes)>,
}

/// The number of arrays and groups that a command created.
#[derive(Default)]
pub struct Created {
    pub arrays: u64,
    pub groups: u64,
    /// Number of the arrays whose chunks are in the file.
    pub in_file: u64,
    pub file: Option<CreatedFile>,
}

struct PlannedArray {
    key: String,
    writer: ArrayWriter,
    dtype: Dtype,
    shape: Vec<u64>,
    chunk_shape: Vec<u64>,
    slab_shape: Vec<u64>,
    elements: Arc<dyn ReadElements>,
}

impl Plan {
    /// Plans the arrays of a file below a place. Stores nothing.
    ///
    /// # Errors
    /// As [`ArrayWriter::new`] and [`group_document`]; `LimitExceeded` for an array that is too
    /// large. With a file, those of its indexes.
    pub fn new(place: &Place, root: SourceGroup, layout: &Layout, stats: &Arc<WriteStats>) -> Result<Plan> {
        let mut plan = Plan {
            arrays: Vec::new(),
            file_arrays: Vec::new(),
            copied: Vec::new(),
            file: None,
            groups: Vec::new(),
        };
        plan.add(place, "", root, layout, stats)?;
        if let Some(file) = &layout.file {
            plan.file = Some(file.plan(place, &plan.file_arrays)?);
        }
        Ok(plan)
    }

    fn add(
        &mut self,
        place: &Place,
        prefix: &str,
        group: SourceGroup,
        layout: &Layout,
        stats: &Arc<WriteStats>,
    ) -> Result<()> {
        let document = group_document(&group.attributes)?;
        for (name, child) in group.groups {
            self.add(place, &format!("{prefix}{name}/"), child, layout, stats)?;
        }
        for source in group.arrays {
            let path = format!("{prefix}{}", source.name);
            if let Some(file) = &layout.file {
                match file.array(place, &path, &source) {
                    Ok(Some(array)) => {
                        self.file_arrays.push(array);
                        continue;
                    }
                    Ok(None) => {}
                    Err(error) if error.kind() == ErrorKind::Unsupported => {
                        self.copied.push(Skipped { path: path.clone(), reason: error.message().to_owned() });
                    }
                    Err(error) => return Err(error),
                }
            }
            let size_bytes = bytes(&source.shape, source.dtype.size_bytes() as u64);
            if size_bytes > ARRAY_BYTES_MAX {
                let message =
                    "an array of the file is too large; name other variables with --from FILE:VARIABLE";
                return Err(Error::limit_exceeded(message)
                    .with("array", path)
                    .with("size_bytes", size_bytes)
                    .with("size_bytes_max", ARRAY_BYTES_MAX));
            }
            let chunk_shape = chunk_shape(&source, &layout.chunks);
            let SourceArray { dtype, shape, fill, dimensions, attributes, elements, .. } = source;
            let element_bytes = dtype.size_bytes() as u64;
            let slab_shape = slab_shape(&shape, &chunk_shape, element_bytes);
            let compressor = layout.compressor;
            let array = NewArray { dtype, shape, chunk_shape, fill, dimensions, attributes, compressor };
            let writer = ArrayWriter::new(place.below(&path), &array, Arc::clone(stats))?;
            let key = format!("{path}/zarr.json");
            let NewArray { shape, chunk_shape, .. } = array;
            let array = PlannedArray { key, writer, dtype, shape, chunk_shape, slab_shape, elements };
            self.arrays.push(array);
        }
        let key = format!("{prefix}zarr.json");
        place.object(&key)?;
        self.groups.push((key, document));
        Ok(())
    }

    /// The size of the file and of all elements that are copied.
    pub fn size_bytes(&self) -> u64 {
        let sizes = self.arrays.iter().map(|array| bytes(&array.shape, array.dtype.size_bytes() as u64));
        sizes.fold(self.file.as_ref().map_or(0, |file| file.size_bytes), u64::saturating_add)
    }

    /// Writes everything, unless the first chunk of an array cannot be read. With `overwrite`,
    /// first removes all objects at the place.
    ///
    /// # Errors
    /// Those of [`Creation`], of the file and of the pool.
    pub async fn run(self, place: &Place, overwrite: bool, stats: &WriteStats) -> Result<Created> {
        for array in &self.arrays {
            array.check().await?;
        }
        let creation = Creation::start(place, overwrite).await?;
        if let Some(file) = &self.file {
            file.write(place, &self.file_arrays, stats).await?;
        }
        for array in &self.arrays {
            array.write().await.map_err(|error| error.with("array", &array.key))?;
        }
        let created = Created {
            arrays: (self.arrays.len() + self.file_arrays.len()) as u64,
            groups: self.groups.len() as u64,
            in_file: self.file_arrays.len() as u64,
            file: self.file.map(|file| file.summary()),
        };
        let arrays = self.arrays.into_iter().map(|array| (array.key, array.writer.document().clone()));
        let file_arrays = self.file_arrays.into_iter().map(FileArray::into_document);
        creation.finish(arrays.chain(file_arrays).chain(self.groups).collect()).await?;
        Ok(created)
    }
}

impl PlannedArray {
    /// The first positions of the slabs.
    fn starts(&self) -> impl Iterator<Item = Vec<u64>> {
        let whole: Vec<Slice> = self.shape.iter().map(|len| Slice::all(*len)).collect();
        TouchedChunks::new(&whole, &self.slab_shape)
            .map(|position| position.iter().zip(&self.slab_shape).map(|(index, len)| index * len).collect())
    }

    /// Fails if the first chunk cannot be read, for example because of its filters.
    async fn check(&self) -> Result<()> {
        match self.starts().next() {
            Some(first) => self.read(first, &self.chunk_shape).await.map(drop),
            None => Ok(()),
        }
    }

    async fn write(&self) -> Result<()> {
        let mut starts = self.starts();
        let Some(first) = starts.next() else { return Ok(()) };
        let mut slab = self.read(first, &self.slab_shape).await?;
        for start in starts {
            let (start_of_slab, values) = slab;
            let written = self.writer.write(&start_of_slab, values);
            let ((), next) = tokio::try_join!(written, self.read(start, &self.slab_shape))?;
            slab = next;
        }
        self.writer.write(&slab.0, slab.1).await
    }

    async fn read(&self, start: Vec<u64>, box_shape: &[u64]) -> Result<(Vec<u64>, Values)> {
        let (elements, dtype) = (Arc::clone(&self.elements), self.dtype);
        let rest = start.iter().zip(&self.shape).map(|(start, len)| len - start);
        let shape: Vec<u64> = rest.zip(box_shape).map(|(rest, len)| rest.min(*len)).collect();
        let read = move || {
            let data = elements.read(&start, &shape)?;
            Ok((start, Values { dtype, shape, data }))
        };
        blocking(read).await
    }
}

fn bytes(shape: &[u64], element_bytes: u64) -> u64 {
    shape.iter().fold(element_bytes, |product, len| product.saturating_mul(*len))
}

/// The chunks of a new array: those that the user chose, those of the file, or others.
fn chunk_shape(array: &SourceArray, chosen: &[u64]) -> Vec<u64> {
    let limits: Vec<u64> = array.shape.iter().map(|len| (*len).max(1)).collect();
    let within = |shape: &[u64]| -> Vec<u64> {
        shape.iter().zip(&limits).map(|(len, limit)| *len.min(limit)).collect()
    };
    if !chosen.is_empty() && chosen.len() == limits.len() {
        return within(chosen);
    }
    let element_bytes = array.dtype.size_bytes() as u64;
    let mut shape = within(array.chunk_shape.as_ref().unwrap_or(&limits));
    let size_bytes = bytes(&shape, element_bytes);
    if array.chunk_shape.is_some() && (KEPT_BYTES_MIN..=KEPT_BYTES_MAX).contains(&size_bytes) {
        return shape;
    }
    // Smaller chunks grow along the axis that has the most of them, to multiples of those of the
    // file.
    while let Some((axis, _)) = shape
        .iter()
        .zip(&limits)
        .enumerate()
        .filter(|(_, (len, limit))| len < limit)
        .max_by_key(|(axis, (len, limit))| (limit.div_ceil(**len), *axis))
        && bytes(&shape, element_bytes) <= CHUNK_BYTES / 2
    {
        shape[axis] = shape[axis].saturating_mul(2).min(limits[axis]);
    }
    // Larger chunks shrink along their longest axis.
    while let Some(longest) = shape.iter_mut().max_by_key(|len| **len)
        && *longest > 1
        && bytes(&shape, element_bytes) > CHUNK_BYTES
    {
        if let Some(longest) = shape.iter_mut().max_by_key(|len| **len) {
            *longest = longest.div_ceil(2);
        }
    }
    shape
}

/// The shape of slabs: whole chunks, and along the last axes as many as fit, because a file has
/// their elements next to each other.
fn slab_shape(shape: &[u64], chunk_shape: &[u64], element_bytes: u64) -> Vec<u64> {
    let mut slab = chunk_shape.to_vec();
    for axis in (0..slab.len()).rev() {
        let fitting = SLAB_BYTES_MAX / bytes(&slab, element_bytes).max(1);
        let chunks = shape[axis].div_ceil(chunk_shape[axis]).max(1);
        slab[axis] = slab[axis].saturating_mul(fitting.clamp(1, chunks));
        if fitting < chunks {
            break;
        }
    }
    slab
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
