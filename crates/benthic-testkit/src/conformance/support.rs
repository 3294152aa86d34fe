//! Helpers for the cases.

use super::Case;
use benthic_core::{
    ClassCall, ErrorKind, Fetch, ListPage, ListRequest, ListToken, Namespaces, ObjectId, Result, WriteOp,
};
use bytes::Bytes;
use std::{collections::BTreeMap, fmt};

/// Size of the data in an object of [`Case::make_full`].
pub(super) const FULL_BYTES: u64 = 100;

/// The full state of an object, except for its version and modification time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectContent {
    pub(super) data: Bytes,
    pub(super) xattrs: BTreeMap<String, Bytes>,
    pub(super) omap: BTreeMap<Bytes, Bytes>,
}

impl ObjectContent {
    pub(super) fn data(data: impl Into<Bytes>) -> ObjectContent {
        ObjectContent { data: data.into(), ..ObjectContent::default() }
    }

    /// The content that [`Case::make_full`] writes: 100 bytes `a`, attribute `X` = `1`, omap `K` =
    /// `V`.
    pub(super) fn full() -> ObjectContent {
        ObjectContent::data("a".repeat(FULL_BYTES as usize)).xattr("X", "1").entry("K", "V")
    }

    pub(super) fn xattr(mut self, name: &str, value: &str) -> ObjectContent {
        self.xattrs.insert(name.to_owned(), value.to_owned().into());
        self
    }

    pub(super) fn entry(mut self, key: &'static str, value: &str) -> ObjectContent {
        self.omap.insert(key.into(), value.to_owned().into());
        self
    }
}

impl Case<'_> {
    /// Creates an object with data, an attribute and an omap entry: [`ObjectContent::full`].
    pub(super) async fn make_full(&self, name: &str) -> ObjectId {
        let object = self.object(name);
        let full = ObjectContent::full();
        let op = WriteOp::new().write_full(full.data).set_xattr("X", "1").omap_set([("K", "V")]);
        self.pool.write(&object, op).await.unwrap();
        object
    }

    /// Reads an object of at most 1 MiB and 1,024 omap entries; returns `None` if it is missing.
    pub(super) async fn state(&self, object: &ObjectId) -> Option<ObjectContent> {
        let omap = Fetch::omap_range(None, "", usize::MAX);
        match self.pool.fetch(object, Fetch::read(0, 1024 * 1024).and(Fetch::list_xattrs()).and(omap)).await {
            Ok((((data, xattrs), page), _)) => {
                assert!(!page.more, "state() is for small objects");
                Some(ObjectContent { data, xattrs, omap: page.entries.into_iter().collect() })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("the object cannot be read: {error:?}"),
        }
    }

    /// Runs a write operation and checks the state that it leaves.
    pub(super) async fn check_write(&self, object: &ObjectId, op: WriteOp, expected: Option<ObjectContent>) {
        self.pool.write(object, op.clone()).await.unwrap();
        assert_eq!(self.state(object).await, expected, "{op:?}");
    }

    pub(super) async fn version(&self, object: &ObjectId) -> u64 {
        self.pool.stat(object).await.unwrap().1
    }

    pub(super) async fn size(&self, object: &ObjectId) -> u64 {
        self.pool.stat(object).await.unwrap().0.size_bytes
    }

    pub(super) async fn omap_pages(
        &self,
        object: &ObjectId,
        prefix: &'static str,
        page_entries: usize,
    ) -> Vec<Vec<(Bytes, Bytes)>> {
        let mut pages: Vec<Vec<(Bytes, Bytes)>> = Vec::new();
        loop {
            let after = pages.last().and_then(|page| page.last()).map(|(key, _)| key.clone());
            let range = Fetch::omap_range(after, prefix, page_entries);
            let (page, _) = self.pool.fetch(object, range).await.unwrap();
            assert!(!page.more || !page.entries.is_empty(), "an empty page that is not the last");
            pages.push(page.entries);
            if !page.more {
                return pages;
            }
        }
    }

    pub(super) fn list_request(&self) -> ListRequest {
        ListRequest { namespaces: Namespaces::One(self.namespace().to_owned()), ..ListRequest::default() }
    }

    /// Lists all pages after `after`.
    pub(super) async fn list_pages(
        &self,
        request: &ListRequest,
        mut after: Option<ListToken>,
    ) -> Vec<ListPage> {
        let mut pages = Vec::new();
        loop {
            let page = self.pool.list(ListRequest { after, ..request.clone() }).await.unwrap();
            assert!(page.objects.len() <= request.objects_max, "{} objects", page.objects.len());
            after = page.next.clone();
            pages.push(page);
            if after.is_none() {
                return pages;
            }
        }
    }

    pub(super) async fn exec(
        &self,
        object: &ObjectId,
        class: &str,
        method: &str,
        input: &str,
    ) -> Result<Bytes> {
        self.pool.exec(object, ClassCall::new(class, method, input.to_owned())).await
    }
}

/// The error kind of a call that must fail.
#[track_caller]
pub(super) fn kind<T: fmt::Debug>(result: Result<T>) -> ErrorKind {
    match result {
        Ok(value) => panic!("expected an error, got {value:?}"),
        Err(error) => error.kind(),
    }
}

/// Test data with the period 251: byte `index` is `index % 251`.
pub(super) fn pattern(len_bytes: usize) -> Vec<u8> {
    (0..len_bytes).map(|index| (index % 251) as u8).collect()
}
