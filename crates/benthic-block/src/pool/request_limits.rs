//! The limits of an image's requests. They are a value of their own in the header's omap, not a
//! part of the header, so that any program can change them while another one has the image open
//! for writing.

use super::objects::ImageId;
use crate::Limits;
use benthic_core::codec::{Decoded, Decoder, Malformed, Wire};
use benthic_core::{Error, Fetch, Pool, Result, WriteOp};

const KEY: &str = "limits";
const FORMAT: u32 = 1;

impl Wire for Limits {
    fn put(&self, out: &mut Vec<u8>) {
        FORMAT.put(out);
        self.read_ops_per_s.put(out);
        self.read_bytes_per_s.put(out);
        self.write_ops_per_s.put(out);
        self.write_bytes_per_s.put(out);
        self.burst_s.put(out);
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Limits> {
        if input.u32()? != FORMAT {
            return Err(Malformed);
        }
        Ok(Limits {
            read_ops_per_s: Wire::get(input)?,
            read_bytes_per_s: Wire::get(input)?,
            write_ops_per_s: Wire::get(input)?,
            write_bytes_per_s: Wire::get(input)?,
            burst_s: Wire::get(input)?,
        })
    }
}

pub(super) async fn load(pool: &dyn Pool, id: ImageId) -> Result<Limits> {
    let (page, _) = pool.fetch(&id.header()?, Fetch::omap_get([KEY])).await?;
    page.entries.first().map_or(Ok(Limits::default()), |(_, value)| parse(value))
}

/// Decodes and checks stored limits.
fn parse(stored: &[u8]) -> Result<Limits> {
    Limits::decode(stored).ok().filter(|limits| limits.check().is_ok()).ok_or_else(|| {
        let message = "the image's limits are damaged, or a newer program wrote them; `benthic image limit --none` removes them";
        Error::corrupt(message)
    })
}

pub(super) async fn store(pool: &dyn Pool, id: ImageId, limits: Limits) -> Result<()> {
    limits.check()?;
    let op = WriteOp::new().assert_exists();
    let op = match limits == Limits::default() {
        true => op.omap_remove([KEY]),
        false => op.omap_set([(KEY, limits.encode())]),
    };
    pool.write(&id.header()?, op).await.map(|_| ())
}

#[cfg(test)]
#[path = "request_limits_tests.rs"]
mod tests;
