//! Runs the conformance suite on a real cluster.

use crate::support::{block_on, connect};
use benthic_core::Store;
use benthic_testkit::conformance::Subject;

fn subject() -> Subject {
    let store = connect();
    let name = format!("conformance.{}", std::process::id());
    block_on(store.create_pool(&name)).unwrap();
    let pool = block_on(store.open_pool(&name)).unwrap();
    Subject { store, pool }
}

mod ceph {
    benthic_testkit::conformance!(super::subject());
}
