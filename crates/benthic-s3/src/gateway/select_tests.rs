use super::{InGateway, MESSAGE_BYTES, Places, QUERIES_OF_ACCOUNT_MAX};
use benthic_classes::select::Host;
use benthic_classes::select::wire::Totals;
use benthic_core::{ErrorKind, ManualClock};
use futures::FutureExt;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::mpsc::channel;

#[test]
fn one_account_leaves_places_for_others() {
    let places = Places::default();
    let take = |account| places.take(account).now_or_never().flatten();
    let held: Vec<_> = std::iter::from_fn(|| take("reef")).collect();
    assert_eq!(held.len(), QUERIES_OF_ACCOUNT_MAX);
    assert!(take("lab").is_some());
    drop(held);
    assert!(take("reef").is_some());
    assert_eq!(places.of_accounts.lock().len(), 1);
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_a_query_for_a_limited_time() {
    let (_to_query, data) = channel(1);
    let (to_client, _events) = channel(1);
    let query = tokio::task::spawn_blocking(move || {
        let clock = Arc::new(ManualClock::default());
        let mut host = InGateway {
            data,
            ranges: None,
            to_client,
            clock: clock.clone(),
            since_ms: 0,
            computed_ms: 0,
            ends_ms: 50,
            runtime: Handle::current(),
            progress_at: None,
        };
        host.check(Totals::default()).unwrap();
        let write = host.write(vec![0; 2 * MESSAGE_BYTES]).unwrap_err().kind();
        let read = host.read().unwrap_err().kind();
        clock.advance_ms(50);
        [write, read, host.check(Totals::default()).unwrap_err().kind()]
    });
    assert_eq!(query.await.unwrap(), [ErrorKind::LimitExceeded; 3]);
}
