//! The objects of images, all in one reserved namespace of the pool.

use benthic_core::names::IMAGES_NAMESPACE;
use benthic_core::{
    Environment, ErrorKind, ListRequest, Namespaces, ObjectId, Pool, Result, WriteOp, limits,
};
use futures::stream::{self, BoxStream, StreamExt};
use std::fmt;

/// A random number that identifies an image for its whole life. Displayed as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ImageId(pub u64);

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The object with the names of a pool's images: its omap has each image's id under its name.
pub(crate) fn names_object() -> Result<ObjectId> {
    object("names".to_owned())
}

impl ImageId {
    pub fn draw(environment: &Environment) -> Result<ImageId> {
        environment.random.random_u64().map(ImageId)
    }

    pub fn header(self) -> Result<ObjectId> {
        object(format!("header.{self}"))
    }

    pub fn map_page(self, map: u32, page: u32) -> Result<ObjectId> {
        object(format!("{}{map:08x}.{page:08x}", self.maps_prefix()))
    }

    /// The object with the bytes that the image's object `number` has in `version`.
    pub fn data(self, number: u32, version: u32) -> Result<ObjectId> {
        object(format!("{}{number:08x}.{version:08x}", self.data_prefix()))
    }

    pub fn maps_prefix(self) -> String {
        format!("map.{self}.")
    }

    pub fn data_prefix(self) -> String {
        format!("data.{self}.")
    }
}

/// Removes an object, if it is there. The removal is durable after a later flush.
pub(crate) async fn remove(pool: &dyn Pool, object: &ObjectId) -> Result<()> {
    match pool.write(object, WriteOp::new().remove().buffered()).await {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Lists the objects of images whose names begin with a prefix, in pages.
pub(crate) fn list<'a>(pool: &'a dyn Pool, prefix: &'a str) -> BoxStream<'a, Result<Vec<ObjectId>>> {
    let request = ListRequest {
        namespaces: Namespaces::One(IMAGES_NAMESPACE.to_owned()),
        prefix: prefix.to_owned(),
        after: None,
        objects_max: limits::LIST_PAGE_OBJECTS_MAX,
    };
    let next = move |request: Option<ListRequest>| async move {
        let Some(request) = request else { return Ok(None) };
        let page = pool.list(request.clone()).await?;
        let next = page.next.map(|after| ListRequest { after: Some(after), ..request });
        Ok(Some((page.objects, next)))
    };
    stream::try_unfold(Some(request), next).boxed()
}

fn object(name: String) -> Result<ObjectId> {
    ObjectId::in_namespace(IMAGES_NAMESPACE, name)
}
