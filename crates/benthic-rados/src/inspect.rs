//! Questions about libraries of classes that tools for operators ask OSDs.

use crate::libraries::{answer, describe};
use crate::store::RadosStore;
use benthic_core::{ClassInfo, LibraryCalls, LibraryInfo, ObjectId, Result};
use std::ffi::CStr;

/// [`benthic_core::CALLS`], as librados takes it.
const CALLS: &CStr = c"benthic.calls";

impl RadosStore {
    /// A class of somebody's library, as the OSD that has `object` describes it, by the name that it was asked for; `None`
    /// if it is a class of this build, one of Ceph's own, or nowhere.
    ///
    /// # Errors
    /// `NotFound` for a missing pool; `Unavailable` if no OSD answers in time.
    pub async fn class(&self, pool: &str, object: &ObjectId, class: &str) -> Result<Option<ClassInfo>> {
        let shared = self.shared();
        if shared.class_names.contains(class) {
            return Ok(None);
        }
        let context = self.namespace(pool, object.namespace()).await?;
        shared.libraries.find(&shared.in_flight, &context, object, class, None).await?;
        let found = shared.libraries.get(class);
        Ok(found.map(|found| ClassInfo { name: class.to_owned(), ..found.class.clone() }))
    }

    /// What a library says about itself in the OSD that leads the placement group of an object, which need not be there; `None`
    /// if the OSD does not have the library.
    ///
    /// # Errors
    /// `NotFound` for a missing pool; `PermissionDenied` if the client may not call methods, or the OSD may not load the
    /// library; `Unavailable` if the OSD does not answer in time.
    pub async fn library_at(&self, pool: &str, object: &str, library: &str) -> Result<Option<LibraryInfo>> {
        let context = self.namespace(pool, "").await?;
        describe(&self.shared().in_flight, &context, &ObjectId::new(object)?, library).await
    }

    /// What a library counted in the OSD that leads the placement group of an object, which need not be there: one round
    /// trip that takes as long as a small write, and no question to the monitors. `None` if the OSD does not have the
    /// library, or a build of it that does not count. `process` tells whether two answers come from the same OSD, which the
    /// objects of a former map do not.
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
