//! OSDs that die during a query, and OSDs that are overloaded. A query returns all rows or an
//! error, never some of the rows. The tests start clusters of their own and remove them however
//! they end.

use crate::data::lineitem;
use crate::fixtures::{answer, append, create, pool, session};
use crate::support::{self, ALL, metric};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::util::pretty::pretty_format_batches;
use benthic_ceph::local::{Cluster, Daemon};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Error, ErrorKind, Result, Store};
use benthic_rados::{Options, RadosStore};
use benthic_sql::errors::from_datafusion;
use benthic_sql::session::Settings;
use benthic_table::Definition;
use datafusion::execution::SendableRecordBatchStream;
use futures::TryStreamExt;
use std::env;
use std::sync::Arc;

/// More objects than a query prefetches.
const OBJECTS: usize = 60;
const ROWS: usize = 2_000;
const SQL: &str = "SELECT * FROM outage.t WHERE quantity > 10";

struct Own {
    /// None after the drop has taken the cluster down.
    cluster: Option<Cluster>,
}

impl Own {
    fn up(osds: u32) -> Own {
        // The path must be short, because the daemons' sockets are in it.
        let dir = env::temp_dir().join(format!("benthic-sql-{osds}-{}", std::process::id()));
        match Cluster::up(&dir, Some(osds), &mut |_| Ok(())) {
            Ok((cluster, _)) => {
                let library = env::current_exe().unwrap().with_file_name("libcls_table_1.so");
                benthic_ceph::classes::install(&library, &cluster.class_dir()).unwrap();
                Own { cluster: Some(cluster) }
            }
            Err(error) => {
                drop(Own { cluster: Cluster::open(&dir).ok() });
                panic!("{error}");
            }
        }
    }

    fn cluster(&self) -> &Cluster {
        self.cluster.as_ref().unwrap()
    }

    fn connect(&self) -> Arc<dyn Store> {
        self.connect_for(Options::default().osd_timeout_ms)
    }

    fn connect_for(&self, osd_timeout_ms: u64) -> Arc<dyn Store> {
        let options = Options { osd_timeout_ms, ..Options::default() };
        RadosStore::connect(Some(&self.cluster().conf()), None, options).unwrap()
    }

    fn kill(&self, osd: u32) {
        self.cluster().kill(Daemon::Osd(osd), &mut |_| Ok(())).unwrap();
    }

    /// Restarts killed daemons, and waits until the cluster is healthy.
    fn heal(&self) {
        let dir = self.cluster().conf().parent().unwrap().to_owned();
        Cluster::up(&dir, None, &mut |_| Ok(())).unwrap();
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let removed = self.cluster.take().map(|cluster| cluster.remove(&mut |_| Ok(())));
        assert!(std::thread::panicking() || removed.is_some_and(|removed| removed.is_ok()), "left behind");
    }
}

/// Reads the remaining rows and sorts them, because their order depends on the place of execution.
async fn rest(rows: SendableRecordBatchStream, first: RecordBatch) -> Result<Vec<String>> {
    let schema = rows.schema();
    let mut batches = vec![first];
    batches.extend(rows.try_collect::<Vec<_>>().await.map_err(|error| from_datafusion(&error))?);
    let all = concat_batches(&schema, &batches).unwrap();
    let mut lines: Vec<String> =
        pretty_format_batches(&[all]).unwrap().to_string().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    Ok(lines)
}

/// Starts the query, reads the first rows, runs `harm`, and reads the rest.
async fn harmed(store: &Arc<dyn Store>, pushdown: Pushdown, harm: impl FnOnce()) -> Result<Vec<String>> {
    let settings = Settings { pushdown, ..Settings::default() };
    let mut rows = session(store, settings).query(SQL).await?;
    let first = rows.try_next().await.map_err(|error| from_datafusion(&error))?.unwrap();
    tokio::task::block_in_place(harm);
    rest(rows, first).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_whole_or_an_error() {
    let own = Own::up(2);
    let store = own.connect();
    let pool = pool(&store, "outage").await;
    let rows = lineitem(ROWS);
    let table = create(&pool, "t", &Definition::new(&rows.schema()).unwrap()).await;
    for _ in 0..OBJECTS {
        append(&table, std::slice::from_ref(&rows)).await;
    }
    let expected = harmed(&store, Pushdown::Never, || ()).await.unwrap();
    assert!(expected.len() > OBJECTS * ROWS / 2);

    for (osd, pushdown) in ALL.into_iter().enumerate() {
        let osd = osd as u32 % 2;
        let answer = harmed(&store, pushdown, || own.kill(osd)).await;
        assert_eq!(answer.unwrap(), expected, "{pushdown:?}: one of two OSDs is gone");
        own.heal();
    }
    let impatient = own.connect_for(3_000);
    for pushdown in ALL {
        let answer = harmed(&impatient, pushdown, || [0, 1].into_iter().for_each(|osd| own.kill(osd))).await;
        let kind = answer.as_ref().map_err(Error::kind);
        assert_eq!(kind.map(Vec::len), Err(ErrorKind::Unavailable), "{pushdown:?}: all OSDs are gone");
        own.heal();
        assert_eq!(harmed(&store, pushdown, || ()).await.unwrap(), expected, "{pushdown:?}: they are back");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clients_share_what_an_osd_takes() {
    const SQL: &str = "SELECT mode, count(*), avg(price), min(comment) FROM shared.t
        WHERE comment LIKE '%e%o%s%' GROUP BY mode ORDER BY mode";
    let own = Own::up(1);
    let stores = [own.connect(), own.connect()];
    let rows = lineitem(300_000);
    let pool = pool(&stores[0], "shared").await;
    let table = create(&pool, "t", &Definition::new(&rows.schema()).unwrap()).await;
    for _ in 0..12 {
        append(&table, std::slice::from_ref(&rows)).await;
    }
    let auto = || Settings { pushdown: Pushdown::Auto, ..Settings::default() };
    let ask = async |store: &Arc<dyn Store>, sql: &str| answer(&session(store, auto()), sql).await.unwrap().1;
    let alone = ask(&stores[0], SQL).await;

    let (one, other) = tokio::join!(ask(&stores[0], SQL), ask(&stores[1], SQL));
    assert_eq!((&one, &other), (&alone, &alone));
    // A busy OSD refuses, and the object then runs in the client, unless that was measured to be
    // slower. The choice depends on timing, so both clients repeat the query until each has seen
    // every outcome.
    let explain = format!("EXPLAIN ANALYZE {SQL}");
    const WAYS: [&str; 3] = ["refused_busy", "objects_pushed", "objects_pulled"];
    let mut counts = [[0; WAYS.len()]; 2];
    for _ in 0..60 {
        let (one, other) = tokio::join!(ask(&stores[0], &explain), ask(&stores[1], &explain));
        for (counts, plan) in counts.iter_mut().zip([one, other]) {
            let plan = support::rows(&plan).join("\n");
            let [refused, pushed, pulled] = WAYS.map(|name| metric(&plan, name));
            assert_eq!(pushed + pulled, 12, "{plan}");
            for (count, more) in counts.iter_mut().zip([refused, pushed, pulled]) {
                *count += more;
            }
        }
        if counts.as_flattened().iter().all(|&count| count > 0) {
            return;
        }
    }
    panic!("{WAYS:?} of both clients: {counts:?}");
}
