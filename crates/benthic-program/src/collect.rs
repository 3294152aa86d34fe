//! Reads the other objects that a method of a WebAssembly class declares.

use benthic_core::{Error, ErrorKind, Fetch, ObjectAddress, ObjectId, Pool, Result};
use benthic_wasm::{COLLECTED_BYTES_MAX, MethodManifest, check_collected};
use bytes::Bytes;
use std::sync::Arc;

/// An object for a name that a method declares.
pub struct OtherObject {
    pub name: String,
    pub pool: Arc<dyn Pool>,
    pub object: ObjectId,
}

/// The input of a method, with the contents of its other objects. Each object is read in one
/// operation, so its content is of one version; the versions of several objects may be of different
/// times.
///
/// # Errors
/// `InvalidArgument` if the objects are not those that the method declares; `NotFound`;
/// `LimitExceeded` if they are too large; those of the pools.
pub(crate) async fn collect(
    method: &MethodManifest,
    input: Bytes,
    objects: Vec<OtherObject>,
) -> Result<Bytes> {
    let given = objects.into_iter().map(|other| (other.name.clone(), other)).collect();
    let mut size_bytes = input.len() as u64;
    let mut contents = Vec::new();
    for OtherObject { name, pool, object } in method.in_declared_order(given)? {
        let left_bytes = COLLECTED_BYTES_MAX.saturating_sub(size_bytes);
        let fetched = pool.fetch(&object, Fetch::stat().and(Fetch::read(0, left_bytes))).await;
        let content = fetched.and_then(|((stat, content), _)| {
            size_bytes = size_bytes.saturating_add(stat.size_bytes);
            check_collected(size_bytes)?;
            Ok(content)
        });
        contents.push(content.map_err(|error| {
            let error = match error.kind() {
                ErrorKind::NotFound => {
                    let message =
                        "an object for the method does not exist; `benthic ls POOL` lists the objects";
                    Error::not_found(message)
                }
                _ => error,
            };
            let address = ObjectAddress { pool: pool.name().to_owned(), object: object.clone() };
            error.with("name", &name).with("other_object", address)
        })?);
    }
    method.collect(input, &contents)
}

/// Refuses other objects for a method of a native class.
///
/// # Errors
/// `Unsupported` if there are any.
pub fn check_none(class: &str, objects: &[OtherObject]) -> Result<()> {
    if objects.is_empty() {
        return Ok(());
    }
    let message = "only methods of WebAssembly classes take other objects, and no such class is deployed here; \
                   call it without them, or see `benthic class ls --pool POOL`";
    Err(Error::unsupported(message).with("class", class))
}
