//! Class calls with their result. A method that writes has no output, because an OSD returns none.
//! It may store its result in an attribute. The functions here find that attribute and read it.

use crate::store::OpenStore;
use benthic_core::{ClassCall, ClassInfo, ErrorKind, ObjectId, Pool, Result};
use bytes::Bytes;

/// A placeholder object name for calls that do not depend on an object.
const ANY_OBJECT: &str = "benthic.describe";

impl OpenStore {
    /// The classes that a call may refer to: those of the store, and the named class if an external
    /// library provides it. Without an object, it asks any OSD of the pool about the named class.
    pub async fn classes_for_call(
        &self,
        pool: &str,
        object: Option<&ObjectId>,
        class: &str,
    ) -> Result<Vec<ClassInfo>> {
        let mut classes = self.store.classes().await?;
        if let Some(rados) = &self.rados {
            let any = ObjectId::new(ANY_OBJECT)?;
            // Ignore a missing pool here: opening it later fails with a similar name as a hint.
            match rados.class(pool, object.unwrap_or(&any), class).await {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                found => classes.extend(found.ok().flatten()),
            }
        }
        Ok(classes)
    }
}

/// The attribute in which the called method stores its result, if it does so.
pub fn result_xattr(classes: &[ClassInfo], call: &ClassCall) -> Option<String> {
    let class = classes.iter().find(|class| class.name == call.class)?;
    let method = class.methods.iter().find(|method| method.name == call.method)?;
    method.result_xattr.clone()
}

/// Calls a method beside an object, and returns its output or the content of its
/// [`result_xattr`]. Another call may replace the attribute between the two steps.
///
/// # Errors
/// Those of [`Pool::exec`] and of reading the attribute.
pub async fn exec(
    pool: &dyn Pool,
    object: &ObjectId,
    call: ClassCall,
    result_xattr: Option<&str>,
) -> Result<Bytes> {
    let output = pool.exec(object, call).await?;
    match result_xattr {
        Some(name) => pool.get_xattr(object, name).await,
        None => Ok(output),
    }
}
