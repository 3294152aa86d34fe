use super::hung_osds;
use crate::cluster_state::Osd;
use serde_json::json;
use std::net::TcpListener;

#[test]
fn an_osd_that_is_down_and_accepts_connections_hangs() {
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let replaced = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = TcpListener::bind("127.0.0.1:0").unwrap();
    let osd = |id: i32, up: u8, listener: &TcpListener| -> Osd {
        let address = format!("{}/123", listener.local_addr().unwrap());
        serde_json::from_value(json!({ "osd": id, "up": up, "in": 1, "public_addr": address })).unwrap()
    };
    let without: Osd =
        serde_json::from_value(json!({ "osd": 4, "up": 0, "in": 1, "public_addr": ":/0" })).unwrap();
    let osds = [osd(1, 1, &replaced), osd(2, 0, &hung), osd(3, 0, &dead), without, osd(5, 0, &replaced)];
    drop(dead);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(hung_osds(&osds)), [2]);
}
