//! Queries about class libraries in OSDs, for operators' tools.

use crate::errors::{c_string, lost, of_operation};
use crate::ffi;
use crate::libraries::{answer, describe};
use crate::store::RadosStore;
use benthic_core::error::errno;
use benthic_core::{Action, ClassInfo, LibraryCalls, LibraryFailures, LibraryInfo, ObjectId, Result};
use std::ffi::CStr;

/// [`benthic_core::CALLS`] as a C string for librados.
const CALLS: &CStr = c"benthic.calls";
/// [`benthic_core::FAILURES`] as a C string for librados.
const FAILURES: &CStr = c"benthic.failures";

impl RadosStore {
    /// Describes a class of a third-party library, as the OSD that stores `object` reports it,
    /// under the requested name. `None` if the class is in this build, is one of Ceph's own, or
    /// does not exist.
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

    /// The description that a library gives of itself in the primary OSD of the object's placement
    /// group. The object need not exist. `None` if the OSD does not have the library.
    ///
    /// # Errors
    /// `NotFound` for a missing pool; `PermissionDenied` if the client may not call methods, or the
    /// OSD may not load the library; `Unavailable` if the OSD does not answer in time.
    pub async fn library_at(&self, pool: &str, object: &str, library: &str) -> Result<Option<LibraryInfo>> {
        let context = self.namespace(pool, "").await?;
        describe(&self.shared().in_flight, &context, &ObjectId::new(object)?, library).await
    }

    /// The call counters of a library in the primary OSD of the object's placement group. The
    /// object need not exist. The query is one round trip that takes as long as a small write, and
    /// does not involve the monitors. `None` if the OSD does not have the library, or has a build
    /// of it that does not count. `process` identifies the OSD process: two objects chosen with an
    /// outdated map may reach the same OSD.
    ///
    /// # Errors
    /// `NotFound` for a missing pool; `PermissionDenied` if the client may not call methods;
    /// `Unavailable` if the OSD does not answer in time.
    pub async fn calls_at(&self, pool: &str, object: &str, library: &str) -> Result<Option<LibraryCalls>> {
        let context = self.namespace(pool, "").await?;
        answer(&self.shared().in_flight, &context, &ObjectId::new(object)?, library, CALLS).await
    }

    /// The recent failures of a library's methods in the primary OSD of the object's placement
    /// group. The object need not exist. `None` if the OSD does not have the library, or has a
    /// build of it that does not record failures.
    ///
    /// # Errors
    /// As [`calls_at`](RadosStore::calls_at).
    pub async fn failures_at(
        &self,
        pool: &str,
        object: &str,
        library: &str,
    ) -> Result<Option<LibraryFailures>> {
        let context = self.namespace(pool, "").await?;
        answer(&self.shared().in_flight, &context, &ObjectId::new(object)?, library, FAILURES).await
    }

    /// Asks the primary OSD of the object's placement group for the size of the object, which need
    /// not exist. Every answer counts, also a refusal: it proves that the OSD serves the placement
    /// group. The query is one round trip and changes nothing.
    ///
    /// # Errors
    /// `NotFound` for a missing pool; `Unavailable` if the OSD does not answer in time.
    pub async fn reach(&self, pool: &str, object: &str) -> Result<()> {
        let context = self.namespace(pool, "").await?;
        let name = c_string(object)?;
        let permit = self.shared().in_flight.enter(0, context.address(&ObjectId::new(object)?)).await?;
        let answer = {
            let mut question = ffi::ReadOp::new(&context).with_permit(permit);
            question.stat();
            context.read(&name, question, false, None)
        };
        match answer.await.map_err(lost)?.result.saturating_neg() {
            errno::ETIMEDOUT => Err(of_operation(errno::ETIMEDOUT, Action::Read)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "inspect_tests.rs"]
mod tests;
