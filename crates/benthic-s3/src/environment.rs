//! Identifiers of buckets and writes.

use benthic_classes::bucket::codec::Id;
use benthic_core::{Environment, Result};

/// A new id; see [`Id`].
///
/// # Errors
/// `Unavailable` if there are no random numbers.
pub fn draw_id(environment: &Environment) -> Result<Id> {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&(environment.unix_ms() << 16).to_be_bytes());
    environment.random.fill(&mut id[6..])?;
    Ok(Id(id))
}
