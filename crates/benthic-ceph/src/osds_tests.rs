use super::{leads_its_object, osds};
use crate::cluster_client::ClusterClient;
use async_trait::async_trait;
use benthic_core::{
    Clock, Error, ErrorKind, LibraryCalls, LibraryFailures, LibraryInfo, ManualClock, Result,
};
use serde_json::{Value, json};
use tokio::runtime::Builder;

/// A cluster in which somebody removes the pool `gone` after the client has read the map.
struct ShrinkingCluster(ManualClock);

#[async_trait]
impl ClusterClient for ShrinkingCluster {
    fn clock(&self) -> &dyn Clock {
        &self.0
    }

    async fn ask_monitors(&self, question: Value) -> Result<Vec<u8>> {
        let answer = match (question["prefix"].as_str(), question["pool"].as_str()) {
            (Some("osd dump"), _) => {
                let map = include_bytes!("placement/testdata/osds.json");
                let mut map: Value = serde_json::from_slice(map).unwrap();
                let mut pool = map["pools"][0].clone();
                let named = ["gone", "kept"].map(|name| {
                    pool["pool_name"] = json!(name);
                    pool.clone()
                });
                map["pools"] = json!(named);
                map
            }
            (Some("osd map"), Some("kept")) => {
                let name = question["object"].as_str().unwrap();
                let number: i64 = name.rsplit('.').next().unwrap().parse().unwrap();
                json!({ "acting_primary": number % 6, "pgid": "1.0" })
            }
            _ => return Err(Error::new(ErrorKind::NotFound, "the monitors refused the command")),
        };
        Ok(answer.to_string().into_bytes())
    }

    async fn ask_manager(&self, _: Value) -> Result<Vec<u8>> {
        unreachable!()
    }

    async fn tell_monitors(&self, _: Value, _: Vec<u8>) -> Result<()> {
        unreachable!()
    }

    async fn reach(&self, _: &str, _: &str) -> Result<()> {
        unreachable!()
    }

    async fn library_at(&self, _: &str, _: &str, _: &str) -> Result<Option<LibraryInfo>> {
        unreachable!()
    }

    async fn failures_at(&self, _: &str, _: &str, _: &str) -> Result<Option<LibraryFailures>> {
        unreachable!()
    }

    async fn calls_at(&self, _: &str, _: &str, _: &str) -> Result<Option<LibraryCalls>> {
        unreachable!()
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    Builder::new_current_thread().build().unwrap().block_on(work)
}

#[test]
fn a_pool_that_is_removed_meanwhile_is_left_out() {
    let cluster = ShrinkingCluster(ManualClock::default());
    let mut found = block_on(osds(&cluster)).unwrap();
    assert!(!found.is_empty());
    for osd in found.iter().filter(|osd| osd.up) {
        assert_eq!(osd.object.as_ref().map(|(pool, _)| pool.as_str()), Some("kept"));
        assert!(block_on(leads_its_object(&cluster, osd)).unwrap());
    }
    let mut osd = found.remove(0);
    osd.object = Some(("gone".to_owned(), "benthic.describe.0".to_owned()));
    assert!(!block_on(leads_its_object(&cluster, &osd)).unwrap());
}
