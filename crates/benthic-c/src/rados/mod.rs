//! librados' concepts on a store: clusters, I/O contexts, operations and completions.
//!
//! Unmodified programs expect three things that a store does not have by itself:
//!
//! - **An order.** The operations of a client on one object run in the order in which it starts
//!   them, also while earlier ones are in flight ([`order`]).
//! - **Comparisons** of data and of omap values as conditions, and the removal of a range of omap
//!   keys. A store compares attributes, single omap values and versions. So these conditions are
//!   checked on one version of the object, and the operation runs only on this version ([`write`]).
//! - **errno.** [`code`] maps kinds of errors to it.
//!
//! Features that a directory lacks, such as snapshots, watches and most commands to monitors, fail
//! with `-EOPNOTSUPP`.

pub mod applications;
pub mod cluster;
pub mod command;
pub mod completion;
pub mod conf;
pub mod ioctx;
pub mod list;
pub mod lock;
mod order;
pub mod read;
pub mod write;

use benthic_core::error::errno;
use benthic_core::{Error, Reason};

/// The negative errno of an error.
pub fn code(error: &Error) -> i32 {
    -match error.reason() {
        Some(Reason::StoreFull) => errno::ENOSPC,
        Some(Reason::QuotaExceeded) => errno::EDQUOT,
        None => error.kind().row().errno,
    }
}

/// FNV-1a, 128 bits: identifies pools and stores in a form that programs expect.
fn fnv(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}
