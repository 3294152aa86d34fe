//! Generates random operations. Few objects, names and keys make operations interact. Sizes and
//! offsets lie around the boundaries where engines change their layout.

use super::classes;
use crate::random::Rng;
use benthic_core::{ClassCall, Compare, Durability, ReadStep, WriteStep, limits};
use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use proptest::sample::{select, subsequence};
use proptest::strategy::Union;

/// The objects of a case: index of the namespace (0 or 1) and name.
pub(crate) const OBJECTS: [(usize, &str); 5] = [(0, "a"), (0, "ab"), (0, "a/../é"), (1, "a"), (1, "b")];
const PREFIXES: [&str; 4] = ["", "a", "ab", "x"];
const XATTRS: [&str; 4] = ["a", "b", "user.color", "ünïcode"];
const KEYS: [&[u8]; 6] = [b"a", b"a\0", b"ab", b"b", b"b\xff", b"c/d"];
const ALL_COMPARISONS: [Compare; 6] =
    [Compare::Eq, Compare::Ne, Compare::Gt, Compare::Ge, Compare::Lt, Compare::Le];
const KEY_PREFIXES: [&[u8]; 5] = [b"", b"a", b"b", b"m", b"zz"];
const SMALL_VALUES: [&[u8]; 5] = [b"", b"0", b"1", b"red", b"\xff\0"];
const BOUNDARIES_BYTES: [usize; 11] =
    [0, 1, 4_095, 4_096, 4_097, 8_192, 65_535, 65_536, 65_537, 131_072, 262_144];
const LEN_BYTES_MAX: usize = 300 * 1024;
/// More keys than one page of a range holds.
const MANY_KEYS: usize = limits::OMAP_PAGE_ENTRIES_MAX + 76;

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Write {
        object: usize,
        guards: Vec<GuardPlan>,
        steps: Vec<WriteStep>,
        durability: Durability,
    },
    Read {
        object: usize,
        guards: Vec<GuardPlan>,
        steps: Vec<ReadStep>,
    },
    Exec {
        object: usize,
        call: ClassCall,
    },
    /// Lists one namespace, or all, in pages.
    List {
        namespace: Option<usize>,
        prefix: &'static str,
        objects_max: usize,
    },
    Flush,
    Reopen,
}

/// A guard that takes its value from the object when the operation runs, so that most guards hold.
#[derive(Clone, Debug)]
pub(crate) enum GuardPlan {
    Exists,
    /// Offset from the current version.
    Version(u64),
    Xattr {
        name: &'static str,
        compare: Compare,
        value: GuardValue,
    },
    Omap {
        key: &'static [u8],
        value: GuardValue,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum GuardValue {
    Stored,
    Other(Bytes),
}

pub(crate) fn actions(actions_max: usize) -> impl Strategy<Value = Vec<Action>> {
    vec(action(), 1..=actions_max.max(1))
}

fn action() -> impl Strategy<Value = Action> {
    let object = 0..OBJECTS.len();
    prop_oneof![
        50 => (object.clone(), guards(), write_steps(), durability())
            .prop_map(|(object, guards, steps, durability)| Action::Write { object, guards, steps, durability }),
        25 => (object.clone(), guards(), vec(read_step(), 1..=6))
            .prop_map(|(object, guards, steps)| Action::Read { object, guards, steps }),
        8 => (object, prop_oneof![classes::write_call(), classes::read_call()])
            .prop_map(|(object, call)| Action::Exec { object, call }),
        6 => (option::of(0..2_usize), select(&PREFIXES[..]), 1..=3_usize)
            .prop_map(|(namespace, prefix, objects_max)| Action::List { namespace, prefix, objects_max }),
        2 => Just(Action::Flush),
        3 => Just(Action::Reopen),
    ]
}

fn durability() -> impl Strategy<Value = Durability> {
    select(&[Durability::Durable, Durability::Buffered][..])
}

fn guards() -> impl Strategy<Value = Vec<GuardPlan>> {
    prop_oneof![3 => Just(Vec::new()), 2 => vec(guard(), 1..=2)]
}

fn guard() -> impl Strategy<Value = GuardPlan> {
    let version = prop_oneof![9 => Just(0), 1 => 1..3_u64];
    prop_oneof![
        Just(GuardPlan::Exists),
        version.prop_map(GuardPlan::Version),
        (select(&XATTRS[..]), comparison(&[Compare::Eq, Compare::Ge, Compare::Le], &ALL_COMPARISONS))
            .prop_map(|(name, (compare, value))| GuardPlan::Xattr { name, compare, value }),
        (select(&KEYS[..]), comparison(&[Compare::Eq], &[Compare::Eq]))
            .prop_map(|(key, (_, value))| GuardPlan::Omap { key, value }),
    ]
}

/// Chooses mostly comparisons that hold for the stored value.
fn comparison(
    holding: &'static [Compare],
    others: &'static [Compare],
) -> impl Strategy<Value = (Compare, GuardValue)> {
    let holds = select(holding).prop_map(|compare| (compare, GuardValue::Stored));
    let other = (select(others), small_value());
    prop_oneof![4 => holds, 1 => other.prop_map(|(compare, value)| (compare, GuardValue::Other(value)))]
}

fn write_step() -> impl Strategy<Value = WriteStep> {
    prop_oneof![
        3 => any::<bool>().prop_map(|exclusive| WriteStep::Create { exclusive }),
        20 => (offset_bytes(), data()).prop_map(|(offset_bytes, data)| WriteStep::Write { offset_bytes, data }),
        5 => data().prop_map(|data| WriteStep::WriteFull { data }),
        5 => data().prop_map(|data| WriteStep::Append { data }),
        4 => offset_bytes().prop_map(|size_bytes| WriteStep::Truncate { size_bytes }),
        5 => (offset_bytes(), offset_bytes())
            .prop_map(|(offset_bytes, len_bytes)| WriteStep::Zero { offset_bytes, len_bytes }),
        2 => Just(WriteStep::Remove),
        5 => (xattr_name(), value(limits::XATTR_VALUE_BYTES_MAX)).prop_map(|(name, value)| WriteStep::SetXattr { name, value }),
        2 => xattr_name().prop_map(|name| WriteStep::RemoveXattr { name }),
        5 => btree_map(key(), value(100_000), 0..=4).prop_map(|entries| WriteStep::OmapSet { entries }),
        1 => any::<u8>().prop_map(|seed| WriteStep::OmapSet { entries: many_entries(seed) }),
        2 => keys().prop_map(|keys| WriteStep::OmapRemove { keys }),
        2 => Just(WriteStep::OmapClear),
        1 => classes::write_call().prop_map(WriteStep::Exec),
    ]
}

/// A method call is normally the first step. A call elsewhere, zeroing an empty range and listing
/// an empty page are `InvalidArgument`; the generator includes them occasionally because an engine
/// must refuse them.
fn write_steps() -> impl Strategy<Value = Vec<WriteStep>> {
    let call = prop_oneof![3 => classes::write_call(), 1 => classes::read_call()].prop_map(WriteStep::Exec);
    let call_first = (call, vec(write_step(), 0..=5)).prop_map(|(call, mut steps)| {
        steps.insert(0, call);
        steps
    });
    prop_oneof![4 => vec(write_step(), 1..=6), 1 => call_first]
}

fn read_step() -> impl Strategy<Value = ReadStep> {
    let len_bytes = prop_oneof![offset_bytes(), Just(1024 * 1024)];
    let after = option::of(key());
    let prefix = select(&KEY_PREFIXES[..]).prop_map(Bytes::from_static);
    let entries_max = prop_oneof![20 => select(&[1, 2, 3, 1_024, 5_000][..]), 1 => Just(0)];
    prop_oneof![
        8 => (offset_bytes(), len_bytes)
            .prop_map(|(offset_bytes, len_bytes)| ReadStep::Read { offset_bytes, len_bytes }),
        2 => Just(ReadStep::Stat),
        1 => xattr_name().prop_map(|name| ReadStep::GetXattr { name }),
        2 => Just(ReadStep::ListXattrs),
        2 => keys().prop_map(|keys| ReadStep::OmapGet { keys }),
        3 => (after, prefix, entries_max)
            .prop_map(|(after, prefix, entries_max)| ReadStep::OmapRange { after, prefix, entries_max }),
        2 => classes::read_call().prop_map(ReadStep::Exec),
    ]
}

fn len_bytes() -> impl Strategy<Value = usize> {
    Union::new_weighted(vec![
        (3, (0..64_usize).boxed()),
        (6, select(&BOUNDARIES_BYTES[..]).boxed()),
        (1, (0..=LEN_BYTES_MAX).boxed()),
    ])
}

fn offset_bytes() -> impl Strategy<Value = u64> {
    len_bytes().prop_map(|offset| offset as u64)
}

fn data() -> impl Strategy<Value = Bytes> {
    (len_bytes(), any::<u8>()).prop_map(|(len_bytes, seed)| blob(len_bytes, seed))
}

/// Bytes that depend on seed and position, so that a misplaced byte is detected. Seed 0 gives only
/// zeros, which an engine may store as a hole. Other seeds give no zeros.
fn blob(len_bytes: usize, seed: u8) -> Bytes {
    if seed == 0 {
        return Bytes::from(vec![0; len_bytes]);
    }
    Rng(seed.into()).bytes(len_bytes).into_iter().map(|byte| byte | 1).collect()
}

fn small_value() -> impl Strategy<Value = Bytes> {
    select(&SMALL_VALUES[..]).prop_map(Bytes::from_static)
}

fn xattr_name() -> impl Strategy<Value = String> {
    select(&XATTRS[..]).prop_map(str::to_owned)
}

/// Mostly small values, and some of 4 KiB or the given size.
fn value(large_bytes: usize) -> impl Strategy<Value = Bytes> {
    let large = (select(vec![4_096, large_bytes]), any::<u8>());
    prop_oneof![8 => small_value(), 1 => large.prop_map(|(len_bytes, seed)| blob(len_bytes, seed))]
}

fn key() -> impl Strategy<Value = Bytes> {
    select(&KEYS[..]).prop_map(Bytes::from_static)
}

fn keys() -> impl Strategy<Value = Vec<Bytes>> {
    subsequence(&KEYS[..], 0..=KEYS.len())
        .prop_shuffle()
        .prop_map(|keys| keys.into_iter().map(Bytes::from_static).collect())
}

fn many_entries(seed: u8) -> std::collections::BTreeMap<Bytes, Bytes> {
    (0..MANY_KEYS).map(|index| (Bytes::from(format!("m{index:04}")), blob(index % 7, seed))).collect()
}
