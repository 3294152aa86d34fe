//! Memory per connection.

use crate::Setting;
use crate::load::{Until, run as load};
use crate::servers::{Server, path};
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Outcome, noise};
use bytes::Bytes;

const IDLE: usize = 1_000;
const BUSY: u64 = 256;
const SECONDS: f64 = 10.0;

/// Measures idle connections first, then busy ones.
pub async fn run(setting: &Setting, ours: &Server, others: &Server) -> Outcome<Section> {
    let mut values = [Vec::new(), Vec::new()];
    for (server, values) in [ours, others].into_iter().zip(&mut values) {
        let content = Bytes::from(noise(1 << 20));
        server.client().call("PUT", &path("small"), "", content.slice(..1_024)).await?;
        values.push(server.memory_mib("VmRSS:")?);
        let mut clients = Vec::new();
        for _ in 0..IDLE {
            let mut client = server.client();
            client.call("GET", &path("small"), "", Bytes::new()).await?;
            clients.push(client);
        }
        values.push(server.memory_mib("VmRSS:")?);
        drop(clients);
        let until = Until { seconds: if setting.quick { 1.0 } else { SECONDS }, count: 4_096 };
        load(&server.target, BUSY, until, async |client, number| {
            let path = path(&format!("busy/{number}"));
            client.call("PUT", &path, "", content.clone()).await?;
            Ok(client.call("GET", &path, "", Bytes::new()).await?.first_byte)
        })
        .await?;
        values.push(server.memory_mib("VmHWM:")?);
    }
    let [ours, others] = values;
    let names = [
        "after the start".to_owned(),
        format!("{IDLE} idle connections"),
        format!("{BUSY} connections that write and read 1 MiB, at most"),
    ];
    let rows = names
        .into_iter()
        .enumerate()
        .map(|(index, name)| Row::compared(name, "MiB", &[ours[index]], &[others[index]], Aim::None));
    let note =
        "Resident memory of the gateway, over an embedded store; the reference is versitygw.".to_owned();
    Ok(Section { title: "Memory", note, rows: rows.collect() })
}
