//! Pages of a listing. Both engines sort objects by `namespace NUL name`. A token is the last
//! object of its page.

use benthic_core::{Error, ListPage, ListRequest, ListToken, Namespaces, ObjectId, Result, limits, names};
use bytes::Bytes;

/// Maximum number of objects that one page examines, so that a rare prefix over all namespaces
/// cannot occupy a worker for long.
const SCANNED_MAX: usize = 100_000;

pub(crate) fn encode(id: &ObjectId) -> Vec<u8> {
    let mut key = Vec::with_capacity(id.namespace().len() + 1 + id.name().len());
    key.extend_from_slice(id.namespace().as_bytes());
    key.push(0);
    key.extend_from_slice(id.name().as_bytes());
    key
}

pub(crate) fn decode(key: &[u8]) -> Option<ObjectId> {
    let (namespace, name) = std::str::from_utf8(key).ok()?.split_once('\0')?;
    ObjectId::in_namespace(namespace, name).ok()
}

pub(crate) fn decode_token(token: &ListToken) -> Result<ObjectId> {
    decode(&token.0)
        .ok_or_else(|| Error::invalid_argument("the token does not come from a listing of this pool"))
}

/// The token of a page that ends with this object.
pub(crate) fn token_of(id: &ObjectId) -> ListToken {
    ListToken(encode(id).into())
}

pub(crate) struct Lister<'a> {
    request: &'a ListRequest,
    objects_max: usize,
    scanned: usize,
    last: Option<Vec<u8>>,
    page: ListPage,
}

impl<'a> Lister<'a> {
    pub fn new(request: &'a ListRequest) -> Result<Lister<'a>> {
        if let Namespaces::One(namespace) = &request.namespaces {
            names::check_namespace(namespace)?;
        }
        request.after.as_ref().map(decode_token).transpose()?;
        let objects_max = request.objects_max.clamp(1, limits::LIST_PAGE_OBJECTS_MAX);
        Ok(Lister { request, objects_max, scanned: 0, last: None, page: ListPage::default() })
    }

    /// The common key prefix of all objects in the listing.
    pub fn key_prefix(&self) -> Vec<u8> {
        match &self.request.namespaces {
            Namespaces::All => Vec::new(),
            Namespaces::One(namespace) => {
                [namespace.as_bytes(), b"\0", self.request.prefix.as_bytes()].concat()
            }
        }
    }

    /// Adds the next object in order. Returns false if the page is full.
    pub fn push(&mut self, id: ObjectId) -> bool {
        if self.page.objects.len() == self.objects_max || self.scanned == SCANNED_MAX {
            self.page.next = self.last.take().map(|key| ListToken(Bytes::from(key)));
            return false;
        }
        self.scanned += 1;
        self.last = Some(encode(&id));
        if id.name().starts_with(&self.request.prefix) {
            self.page.objects.push(id);
        }
        true
    }

    pub fn finish(self) -> ListPage {
        self.page
    }
}
