use benthic_core::{Error, ErrorKind};
use benthic_s3::gateway::single_flight::SingleFlight;
use futures::future::join_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

#[tokio::test(flavor = "multi_thread")]
async fn requests_share_reads_and_see_no_stale_value() {
    let (now, reads) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let read = {
        let (now, reads) = (Arc::clone(&now), Arc::clone(&reads));
        move |_| {
            let (now, reads) = (Arc::clone(&now), Arc::clone(&reads));
            async move {
                reads.fetch_add(1, SeqCst);
                let found = now.load(SeqCst);
                tokio::task::yield_now().await;
                Ok(found)
            }
        }
    };
    let lookups = SingleFlight::new(read);
    let clients = (0..64).map(|_| {
        let (lookups, now) = (Arc::clone(&lookups), Arc::clone(&now));
        tokio::spawn(async move {
            for _ in 0..100 {
                let written = now.fetch_add(1, SeqCst) + 1;
                assert!(lookups.get("b").await.unwrap() >= written);
            }
        })
    });
    join_all(clients).await.into_iter().for_each(|client| client.unwrap());
    assert!(reads.load(SeqCst) < 64 * 100 / 2, "{reads:?}");
    assert!(lookups.is_idle());
    assert!(lookups.last_read("b").is_some_and(|value| value <= now.load(SeqCst)));
}

#[tokio::test]
async fn every_request_gets_the_error() {
    let lookups = SingleFlight::<()>::new(async |name| {
        Err(Error::new(ErrorKind::NotFound, "not there").with("name", name))
    });
    let found = join_all(["a", "b", "a"].map(|name| lookups.get(name))).await;
    assert!(found.iter().all(|found| found.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound)));
}
