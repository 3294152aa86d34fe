//! The conformance suite defines both contracts of `benthic-core`.
//!
//! Every engine runs every case, and no case accepts "success or error, depending". Where the text
//! of the contract leaves an edge case open, the suite requires the behaviour of a real ceph-osd
//! (16.2.15) and says so.
//!
//! An engine's test file holds one line. The macro expands to one `#[test]` per case, all on one
//! [`Subject`]:
//!
//! ```text
//! mod memory {
//!     benthic_testkit::conformance!(super::subject());
//! }
//! ```
//!
//! Every case works in its own namespaces, so cases can run in parallel and on a shared pool. The
//! subject removes the objects that the cases leave in the pool.
//!
//! Every error that the engine returns to a case must name the operation that failed (`ops.rs`).
//!
//! A case is a function in one of the themed files and a line in `conformance_cases`. A line
//! without a function does not compile, nor does a function without a line.
#![deny(dead_code)]
#![expect(clippy::unwrap_used, reason = "these are tests: a call that fails unexpectedly fails its case")]

mod classes;
mod compound;
mod concurrency;
mod data;
mod digest;
mod durability;
mod guards;
mod limits;
mod listing;
mod lock;
mod misbehaviour;
mod missing;
mod names;
mod namespaces;
mod omap;
mod ops;
mod picture;
mod pools;
mod support;
mod versions;
mod xattrs;

use benthic_core::{Clock, ObjectId, Pool, Store, SystemClock};
use futures::executor::block_on;
use ops::{CheckedPool, CheckedStore};
use std::sync::Arc;

/// An engine under test: a store with the classes of `benthic-classes`, and a pool in it.
///
/// Two cases wait for a method's deadline. A subject that can set the deadline should use a few
/// hundred milliseconds.
pub struct Subject {
    /// Cases create and remove pools of their own in this store.
    pub store: Arc<dyn Store>,
    /// The pool that all other cases use.
    pub pool: Arc<dyn Pool>,
}

struct Case<'a> {
    store: &'a dyn Store,
    pool: &'a dyn Pool,
    /// Unique to this run.
    namespace: String,
}

impl Case<'_> {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn object(&self, name: &str) -> ObjectId {
        ObjectId::in_namespace(self.namespace.clone(), name).unwrap()
    }

    fn pool_name(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.namespace)
    }
}

fn run_case(subject: &Subject, name: &str, case: impl AsyncFnOnce(&Case<'_>)) {
    let unique = SystemClock.unix_ns();
    let namespace = format!("{name}.{}.{unique}", std::process::id());
    let store = &CheckedStore(Arc::clone(&subject.store));
    let pool = &CheckedPool(Arc::clone(&subject.pool));
    block_on(case(&Case { store, pool, namespace }));
}

/// Declares one `#[test]` per case of the conformance suite, all on the
/// [`Subject`](conformance::Subject) that the expression returns. The expression is evaluated once.
#[macro_export]
macro_rules! conformance {
    ($subject:expr) => {
        $crate::conformance!($subject, $crate::conformance_tests);
    };
    ($subject:expr, $tests:path) => {
        static SUBJECT: ::std::sync::LazyLock<$crate::conformance::Subject> =
            ::std::sync::LazyLock::new(|| $subject);
        $crate::conformance_cases!($tests);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($($theme:ident { $($case:ident)* })*) => {
        $(mod $theme {
            $(
                #[test]
                fn $case() {
                    $crate::conformance::run::$theme::$case(&super::SUBJECT);
                }
            )*
        })*
    };
}

/// As [`conformance!`](crate::conformance!), but only with the cases that call `hello` and
/// `digest`: for other forms of these classes, such as WebAssembly modules.
#[macro_export]
macro_rules! class_conformance {
    ($subject:expr) => {
        $crate::conformance!($subject, $crate::class_conformance_tests);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! class_conformance_tests {
    (@theme classes $cases:tt) => { $crate::conformance_tests!(classes $cases); };
    (@theme misbehaviour $cases:tt) => { $crate::conformance_tests!(misbehaviour $cases); };
    (@theme digest $cases:tt) => { $crate::conformance_tests!(digest $cases); };
    (@theme $theme:ident $cases:tt) => {};
    ($($theme:ident $cases:tt)*) => {
        $($crate::class_conformance_tests!(@theme $theme $cases);)*
    };
}

macro_rules! runners {
    ($($theme:ident { $($case:ident)* })*) => {
        #[doc(hidden)]
        pub mod run {
            $(pub mod $theme {
                use super::super::{Subject, run_case, $theme as cases};
                $(
                    pub fn $case(subject: &Subject) {
                        run_case(subject, concat!(stringify!($theme), ".", stringify!($case)), cases::$case);
                    }
                )*
            })*
        }
    };
}

/// Calls the given macro with all cases, grouped by theme.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($then:path) => {
        $then! {
            data {
                reads_are_short_at_the_end_and_empty_after_it
                a_read_of_no_bytes_is_empty
                an_empty_object_has_no_data
                holes_read_as_zeros
                writes_overwrite_and_extend
                an_empty_write_only_creates_the_object
                append_writes_at_the_end
                write_full_replaces_the_data_and_nothing_else
                truncate_cuts_and_extends_with_zeros
                zero_inside_keeps_the_size
                zero_up_to_the_end_truncates
                zero_after_the_end_does_nothing
                zero_of_no_bytes_is_refused
                remove_deletes_data_attributes_and_omap
                stat_returns_size_and_time
                data_of_every_size_reads_back
                overwrites_of_a_large_object_change_only_their_range
                truncates_and_zeros_of_a_large_object_keep_the_rest
                a_read_operation_answers_every_step_in_order
            }
            missing {
                reads_are_not_found
                steps_that_create
                steps_that_do_nothing
                steps_that_need_the_object
                guards_are_not_found
            }
            xattrs {
                attributes_are_set_replaced_and_removed
                a_missing_attribute_is_not_found
                an_empty_value_is_a_value
                an_object_without_attributes_lists_none
                names_are_text_and_values_are_bytes
                many_attributes_are_kept
                a_missing_attribute_fails_the_whole_read
            }
            omap {
                entries_are_set_replaced_and_removed
                get_returns_the_keys_that_exist
                an_object_without_omap_has_no_entries
                keys_are_bytes_in_bytewise_order
                ranges_begin_after_the_given_key_and_keep_to_the_prefix
                thousands_of_entries_are_read_in_pages
                the_empty_key_is_refused
                a_range_of_no_entries_is_refused
                pages_of_large_values_are_shorter
                objects_do_not_see_each_others_entries
            }
            guards {
                attributes_compare_bytewise
                omap_values_compare_bytewise_for_equality
                a_missing_value_compares_as_empty
                only_the_exact_version_passes
                version_0_is_refused
                the_exists_guard_passes_on_an_object
                every_guard_must_hold
                guards_see_the_object_before_the_operation
                a_guard_that_fails_comes_before_a_step_that_fails
                guards_alone_change_nothing
            }
            compound {
                steps_on_a_missing_object_see_earlier_steps
                steps_on_an_object_see_earlier_steps
                a_recreated_object_is_empty
                a_step_that_fails_undoes_the_operation
                a_step_that_fails_undoes_the_creation
                create_exclusive_fails_on_an_object_that_exists
                many_steps_are_one_operation
                a_read_operation_sees_one_object
            }
            versions {
                every_write_raises_the_version
                a_write_of_the_same_content_raises_the_version
                an_operation_that_writes_nothing_keeps_the_version
                an_operation_that_fails_keeps_the_version
                reading_keeps_and_returns_the_version
                versions_grow_over_removal_and_creation
            }
            names {
                every_name_is_a_separate_object
                long_names_differ_in_their_last_byte
                a_pool_returns_its_name
            }
            listing {
                every_object_is_listed_once_at_every_page_size
                a_prefix_selects_objects
                an_unused_namespace_is_empty
                a_listing_continues_after_its_token
                a_listing_in_the_order_of_names_continues_after_any_name
                changes_are_visible_at_once
                changes_during_a_listing_do_not_disturb_it
                an_invalid_token_is_refused
                a_bad_namespace_is_refused
                hundreds_of_objects_are_listed_in_pages
            }
            namespaces {
                the_same_name_is_another_object_in_another_namespace
                namespace_and_name_are_not_concatenated
                one_namespace_or_all_are_listed
            }
            limits {
                names_at_their_limits_work
                invalid_names_are_refused
                attribute_values_have_a_limit
                omap_keys_and_values_have_limits
                one_step_gets_a_limited_number_of_omap_keys
                an_operation_has_a_limited_number_of_steps_and_guards
                an_operation_carries_at_most_64_mib
                an_object_holds_at_most_128_mib
                an_object_that_would_be_too_large_is_not_stored
                truncate_stops_one_byte_short_of_128_mib
                an_answer_over_64_mib_is_refused
                a_method_learns_which_limit_it_exceeded
            }
            concurrency {
                parallel_appends_all_arrive
                counters_guarded_by_version_lose_nothing
                counters_guarded_by_attribute_lose_nothing
                counters_guarded_by_omap_lose_nothing
                create_exclusive_has_one_winner
                remove_has_one_winner
                readers_never_see_half_an_operation
                methods_on_one_object_run_one_after_another
                objects_are_independent
            }
            classes {
                a_store_describes_its_classes
                a_read_method_returns_its_output
                a_write_method_returns_nothing_and_stores_its_result
                a_method_that_does_not_write_needs_the_object
                a_write_method_that_writes_nothing_changes_nothing
                a_method_reads_the_old_object_and_stats_the_new
                a_method_appends_after_its_own_changes
                a_method_on_a_missing_object_reads_not_found
                a_method_is_the_first_step_and_the_only_method
                steps_after_a_method_see_its_changes
                a_method_that_fails_undoes_the_operation
                a_step_or_guard_that_fails_undoes_the_method
                a_read_method_can_fail_a_write_operation
                read_methods_are_steps_of_a_read_operation
                a_write_method_in_a_read_operation_is_refused
                unknown_classes_and_methods_are_unsupported
                input_arrives_as_it_was_sent
            }
            misbehaviour {
                a_method_that_writes_and_fails_leaves_nothing
                every_kind_of_error_reaches_the_caller
                a_method_explains_its_failure_to_the_caller
                a_method_refuses_bad_input
                a_write_that_was_not_declared_fails_the_call
                a_read_that_was_not_declared_fails_the_call
                a_method_reads_before_it_writes
                a_panic_fails_the_call_and_nothing_else
                a_method_that_never_ends_is_stopped
                a_method_that_ignores_its_deadline_fails
                the_memory_of_a_method_is_limited
                the_output_of_a_method_is_limited
            }
            digest {
                digests_are_stored_and_computed
                repetitions_give_the_same_digest
                a_digest_that_differs_is_corrupt
                a_digest_of_a_missing_object_is_not_found
                bad_input_is_refused
            }
            lock {
                an_exclusive_lock_keeps_all_others_out
                a_shared_lock_is_shared
                retries_of_acquire_and_release_are_harmless
                a_lease_expires
                the_holder_of_a_broken_lock_loses_it
                assert_guards_its_operation
                locks_with_different_names_are_independent
                parallel_changes_under_a_lock_lose_nothing
                bad_input_and_bad_locks_are_refused
            }
            picture {
                a_picture_is_stored_with_thumbnails_and_labels
                a_new_picture_replaces_all_of_the_old_one
                a_broken_picture_stores_nothing
                a_picture_is_stored_with_the_rest_of_its_operation_or_not_at_all
                index_adds_missing_labels_and_thumbnails
                get_if_returns_only_a_picture_with_the_label
            }
            durability {
                a_buffered_write_is_visible_at_once
                buffered_and_durable_writes_keep_their_order
                a_buffered_operation_is_all_or_nothing
                flush_succeeds_with_and_without_buffered_writes
            }
            pools {
                a_pool_is_created_listed_opened_and_removed
                a_pool_is_created_once_and_removed_once
                pools_are_separate
                two_handles_of_a_pool_are_one_pool
                a_removed_pool_returns_not_found
                a_recreated_pool_is_empty
                bad_pool_names_are_refused
            }
        }
    };
}

conformance_cases!(runners);
