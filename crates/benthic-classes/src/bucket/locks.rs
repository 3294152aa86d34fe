//! Object lock: which versions may not be removed yet, and which changes of a lock are allowed.
//!
//! The lock of a version is one of its attributes, [`LOCK_ATTRIBUTE`]. The class decides by it, so
//! that a lock binds every gateway and every maintenance task.
//!
//! **Time.** A retention period has ended when it has ended on the clock of the caller and on the
//! clock of the store. A default period begins at the later of both times. So a gateway with a
//! wrong clock releases nothing.
//!
//! Source: the S3 user guide, "How Object Lock works".

use super::codec::Version;
use super::state::Attributes;
use benthic_core::codec::Wire;
use benthic_core::{Error, Result};

/// The name of the attribute whose value is the [`Lock`] of a version.
pub const LOCK_ATTRIBUTE: &str = "object-lock";

crate::wire! {
    /// The lock of a version.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Lock {
        pub version: Version,
        pub retention: Option<Retention>,
        /// `None` if nobody has set it.
        pub legal_hold: Option<bool>,
    }

    /// A retention period that begins when a version is created.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DefaultRetention {
        pub mode: RetentionMode,
        pub duration_ms: u64,
    }

    /// A period in which a version may not be removed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Retention {
        pub mode: RetentionMode,
        /// End of the period, in milliseconds since 1970 (UTC).
        pub until_ms: u64,
    }
}

crate::wire! {
    /// The callers that can end a retention period early.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RetentionMode {
        /// Callers who say that they bypass it. The gateway checks their permission.
        0 = Governance,
        /// Nobody.
        1 = Compliance,
    }
}

impl Lock {
    pub(super) fn of(attributes: &Attributes) -> Result<Lock> {
        attributes.get(LOCK_ATTRIBUTE).map_or(Ok(Lock::default()), |value| Lock::from_stored(value))
    }

    /// Checks that a version may be removed.
    ///
    /// # Errors
    /// `PermissionDenied`.
    pub(super) fn check_removal(&self, now_ms: u64, bypass_governance: bool) -> Result<()> {
        if self.legal_hold == Some(true) {
            return Err(lock_error("a legal hold protects the version"));
        }
        match self.retention {
            Some(retention) if retention.protects(now_ms, bypass_governance) => {
                Err(lock_error("a retention period protects the version"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the lock may be replaced by `new`. A legal hold can always change.
    ///
    /// # Errors
    /// `PermissionDenied` if `new` ends the retention period earlier, or changes its mode.
    pub(super) fn check_change(&self, new: &Lock, now_ms: u64, bypass_governance: bool) -> Result<()> {
        let Some(old) = self.retention.filter(|old| old.protects(now_ms, bypass_governance)) else {
            return Ok(());
        };
        match new.retention {
            Some(new) if new.mode == old.mode && new.until_ms >= old.until_ms => Ok(()),
            _ => Err(lock_error("the retention period of the version can only be extended")),
        }
    }
}

impl Retention {
    fn protects(&self, now_ms: u64, bypass_governance: bool) -> bool {
        let is_bypassed = bypass_governance && self.mode == RetentionMode::Governance;
        self.until_ms > now_ms && !is_bypassed
    }
}

fn lock_error(message: &str) -> Error {
    Error::permission_denied(message)
}
