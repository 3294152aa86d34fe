//! The SAL suite on the driver for an upstream, which is our own gateway over a store in memory.

use super::far::{Far, open};
use crate::sal::{Case, Front, Pools};
use benthic_core::Store;
use benthic_embedded::{MemStore, Options};
use benthic_s3::sal::Sal;
use benthic_s3::upstream::{self, UpstreamSal};
use futures::executor::block_on;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use tempfile::TempDir;

/// Names of buckets in the suite are shorter than S3 permits.
const PREFIX: &str = "far-";

#[derive(Default)]
struct Gateways {
    far: OnceLock<Far>,
    caches: Mutex<Vec<TempDir>>,
    /// Whether writes are acknowledged before they are at the upstream, and the gateways that do
    /// so.
    write_back: Option<Mutex<Vec<Arc<UpstreamSal>>>>,
}

impl Front for Gateways {
    fn open(&self, far: &Arc<dyn Sal>, own: Arc<dyn Sal>) -> Arc<dyn Sal> {
        let far = self.far.get_or_init(|| Far::serve(far));
        let cache = tempfile::Builder::new().prefix("benthic-s3").tempdir().unwrap();
        let options = far.options(&far.address, cache.path());
        self.caches.lock().unwrap().push(cache);
        let write_back = self.write_back.is_some();
        let sal = open(own, upstream::Options { bucket_prefix: PREFIX.to_owned(), write_back, ..options });
        if let Some(gateways) = &self.write_back {
            gateways.lock().unwrap().push(Arc::clone(&sal));
        }
        sal
    }

    fn drain(&self) {
        for sal in self.write_back.iter().flat_map(|gateways| gateways.lock().unwrap().clone()) {
            block_on(sal.drain_all()).unwrap();
        }
    }

    fn prefix(&self) -> &str {
        PREFIX
    }
}

static POOLS: LazyLock<Pools> = LazyLock::new(|| {
    let store = MemStore::new(Options::default().with_classes(benthic_classes::registry()));
    let pool = |name| {
        block_on(store.create_pool(name)).unwrap();
        block_on(store.open_pool(name)).unwrap()
    };
    Pools { index: pool("index"), data: pool("data"), cold: pool("cold"), store: store.clone() }
});

fn case(name: &str) -> Case {
    Case::behind(&POOLS, name, Box::new(Gateways::default()))
}

mod write_back {
    use super::{Gateways, POOLS};
    use crate::sal::Case;
    use std::sync::Mutex;

    fn case(name: &str) -> Case {
        let gateways = Gateways { write_back: Some(Mutex::default()), ..Gateways::default() };
        Case::behind(&POOLS, &format!("back.{name}"), Box::new(gateways))
    }

    // The cases that write objects. Those about versions and uploads write through.
    crate::sal::sal_tests! { super::case;
        buckets {
            a_bucket_with_objects_is_not_deleted
            usage_is_exact
        }
        objects {
            data_of_every_size_are_read_back
            a_range_returns_exactly_its_bytes
            an_object_is_replaced_as_a_whole
            a_long_write_renews_its_lease
        }
        keys {
            keys_are_data
            keys_have_limits
        }
        conditions {
            conditions_of_writes_hold
            conditions_of_deletions_hold
            exactly_one_of_many_conditional_writers_wins
        }
        listing {
            keys_are_listed_in_byte_order
            a_delimiter_groups_keys_by_prefix
            a_listing_starts_after_its_marker
            concurrent_changes_do_not_disturb_a_listing
            pages_have_limits
        }
        versions {
            versions_are_kept
            each_of_many_deletions_has_its_own_result
        }
        uploads {
            either_completion_or_abort_wins
            an_upload_has_conditions_and_versions
        }
        copies {
            copying_a_deleted_object_fails
        }
    }
}

// All cases, except those about garbage and leases in pools, and those that need features that S3
// does not have: `docs/design/0006-s3-sal.md`.
crate::sal::sal_tests! { super::case;
    records {
        records_change_by_compare_and_swap
        several_records_change_together
        names_and_values_have_limits
    }
    buckets {
        a_bucket_is_created_once
        a_bucket_changes_by_compare_and_swap
        a_bucket_with_objects_is_not_deleted
        an_owner_lists_only_its_own_buckets
        usage_is_exact
    }
    objects {
        data_of_every_size_are_read_back
        a_range_returns_exactly_its_bytes
        an_object_is_replaced_as_a_whole
        a_long_write_renews_its_lease
    }
    keys {
        keys_are_data
        keys_have_limits
    }
    conditions {
        conditions_of_writes_hold
        conditions_of_deletions_hold
        exactly_one_of_many_conditional_writers_wins
    }
    listing {
        keys_are_listed_in_byte_order
        a_delimiter_groups_keys_by_prefix
        a_listing_starts_after_its_marker
        delete_markers_are_not_listed_as_objects
        uploads_are_listed
        concurrent_changes_do_not_disturb_a_listing
        pages_have_limits
    }
    versions {
        versions_are_kept
        a_delete_marker_hides_an_object
        removing_the_current_version_shows_the_previous_one
        deleting_a_missing_version_succeeds
        each_of_many_deletions_has_its_own_result
    }
    uploads {
        a_part_is_replaced
        either_completion_or_abort_wins
        parts_are_listed_by_pages
        parts_have_limits
        an_upload_has_conditions_and_versions
    }
    copies {
        a_copy_outlives_its_source
        copying_a_deleted_object_fails
        a_copy_outlives_the_bucket_of_its_source
    }
}
