//! Checks an array: decodes all stored chunks, and finds objects that do not belong to it.

use crate::array::Array;
use crate::class::Task;
use crate::metadata::{CREATION_MARKER, METADATA_KEYS};
use crate::reduce::{AxisRole, Reduction, ReductionKind};
use crate::references::CHUNK_INDEX_KEY;
use crate::runner::{ObjectRunner, ReadStats, StoredChunk};
use crate::selection::{Bounded, Part, Slice, TouchedChunks, within};
use crate::statistics::is_statistics;
use benthic_core::pushdown::Pushdown;
use benthic_core::{Error, ErrorKind, ObjectId, Result};
use futures::{StreamExt, TryStreamExt, stream};
use std::sync::Arc;

/// Number of chunks of a file that are listed before they are checked.
const CHUNKS_AT_ONCE: usize = 4096;

/// A damaged object, or one that does not belong to the array. The error names the object.
#[derive(Debug)]
pub struct ArrayFinding {
    pub object: ObjectId,
    pub error: Error,
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct ArrayCheck {
    /// Number of stored chunks or shards.
    pub chunks: u64,
    pub findings: Vec<ArrayFinding>,
}

impl Array {
    /// Decodes all stored chunks, and looks for objects whose name is of no chunk. Changes nothing.
    /// A concurrent writer may cause findings.
    ///
    /// # Errors
    /// Those of the pool, except for damage, which is a finding.
    pub async fn check(&self, pushdown: Pushdown, stats: &Arc<ReadStats>) -> Result<ArrayCheck> {
        let (metadata, place) = (self.metadata(), self.place());
        let chunk_shape = &metadata.format.shape.0;
        let slices: Vec<Slice> = chunk_shape.iter().map(|len| Slice::all(*len)).collect();
        let whole = Part { slices, first: vec![0; chunk_shape.len()] };
        let reduction = Reduction {
            kind: ReductionKind::Count {},
            axes: Bounded(vec![AxisRole::Reduce {}; chunk_shape.len()]),
            skip_nan: true,
            decoding: None,
        };
        let (pool, format) = (Arc::clone(&place.pool), metadata.format.clone());
        let task = Task::Reduce { reduction };
        let runner = ObjectRunner::new(pool, format, task, pushdown, self.is_far(), Arc::clone(stats));
        let prefix_bytes = place.prefix().len();
        let mut check = ArrayCheck::default();
        let mut pages = std::pin::pin!(place.names());
        while let Some(page) = pages.try_next().await? {
            let mut chunks = Vec::new();
            for object in page {
                let key = &object.name()[prefix_bytes..];
                if metadata.chunk_position(key).is_some() && !self.is_in_file() {
                    chunks.push((object.into(), whole.clone()));
                } else if is_statistics(key) {
                    if let Err(error) = self.check_statistics(&object).await {
                        check.findings.push(ArrayFinding { object, error });
                    }
                } else if !METADATA_KEYS.contains(&key) && (key != CHUNK_INDEX_KEY || !self.is_in_file()) {
                    let message = match key {
                        CREATION_MARKER => {
                            "`create` was interrupted after the array was complete; remove this object if none runs"
                        }
                        _ => "this object is not a chunk of the array; remove it if nothing needs it",
                    };
                    let error = Error::invalid_argument(message).with("object", &object);
                    check.findings.push(ArrayFinding { object, error });
                }
            }
            run_all(&runner, chunks, stats, &mut check).await?;
        }
        if self.is_in_file() {
            let slices = self.whole();
            let mut chunks = Vec::new();
            for position in TouchedChunks::new(&slices, chunk_shape) {
                let origin: Vec<u64> =
                    position.iter().zip(chunk_shape).map(|(index, len)| index * len).collect();
                if let Some(chunk) = self.chunk(&position)?
                    && let Some(Part { slices, .. }) = within(&slices, &origin, chunk_shape)
                {
                    // The positions in a reduction do not matter to a count.
                    chunks.push((chunk, Part { slices, first: vec![0; chunk_shape.len()] }));
                }
                if chunks.len() == CHUNKS_AT_ONCE {
                    run_all(&runner, std::mem::take(&mut chunks), stats, &mut check).await?;
                }
            }
            run_all(&runner, chunks, stats, &mut check).await?;
        }
        Ok(check)
    }
}

/// Runs a task on chunks, and adds damage to the findings.
async fn run_all(
    runner: &ObjectRunner,
    chunks: Vec<(StoredChunk, Part)>,
    stats: &ReadStats,
    check: &mut ArrayCheck,
) -> Result<()> {
    check.chunks += chunks.len() as u64;
    stats.add_chunks(chunks.len() as u64);
    let run =
        async |(chunk, part): (StoredChunk, Part)| (runner.run(Some(&chunk), &part).await, chunk.object);
    let mut results = stream::iter(chunks).map(run).buffered(runner.at_once());
    while let Some((result, object)) = results.next().await {
        match result {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                check.findings.push(ArrayFinding { object, error });
            }
            result => drop(result?),
        }
    }
    Ok(())
}
