use super::{
    CONNECTION_BYTES_MAX, CONNECTION_PARKED_BYTES_MAX, MEMORY_BYTES_MAX, PARKED_BYTES_MAX, Quota,
    REQUESTS_MAX, Resources, STALL_LIMIT, Share,
};
use std::io;
use std::time::Duration;

async fn share(quota: &Quota, bytes: usize) -> Share {
    quota.share(quota.slot().await.unwrap(), bytes as u64).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_stalled_client_is_disconnected_only_when_memory_is_short() {
    let resources = Resources::new(1);
    let connection = Quota::new(resources.clone(), 0);
    let stalled = connection.wait_for_client(std::future::pending::<io::Result<()>>());
    let mut stalled = std::pin::pin!(stalled);
    assert!(tokio::time::timeout(STALL_LIMIT * 10, &mut stalled).await.is_err());

    let connections = MEMORY_BYTES_MAX / CONNECTION_BYTES_MAX;
    let mut shares = Vec::new();
    for _ in 0..connections {
        shares.push(share(&Quota::new(resources.clone(), 0), CONNECTION_BYTES_MAX).await);
    }
    let error = tokio::time::timeout(STALL_LIMIT * 2, stalled).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn a_connection_waits_for_its_own_requests() {
    let resources = Resources::new(1);
    let quota = Quota::new(resources.clone(), 0);
    let half = CONNECTION_BYTES_MAX / 2;
    let first = share(&quota, half).await;
    let _second = share(&quota, half).await;
    let wait = Duration::from_secs(60);
    assert!(tokio::time::timeout(wait, share(&quota, 1)).await.is_err());
    share(&Quota::new(resources, 0), half).await;
    drop(first);
    assert!(tokio::time::timeout(wait, share(&quota, 1)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_number_of_requests_is_limited() {
    let quota = Quota::new(Resources::new(1), 0);
    let mut shares = Vec::new();
    for _ in 0..REQUESTS_MAX {
        shares.push(share(&quota, 0).await);
    }
    let wait = Duration::from_secs(60);
    assert!(tokio::time::timeout(wait, quota.slot()).await.is_err());
    assert!(tokio::time::timeout(wait, quota.all_done()).await.is_err());
    shares.clear();
    assert!(tokio::time::timeout(wait, quota.all_done()).await.is_ok());
}

#[test]
fn throttled_writes_hold_little_data() {
    let resources = Resources::new(1);
    let connection = Quota::new(resources.clone(), 0);
    let parked = connection.park(CONNECTION_PARKED_BYTES_MAX as u64).unwrap();
    assert!(connection.park(1).is_none());
    drop(parked);
    assert!(connection.park(CONNECTION_PARKED_BYTES_MAX as u64 + 1).is_none());
    let park = |bytes: usize| Quota::new(resources.clone(), 0).park(bytes as u64);
    let all: Vec<_> = (0..PARKED_BYTES_MAX / CONNECTION_PARKED_BYTES_MAX)
        .map(|_| park(CONNECTION_PARKED_BYTES_MAX).unwrap())
        .collect();
    assert!(park(1).is_none());
    drop(all);
    assert!(park(1).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_stalled_client_is_disconnected_when_its_export_waits_for_memory() {
    let resources = Resources::new(2);
    let stalled = |export| {
        let connection = Quota::new(resources.clone(), export);
        async move { connection.wait_for_client(std::future::pending::<io::Result<()>>()).await }
    };
    let mut shares = Vec::new();
    for _ in 0..MEMORY_BYTES_MAX / CONNECTION_BYTES_MAX / 2 {
        shares.push(share(&Quota::new(resources.clone(), 0), CONNECTION_BYTES_MAX).await);
    }
    let next = Quota::new(resources.clone(), 0);
    let mut next = std::pin::pin!(share(&next, CONNECTION_BYTES_MAX));
    assert!(tokio::time::timeout(STALL_LIMIT, &mut next).await.is_err());
    // The other export has enough.
    assert!(tokio::time::timeout(STALL_LIMIT * 10, stalled(1)).await.is_err());
    assert!(tokio::time::timeout(STALL_LIMIT * 2, stalled(0)).await.unwrap().is_err());
}
