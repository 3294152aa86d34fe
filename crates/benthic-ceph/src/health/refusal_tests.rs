use super::refuse_this_client;
use crate::health::snapshot::{SilentOsd, Snapshot};
use serde_json::{Value, json};
use std::io::{Result, Write};
use std::net::TcpListener;
use std::thread;
use tokio::runtime::Builder;

/// An OSD in `osd dump` at whose address a daemon sends these bytes to one client.
fn daemon(id: i64, banner: &'static [u8]) -> Value {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || -> Result<()> { listener.accept()?.0.write_all(banner) });
    // Nothing listens at the address of the older protocol.
    let first = json!({ "type": "v2", "addr": address, "nonce": 7 });
    json!({ "osd": id, "up": 1, "in": 1, "public_addrs": { "addrvec": [first] }, "public_addr": "127.0.0.1:1/7" })
}

/// The same, as Ceph reports an OSD that does not use msgr2.
fn older(id: i64, banner: &'static [u8]) -> Value {
    let mut osd = daemon(id, banner);
    let address = osd["public_addrs"]["addrvec"][0]["addr"].as_str().unwrap().to_owned() + "/7";
    osd["public_addr"] = json!(address);
    osd["public_addrs"] = json!({ "addrvec": [] });
    osd
}

fn cluster(release: &str, osds: &[Value]) -> Snapshot {
    let version = format!("ceph version {release} (6b0e98) (stable)");
    Snapshot {
        map: serde_json::from_value(json!({ "pools": [], "osds": osds })).unwrap(),
        versions: serde_json::from_value(json!({ "osd": { version: osds.len() } })).unwrap(),
        ..Snapshot::default()
    }
}

/// The result for a cluster in which none of these OSDs answered.
fn refuse(silent: &[i64], cluster: &Snapshot) -> bool {
    let silent: Vec<SilentOsd> =
        silent.iter().map(|osd| SilentOsd { osd: *osd, pg: "1.0".to_owned() }).collect();
    Builder::new_current_thread().build().unwrap().block_on(refuse_this_client(&silent, cluster))
}

#[test]
fn osds_that_send_a_banner_and_answer_no_request_refuse_the_client() {
    let osds = || [daemon(0, b"ceph v2\n\x10\0"), older(1, b"ceph v027")];
    assert!(refuse(&[0, 1], &cluster("18.2.7", &osds())));
    assert!(!refuse(&[0, 1], &cluster("16.2.15", &osds())), "16 answers with an error");
    let mut unknown = cluster("18.2.7", &osds());
    unknown.versions = None;
    assert!(!refuse(&[0, 1], &unknown));
    assert!(!refuse(&[], &cluster("18.2.7", &osds())));
}

#[test]
fn an_osd_without_a_banner_refuses_nobody() {
    for bytes in [&b""[..], b"ceph", b"SSH-2.0-OpenSSH"] {
        let osds = [daemon(0, b"ceph v2\n"), daemon(1, bytes)];
        assert!(!refuse(&[0, 1], &cluster("18.2.7", &osds)), "{bytes:?}");
    }
    // The kernel accepts connections for a process that is stopped.
    let stopped = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut osd = daemon(1, b"");
    osd["public_addrs"]["addrvec"][0]["addr"] = json!(stopped.local_addr().unwrap().to_string());
    assert!(!refuse(&[0, 1], &cluster("18.2.7", &[daemon(0, b"ceph v2\n"), osd])));
}

#[test]
fn an_osd_that_went_down_does_not_count() {
    let without_address = |up: u8| json!({ "osd": 1, "up": up, "in": 1, "public_addr": ":/0" });
    let osds = |up| [daemon(0, b"ceph v2\n"), without_address(up)];
    assert!(refuse(&[0, 1], &cluster("20.2.4", &osds(0))));
    assert!(!refuse(&[0, 1], &cluster("20.2.4", &osds(1))));
    assert!(!refuse(&[1], &cluster("20.2.4", &osds(0))));
}

#[test]
fn requests_that_wait_for_another_reason_are_not_refused() {
    let cluster = || cluster("18.2.7", &[daemon(0, b"ceph v2\n")]);
    let mut paused = cluster();
    paused.map.as_mut().unwrap().flags_set = vec!["pauserd".to_owned(), "pausewr".to_owned()];
    assert!(!refuse(&[0], &paused));
    let with_state = |state: &str| {
        let pgs = serde_json::from_value(json!([{ "pgid": "1.0", "state": state }])).unwrap();
        Snapshot { pgs, ..cluster() }
    };
    assert!(!refuse(&[0], &with_state("undersized+degraded+peered")));
    assert!(refuse(&[0], &with_state("active+undersized")));
}
