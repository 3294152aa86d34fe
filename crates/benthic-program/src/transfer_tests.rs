use super::{Download, Replaced, SOURCE_XATTR, Source, read_state, upload};
use benthic_core::{Error, ErrorKind, ObjectId, Pool, Result, WriteOp, limits};
use benthic_embedded::{MemStore, Options};
use benthic_testkit::faulty::FaultyPool;
use bytes::Bytes;
use futures::executor::block_on;
use std::thread;

/// Data that exceed the limit of one operation.
fn large() -> Bytes {
    Bytes::from(vec![7; usize::try_from(limits::OPERATION_BYTES_MAX + 1).unwrap()])
}

async fn pool(
    fault: impl Fn(usize, WriteOp, &dyn Pool) -> Result<WriteOp> + Send + Sync + 'static,
) -> FaultyPool {
    FaultyPool::create(MemStore::new(Options::default()), fault).await
}

fn object() -> ObjectId {
    ObjectId::new("o").unwrap()
}

#[test]
fn a_large_upload_is_complete_and_records_its_source() {
    block_on(async {
        let pool = pool(|_, op, _| Ok(op)).await;
        let size_bytes = large().len() as u64;
        let source = Source { size_bytes, modified_unix_ns: -1, xxh3: "x".to_owned() };
        let version = upload(&pool, &object(), Replaced::Any, large(), Some(&source)).await.unwrap();
        let known = read_state(&pool, &object()).await.unwrap();
        assert_eq!((known.version, known.stat.size_bytes), (version, size_bytes));
        assert_eq!(known.source, Some(source));
        // A write without a source removes the record.
        upload(&pool, &object(), Replaced::Any, large(), None).await.unwrap();
        assert_eq!(read_state(&pool, &object()).await.unwrap().source, None);
        let missing = pool.inner.get_xattr(&object(), SOURCE_XATTR).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_failed_upload_removes_the_incomplete_object() {
    block_on(async {
        let pool = pool(|number, op, _| match number {
            1 => Err(Error::new(ErrorKind::Unavailable, "gone for a moment")),
            _ => Ok(op),
        })
        .await;
        let error = upload(&pool, &object(), Replaced::Any, large(), None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(pool.inner.stat(&object()).await.unwrap_err().kind(), ErrorKind::NotFound);
    });
    block_on(async {
        let pool = pool(|number, op, _| match number {
            0 => Ok(op),
            _ => Err(Error::new(ErrorKind::Unavailable, "gone for good")),
        })
        .await;
        let error = upload(&pool, &object(), Replaced::Any, large(), None).await.unwrap_err();
        assert!(error.to_string().contains("benthic rm"), "{error}");
    });
}

#[test]
fn an_upload_keeps_the_data_of_a_concurrent_writer() {
    block_on(async {
        let pool = pool(|number, op, sound| {
            if number == 1 {
                // Use another thread: the current one runs the upload.
                let theirs = || block_on(sound.write_full(&object(), "theirs")).unwrap();
                thread::scope(|scope| scope.spawn(theirs).join().unwrap());
            }
            Ok(op)
        })
        .await;
        let error = upload(&pool, &object(), Replaced::Any, large(), None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(pool.inner.read_range(&object(), 0, 100).await.unwrap(), "theirs");
    });
}

#[test]
fn an_upload_replaces_only_the_expected_object() {
    block_on(async {
        let pool = pool(|_, op, _| Ok(op)).await;
        let upload = async |replaced, data| upload(&pool, &object(), replaced, data, None).await;
        let version = upload(Replaced::Nothing, Bytes::from_static(b"first")).await.unwrap();
        let second = upload(Replaced::Version(version), Bytes::from_static(b"second")).await.unwrap();
        for replaced in [Replaced::Nothing, Replaced::Version(version)] {
            for data in [Bytes::from_static(b"third"), large()] {
                let error = upload(replaced, data).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            }
        }
        assert_eq!(read_state(&pool, &object()).await.unwrap().version, second);
    });
}

#[test]
fn a_download_fails_if_the_object_changes() {
    block_on(async {
        let pool = pool(|_, op, _| Ok(op)).await;
        upload(&pool, &object(), Replaced::Any, Bytes::from(vec![1; 9 * 1024 * 1024]), None).await.unwrap();
        let id = object();
        let mut download = Download::start(&pool, &id).await.unwrap();
        assert_eq!(download.next().await.unwrap().unwrap().len(), 8 * 1024 * 1024);
        upload(&pool, &id, Replaced::Any, Bytes::from_static(b"other"), None).await.unwrap();
        assert_eq!(download.next().await.unwrap_err().kind(), ErrorKind::Conflict);
        let mut download = Download::start(&pool, &id).await.unwrap();
        assert_eq!(download.next().await.unwrap().unwrap(), "other");
        assert_eq!(download.next().await.unwrap(), None);
    });
}
