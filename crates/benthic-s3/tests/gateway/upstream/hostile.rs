//! Upstreams with answers that S3 never sends.

use super::far::{self, Far, RUNTIME};
use crate::sal::{finish, kind, put, read};
use benthic_core::{Environment, ErrorKind, Stopwatch};
use benthic_s3::sal::{Bucket, Buckets, List, ListKind, ListPosition, NewBucket, Objects};
use benthic_s3::upstream::{self, Credentials, UpstreamSal};
use benthic_testkit::wait;
use futures::executor::block_on;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const HANG: &str = "hang";

/// Answers each request with the next of these, and closes the connection; repeats the last byte if
/// it is a `*`. It reads no more than the head, and keeps the connection open, for [`HANG`].
struct Hostile {
    address: String,
    answers: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Hostile {
    fn start() -> Hostile {
        let answers: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let listener = RUNTIME.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::clone(&answers);
        RUNTIME.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let answers = Arc::clone(&shared);
                tokio::spawn(async move {
                    let mut request = vec![0; 64 << 10];
                    let len = stream.read(&mut request).await.unwrap_or(0);
                    // The driver's request for the properties of the bucket.
                    let is_bucket = String::from_utf8_lossy(&request[..len]).contains("/photos?versioning=");
                    let answer = if is_bucket {
                        b"HTTP/1.1 200 OK\r\ncontent-length: 27\r\n\r\n<VersioningConfiguration/>\n".to_vec()
                    } else {
                        let mut answers = answers.lock().unwrap();
                        if answers.is_empty() { Vec::new() } else { answers.remove(0) }
                    };
                    if answer == HANG.as_bytes() {
                        std::future::pending::<()>().await;
                    }
                    let _ = stream.write_all(&answer).await;
                    if answer.ends_with(b"*") {
                        let endless = vec![b'x'; 64 << 10];
                        while stream.write_all(&endless).await.is_ok() {}
                    }
                    let _ = stream.shutdown().await;
                });
            }
        });
        Hostile { address, answers }
    }

    fn driver(&self) -> (Arc<UpstreamSal>, Bucket, TempDir) {
        self.driver_that_waits(Duration::from_secs(1))
    }

    fn driver_that_waits(&self, answer_timeout: Duration) -> (Arc<UpstreamSal>, Bucket, TempDir) {
        let credentials =
            Credentials { access_key: "key".into(), secret_key: "secret".into(), session_token: None };
        let far = Far { address: self.address.clone(), credentials };
        let cache = tempfile::Builder::new().prefix("benthic-s3").tempdir().unwrap();
        let mut options: upstream::Options = far.options(&far.address, cache.path());
        options.endpoint.answer_timeout = answer_timeout;
        let own = far::in_memory();
        let new = NewBucket { name: "photos".into(), owner: "main".into(), ..NewBucket::default() };
        block_on(own.create_bucket(new)).unwrap();
        let sal = far::open(own, options);
        let bucket = block_on(sal.bucket("photos")).unwrap();
        (sal, bucket, cache)
    }

    fn answer(&self, answers: &[&str]) {
        *self.answers.lock().unwrap() = answers.iter().map(|answer| answer.as_bytes().to_vec()).collect();
    }
}

/// Lets the driver forget that the upstream did not answer.
fn wait() {
    wait::pause(2 * far::RETRY_AFTER);
}

/// The result of a call, and how long it took.
fn timed<T>(call: impl FnOnce() -> T) -> (T, Duration) {
    let clock = Environment::default().clock;
    let watch = Stopwatch::start(clock.as_ref());
    (call(), watch.elapsed())
}

#[test]
fn an_upload_without_progress_is_given_up() {
    let upstream = Hostile::start();
    let (sal, bucket, _cache) = upstream.driver_that_waits(Duration::from_millis(200));
    // More than the buffers of the system hold; and less, where only the answer is missing. The
    // time for all of the former would be eight minutes.
    for (len, seconds_max) in [(32 << 20, 10), (1_000, 10)] {
        upstream.answer(&[HANG]);
        let data = vec![b'x'; len];
        let (stored, took) = timed(|| put(sal.as_ref(), &bucket, "k", &data, finish(&data)).map(drop));
        assert_eq!(kind(stored), ErrorKind::OutcomeUnknown);
        assert!(took < Duration::from_secs(seconds_max), "{len} {took:?}");
    }
}

#[test]
fn reads_do_not_wait_for_an_upstream_that_hangs() {
    let upstream = Hostile::start();
    let (sal, bucket, _cache) = upstream.driver_that_waits(Duration::from_secs(2));
    let head = "HTTP/1.1 200 OK\r\netag: \"a\"\r\ncontent-length: 5\r\n\r\n";
    let find = || block_on(sal.object(&bucket, "k", None)).map(|object| upstream::is_stale(&object));
    upstream.answer(&[head]);
    assert!(!find().unwrap());
    upstream.answer(&[HANG; 10]);
    let (found, took) = timed(find);
    assert!(found.unwrap() && took >= Duration::from_secs(2), "{took:?}");
    // A request of its own finds out whether the upstream is back.
    for _ in 0..2 {
        wait();
        let (found, took) = timed(find);
        assert!(found.unwrap() && took < Duration::from_secs(1), "{took:?}");
    }
    // It has to end first.
    wait::pause(Duration::from_secs(2));
    upstream.answer(&[head, head]);
    assert!(!find().unwrap(), "the first read after the outage is current");
}

#[test]
fn documents_that_are_not_valid_are_errors() {
    let upstream = Hostile::start();
    let (sal, bucket, _cache) = upstream.driver();
    let deep = "<a>".repeat(1_000);
    let many = format!("<R>{}</R>", "<a/>".repeat(200_000));
    let bodies = [
        "",
        "garbage",
        "<ListBucketResult><Contents>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        "<ListBucketResult><Contents><Key>%zz</Key><Size>1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>k</Key><Size>-1</Size></Contents></ListBucketResult>",
        "<!DOCTYPE a [<!ENTITY b \"c\">]><ListBucketResult>&b;</ListBucketResult>",
        "<a></a><b></b>",
        &deep,
        &many,
    ];
    for body in bodies {
        upstream.answer(&[&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())]);
        let list = List {
            kind: ListKind::Objects,
            prefix: String::new(),
            delimiter: String::new(),
            after: None,
            entries_max: 10,
        };
        let listed = block_on(sal.list(&bucket, &list));
        assert_eq!(kind(listed), ErrorKind::Unavailable, "{}", &body[..body.len().min(80)]);
    }
}

#[test]
fn heads_that_are_not_valid_are_errors() {
    let upstream = Hostile::start();
    let (sal, bucket, _cache) = upstream.driver();
    for answer in [
        "",
        "garbage\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\netag: \"a\"\r\ncontent-length: -5\r\n\r\n",
        "HTTP/1.1 200 OK\r\netag: \"a\"\r\ncontent-length: 5\r\nlast-modified: yesterday\r\n\r\n",
        "HTTP/1.1 200 OK\r\netag: \"\"\r\ncontent-length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\netag: \"a\"\r\ncontent-range: bytes 0-0/18446744073709551615\r\n\r\n",
        "HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nlocation: http://example.org/\r\ncontent-length: 0\r\n\r\n",
        &format!("HTTP/1.1 200 OK\r\netag: \"{}\"\r\ncontent-length: 5\r\n\r\n", "e".repeat(1_000)),
        // An endless head.
        "HTTP/1.1 200 OK\r\nx-amz-meta-a: *",
    ] {
        upstream.answer(&[answer]);
        let found = block_on(sal.object(&bucket, "k", None));
        assert_eq!(kind(found.map(|_| ())), ErrorKind::Unavailable, "{answer}");
        if sal.metrics().is_up.load(Relaxed) == 0 {
            wait();
        }
    }
}

#[test]
fn data_that_are_not_valid_are_errors_and_are_not_cached() {
    let upstream = Hostile::start();
    let (sal, bucket, cache) = upstream.driver();
    let head = "HTTP/1.1 200 OK\r\netag: \"a\"\r\ncontent-length: 5\r\n\r\n";
    upstream.answer(&[head]);
    let object = block_on(sal.object(&bucket, "k", None)).unwrap();
    let block = |range: &str, etag: &str, len: usize, data: &str| {
        format!(
            "HTTP/1.1 206 Partial\r\netag: \"{etag}\"\r\ncontent-range: {range}\r\ncontent-length: {len}\r\n\r\n{data}"
        )
    };
    let right = "bytes 0-4/5";
    let answers = [
        block(right, "a", 5, "123"),
        block(right, "a", 3, "123"),
        block(right, "a", 6, "123456"),
        block(right, "b", 5, "12345"),
        block("bytes 0-4/6", "a", 5, "12345"),
        block("bytes 1-5/6", "a", 5, "12345"),
        block("none", "a", 5, "12345"),
        "HTTP/1.1 206 Partial\r\netag: \"a\"\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\netag: \"a\"\r\ncontent-length: 5\r\n\r\n12345".to_owned(),
        "HTTP/1.1 206 Partial\r\netag: \"a\"\r\ncontent-range: bytes 0-4/5\r\n\r\n*".to_owned(),
        "HTTP/1.1 206 Partial\r\netag: \"a\"\r\ntransfer-encoding: chunked\r\n\r\nfffffff\r\n*".to_owned(),
        "HTTP/1.1 403 Forbidden\r\ncontent-length: 9999999\r\n\r\n*".to_owned(),
    ];
    for answer in &answers {
        upstream.answer(&[answer]);
        let found = read(sal.as_ref(), &bucket, &object);
        assert_eq!(kind(found), ErrorKind::Unavailable, "{answer}");
        if sal.metrics().is_up.load(Relaxed) == 0 {
            wait();
        }
    }
    let of_block = |path: &std::path::PathBuf| !std::fs::read(path).unwrap().ends_with(b"}");
    let files = super::cache::files(&cache.path().join("blocks"));
    assert!(!files.iter().any(of_block), "only the head is in the cache");
    // The same object with the right answer.
    upstream.answer(&[&block(right, "a", 5, "12345")]);
    assert_eq!(read(sal.as_ref(), &bucket, &object).unwrap(), b"12345");
    assert_eq!(read(sal.as_ref(), &bucket, &object).unwrap(), b"12345", "now it is in the cache");
}

#[test]
fn a_request_that_cannot_be_sent_concerns_only_its_caller() {
    let upstream = Hostile::start();
    let (sal, bucket, _cache) = upstream.driver();
    let requests = sal.metrics().requests.load(Relaxed);
    let mut lines = finish(b"");
    lines.attributes.insert("content-type".into(), "text\n/plain".into());
    let failed = put(sal.as_ref(), &bucket, "k", b"", lines);
    assert_eq!(kind(failed), ErrorKind::InvalidArgument);
    let after = Some(ListPosition { key: "\u{1}".repeat(22 << 10), within: None });
    let (prefix, delimiter) = (String::new(), String::new());
    let list = List { kind: ListKind::Objects, prefix, delimiter, after, entries_max: 10 };
    assert_eq!(kind(block_on(sal.list(&bucket, &list))), ErrorKind::LimitExceeded);
    assert_eq!(sal.metrics().requests.load(Relaxed), requests, "nothing was sent");
    assert_eq!(sal.metrics().is_up.load(Relaxed), 1);
}

#[test]
fn a_bucket_that_cannot_be_read_is_not_listed() {
    let upstream = Hostile::start();
    let (sal, _bucket, _cache) = upstream.driver();
    let bucket = |name| format!("<Bucket><Name>{name}</Name></Bucket>");
    let names = [bucket("closed"), bucket("photos"), bucket("Not_A_Name")].concat();
    let names = format!("<ListAllMyBucketsResult><Buckets>{names}</Buckets></ListAllMyBucketsResult>");
    upstream.answer(&[
        &format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{names}", names.len()),
        "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n",
    ]);
    let (found, more) = block_on(sal.list_buckets("main", None, 10)).unwrap();
    let found: Vec<&str> = found.iter().map(|bucket| bucket.name.as_str()).collect();
    assert_eq!((found, more), (vec!["photos"], false));
}

#[test]
fn a_bucket_whose_creation_had_no_answer_keeps_its_owner() {
    let upstream = Hostile::start();
    let (sal, _bucket, _cache) = upstream.driver();
    upstream.answer(&["HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", ""]);
    let new = NewBucket { name: "fresh".into(), owner: "ada".into(), ..NewBucket::default() };
    assert_eq!(kind(block_on(sal.create_bucket(new))), ErrorKind::OutcomeUnknown);
    wait();
    let versioning = "<VersioningConfiguration/>\n";
    upstream.answer(&[&format!("HTTP/1.1 200 OK\r\ncontent-length: 27\r\n\r\n{versioning}")]);
    assert_eq!(block_on(sal.bucket("fresh")).unwrap().owner, "ada");
}
