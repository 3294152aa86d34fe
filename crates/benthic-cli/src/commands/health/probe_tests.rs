use super::{Prober, is_of_another, is_of_cluster, pad};
use benthic_core::{ErrorKind, ListRequest, Namespaces, Store};
use benthic_embedded::{MemStore, Options};
use bytes::Bytes;

#[tokio::test]
async fn a_probe_leaves_nothing_behind() {
    let store = MemStore::new(Options::default());
    store.create_pool("p").await.unwrap();
    let pool = store.open_pool("p").await.unwrap();
    let mut prober = Prober::new(pool.clone()).unwrap();
    // As after a probe that was killed between its steps.
    pool.write_full(&prober.object, Bytes::from_static(b"left")).await.unwrap();
    assert!(prober.object.name().starts_with("benthic-health-probe."));
    for _ in 0..2 {
        let probe = prober.probe().await;
        assert!(probe.error.is_none() && probe.write_ms.is_some() && probe.read_ms.is_some(), "{probe:?}");
    }
    let request = ListRequest { namespaces: Namespaces::All, ..ListRequest::default() };
    assert!(pool.list(request).await.unwrap().objects.is_empty());
}

#[tokio::test]
async fn another_probe_of_this_host_is_distinguished_from_damage() {
    let store = MemStore::new(Options::default());
    store.create_pool("p").await.unwrap();
    let mut prober = Prober::new(store.open_pool("p").await.unwrap()).unwrap();
    let own = prober.payload();
    prober.probes += 1;
    assert!(own != prober.payload(), "no two probes write the same");
    assert!(!is_of_another(&own, &prober.mark), "an older one of its own is a write that was lost");
    // The first process of every container has the same ID.
    let pid = std::process::id();
    assert!(prober.mark.ends_with(&format!(".{pid}.")));
    let other = pad(format!("17.{pid}.1;").as_bytes());
    assert!(is_of_another(&other, &prober.mark) && is_of_another(&pad(b"1.17;"), &prober.mark));
    let mut damaged = other.to_vec();
    damaged[2_000] ^= 1;
    for read in [&damaged[..], &other[..100], b"", b";"] {
        assert!(!is_of_another(read, &prober.mark), "{}", read.len());
    }
}

#[test]
fn interference_by_other_probes_is_no_symptom_of_the_cluster() {
    assert!(!is_of_cluster(ErrorKind::Busy) && !is_of_cluster(ErrorKind::PermissionDenied));
    assert!(is_of_cluster(ErrorKind::Unavailable) && is_of_cluster(ErrorKind::Corrupt));
}

#[tokio::test]
async fn a_removed_pool_is_no_outage() {
    let store = MemStore::new(Options::default());
    store.create_pool("p").await.unwrap();
    let mut prober = Prober::new(store.open_pool("p").await.unwrap()).unwrap();
    store.remove_pool("p").await.unwrap();
    let error = prober.probe().await.error.unwrap();
    assert_eq!((error.step.as_str(), error.of_cluster), ("write", false));
}
