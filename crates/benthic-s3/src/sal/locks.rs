//! Object lock: versions that may not be removed yet.

/// The lock of a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    pub retention: Option<Retention>,
    /// `None` if nobody has set it. A version with a legal hold cannot be removed.
    pub legal_hold: Option<bool>,
}

/// A period in which a version cannot be removed. It has ended when it has ended on the clocks of
/// the gateway and of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub mode: RetentionMode,
    /// End of the period, in milliseconds since 1970 (UTC).
    pub until_ms: u64,
}

/// A retention period that begins when a version is created: at the time of the gateway or of the
/// store, whichever is later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRetention {
    pub mode: RetentionMode,
    pub duration_ms: u64,
}

/// The callers that can end a retention period early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionMode {
    /// Callers that bypass it. The gateway checks their permission.
    Governance,
    /// Nobody.
    Compliance,
}
