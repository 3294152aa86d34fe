//! How often the methods of a library were called in an OSD.

use crate::describe::answer;
use crate::store::RadosStore;
use benthic_core::{LibraryCalls, ObjectId, Result};
use std::ffi::CStr;

/// [`benthic_core::CALLS`], as librados takes it.
const CALLS: &CStr = c"benthic.calls";

impl RadosStore {
    /// What a library counted in the OSD that leads the placement group of an object, which need not be there: one round
    /// trip that takes as long as a small write, and no question to the monitors. `None` if the OSD does not have the
    /// library, or a build of it that does not count. Who asks several OSDs so, at the [places](crate::Osd::place) that they
    /// had once, tells by `process` whether two answers are of the same.
    ///
    /// # Errors
    /// `NotFound` for a missing pool; `PermissionDenied` if the client may not call methods; `Unavailable` if the OSD does
    /// not answer in time.
    pub async fn calls_at(&self, pool: &str, object: &str, library: &str) -> Result<Option<LibraryCalls>> {
        let context = self.namespace(pool, "").await?;
        answer(&self.shared().in_flight, &context, &ObjectId::new(object)?, library, CALLS).await
    }
}

#[cfg(test)]
mod tests {
    use super::CALLS;

    #[test]
    fn the_question_is_the_one_that_libraries_answer() {
        assert_eq!(CALLS.to_str().unwrap(), benthic_core::CALLS);
    }
}
