use super::Page;
use async_trait::async_trait;
use benthic_core::{
    ClassCall, ListPage, ListRequest, ListToken, Namespaces, ObjectId, Pool, ReadOp, ReadReply, Result,
    WriteOp, WriteReply,
};
use bytes::Bytes;
use futures::executor::block_on;
use std::collections::BTreeSet;

/// A pool that lists its names in another order than theirs, as a cluster does. A token is a number
/// of names.
struct Unordered(Vec<ObjectId>);

#[async_trait]
impl Pool for Unordered {
    fn name(&self) -> &str {
        "p"
    }

    async fn read(&self, _: &ObjectId, _: ReadOp) -> Result<ReadReply> {
        panic!("a listing reads no object")
    }

    async fn write(&self, _: &ObjectId, _: WriteOp) -> Result<WriteReply> {
        panic!("a listing writes no object")
    }

    async fn exec(&self, _: &ObjectId, _: ClassCall) -> Result<Bytes> {
        panic!("a listing calls no method")
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        let start = request.after.map_or(0, |token| usize::from_le_bytes(token.0[..].try_into().unwrap()));
        let end = self.0.len().min(start + request.objects_max);
        let objects = self.0[start..end].iter().filter(|object| object.name().starts_with(&request.prefix));
        let next = (end < self.0.len()).then(|| ListToken(Bytes::copy_from_slice(&end.to_le_bytes())));
        Ok(ListPage { objects: objects.cloned().collect(), next })
    }
}

fn pool() -> Unordered {
    let mut names: Vec<String> = (0..150).map(|number| format!("object-{number:03}")).collect();
    names.extend((0..3_000).map(|number| format!("logs/2026/{number:04}.txt")));
    names.extend((0..200).map(|number| format!("logs/{number:03}/x")));
    names.extend(["rare/one", "rare/", "/", "é/ü/ö"].map(str::to_owned));
    names.sort_by_key(|name| name.bytes().rev().collect::<Vec<_>>());
    Unordered(names.into_iter().map(|name| ObjectId::new(name).unwrap()).collect())
}

fn pages(pool: &Unordered, prefix: &str, entries_max: usize) -> Vec<Page> {
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let mut page = Page { objects: Vec::new(), prefixes: Vec::new(), next: None, is_cut: false };
        let namespaces = Namespaces::One(String::new());
        let request = ListRequest { namespaces, prefix: prefix.to_owned(), after, objects_max: entries_max };
        block_on(page.fill_folders(pool, request, "/")).unwrap();
        let next = page.next.clone();
        pages.push(page);
        if next.is_none() {
            return pages;
        }
        after = next;
    }
}

#[test]
fn pages_of_folders_have_each_object_once_in_any_order_of_names() {
    let pool = pool();
    for prefix in ["", "logs/", "logs/2026/", "rare/", "none", "/", "é/"] {
        let (mut objects, mut folders) = (Vec::new(), BTreeSet::new());
        for object in pool.0.iter().filter(|object| object.name().starts_with(prefix)) {
            match object.name()[prefix.len()..].find('/') {
                Some(at) => _ = folders.insert(object.name()[..=prefix.len() + at].to_owned()),
                None => objects.push(object.clone()),
            }
        }
        objects.sort();
        for entries_max in [1, 2, 7, 100, 1_000] {
            let (mut found, mut found_folders) = (Vec::new(), BTreeSet::new());
            for page in pages(&pool, prefix, entries_max) {
                let entries = page.objects.len() + page.prefixes.len();
                assert!(entries <= entries_max, "{prefix} {entries_max}: {entries}");
                assert!(page.objects.is_sorted() && page.prefixes.is_sorted());
                found.extend(page.objects);
                found_folders.extend(page.prefixes);
            }
            found.sort();
            assert!(found == objects && found_folders == folders, "{prefix} {entries_max}");
        }
    }
}

#[test]
fn many_names_of_few_folders_are_one_page() {
    let names = (0..20_000).map(|number| ObjectId::new(format!("{}/{number}", number % 5)).unwrap());
    let listed = pages(&Unordered(names.collect()), "", 100);
    assert!(listed.len() == 1 && listed[0].prefixes.len() == 5, "{}", listed.len());
}
