//! The role of each axis in a reduction, and the result to which an element of a selection belongs.

use crate::selection::{Bounded, strides};
use benthic_core::{Error, Result, wire_enum, wire_struct};

/// Limit on the positions along a grouped axis of one object, and on the groups.
pub(crate) const GROUPED_MAX: usize = 1 << 20;
/// Limit on the positions along a grouped axis of a selection.
const POSITIONS_MAX: u64 = 1 << 24;

/// The role of an axis in a reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AxisRole {
    /// The result has the axis.
    Keep {},
    /// All positions are reduced to one, and the result does not have the axis.
    Reduce {},
    /// The positions of each group are reduced to one: the result has a position for each group.
    Group { groups: Groups },
}

/// A division of the positions along an axis into groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The number of groups. Some may have no position.
    pub count: u32,
    /// The group of each selected position, or [`Groups::NONE`].
    pub of: Bounded<u32, GROUPED_MAX>,
}

wire_struct! { Groups { count, of } }

wire_enum! {
    AxisRole {
        0 Keep {}
        1 Reduce {}
        2 Group { groups: groups }
    }
}

impl Groups {
    /// In place of a group, for a position that is in no group.
    pub const NONE: u32 = u32::MAX;

    /// Groups of `len` neighbours each, from the first position on. The last group may be smaller.
    ///
    /// # Errors
    /// `InvalidArgument` if `len` is 0; `LimitExceeded` for too many groups or positions.
    pub fn of_neighbours(positions: u64, len: u64) -> Result<Groups> {
        check_positions(positions)?;
        if len == 0 {
            return Err(Error::invalid_argument("a group of neighbours has at least one position"));
        }
        let count = positions.div_ceil(len);
        match u32::try_from(count) {
            Ok(groups) if count <= GROUPED_MAX as u64 => {
                let of = (0..groups).flat_map(|group| {
                    let start = u64::from(group) * len;
                    std::iter::repeat_n(group, (positions - start).min(len) as usize)
                });
                Ok(Groups { count: groups, of: Bounded(of.collect()) })
            }
            _ => Err(too_many_groups(count)),
        }
    }

    fn check(&self, positions: u64) -> Result<()> {
        let invalid = |message: &str| Err(Error::invalid_argument(message));
        if self.of.0.len() as u64 != positions {
            return invalid("groups need one number for each selected position");
        }
        check_positions(positions)?;
        if self.count as usize > GROUPED_MAX {
            return Err(too_many_groups(self.count.into()));
        }
        match self.of.0.iter().all(|group| *group < self.count || *group == Groups::NONE) {
            true => Ok(()),
            false => invalid("a position is in a group that does not exist"),
        }
    }

    /// The groups of a part of the positions. The second list has the number that each of them has
    /// in the whole.
    fn part(&self, first: u64, count: u64) -> (Groups, Vec<u32>) {
        let of = self.of.0.iter().skip(first as usize).take(count as usize);
        let mut numbers: Vec<u32> = of.clone().copied().filter(|group| *group != Groups::NONE).collect();
        numbers.sort_unstable();
        numbers.dedup();
        // `NONE` is not in the list.
        let local = |group: &u32| numbers.binary_search(group).map_or(Groups::NONE, |index| index as u32);
        (Groups { count: numbers.len() as u32, of: Bounded(of.map(local).collect()) }, numbers)
    }
}

fn check_positions(positions: u64) -> Result<()> {
    if positions <= POSITIONS_MAX {
        return Ok(());
    }
    Err(Error::limit_exceeded("a grouped axis has too many positions; select a part")
        .with("positions", positions)
        .with("positions_max", POSITIONS_MAX))
}

fn too_many_groups(groups: u64) -> Error {
    Error::limit_exceeded("an axis has too many groups; select a part")
        .with("groups", groups)
        .with("groups_max", GROUPED_MAX)
}

impl AxisRole {
    /// `Reduce` or `Keep`.
    pub fn reduce_if(is_reduced: bool) -> AxisRole {
        if is_reduced { AxisRole::Reduce {} } else { AxisRole::Keep {} }
    }

    /// Checks the role of an axis with this number of selected positions.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`.
    pub fn check(&self, positions: u64) -> Result<()> {
        match self {
            AxisRole::Keep {} | AxisRole::Reduce {} => Ok(()),
            AxisRole::Group { groups } => groups.check(positions),
        }
    }

    /// The length of the axis in the result. `None` if the result does not have it.
    pub fn result_len(&self, positions: u64) -> Option<u64> {
        match self {
            AxisRole::Keep {} => Some(positions),
            AxisRole::Reduce {} => None,
            AxisRole::Group { groups } => Some(groups.count.into()),
        }
    }

    /// The position in the result of a selected position. `None` for a position in no group.
    fn result_index(&self, index: u64) -> Option<u64> {
        match self {
            AxisRole::Keep {} => Some(index),
            AxisRole::Reduce {} => Some(0),
            AxisRole::Group { groups } => {
                let group = *groups.of.0.get(index as usize)?;
                (group != Groups::NONE).then_some(group.into())
            }
        }
    }

    /// The role of a part of the positions.
    pub fn part(&self, first: u64, count: u64) -> AxisRole {
        match self {
            AxisRole::Group { groups } => AxisRole::Group { groups: groups.part(first, count).0 },
            role => role.clone(),
        }
    }

    /// The positions that the results of a part have in the whole result.
    fn part_results(&self, first: u64, count: u64) -> Vec<u64> {
        match self {
            AxisRole::Keep {} => (first..first + count).collect(),
            AxisRole::Reduce {} => vec![0],
            AxisRole::Group { groups } => groups.part(first, count).1.into_iter().map(u64::from).collect(),
        }
    }
}

/// How an element's index in a selection gives its result and its position among the reduced axes.
pub struct Axes {
    roles: Vec<AxisRole>,
    counts: Vec<u64>,
    result_strides: Vec<u64>,
    /// 0 for an axis that is not reduced.
    position_strides: Vec<u64>,
    results: u64,
}

impl Axes {
    pub fn new(roles: &[AxisRole], counts: &[u64]) -> Axes {
        let result_lens: Vec<u64> =
            roles.iter().zip(counts).map(|(role, count)| role.result_len(*count).unwrap_or(1)).collect();
        Axes {
            roles: roles.to_vec(),
            counts: counts.to_vec(),
            result_strides: strides(&result_lens),
            position_strides: position_strides(roles, counts),
            results: result_lens.iter().fold(1, |product, len| product.saturating_mul(*len)),
        }
    }

    /// The number of results.
    pub fn results(&self) -> u64 {
        self.results
    }

    /// The shape of the result.
    pub fn result_shape(&self) -> Vec<u64> {
        self.roles.iter().zip(&self.counts).filter_map(|(role, count)| role.result_len(*count)).collect()
    }

    /// Whether nothing is reduced into each result, because a reduced axis has no position.
    pub fn reduces_nothing(&self) -> bool {
        self.roles.iter().zip(&self.counts).any(|(role, count)| *role == AxisRole::Reduce {} && *count == 0)
    }

    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The role of the last axis. An array without axes has one element, which is reduced.
    pub fn last_role(&self) -> &AxisRole {
        self.roles.last().unwrap_or(&AxisRole::Reduce {})
    }

    /// The distance of the positions of neighbours along the last axis.
    pub fn position_step(&self) -> u64 {
        self.position_strides.last().copied().unwrap_or(0)
    }

    /// The first result of a row along the last axis. `None` if the row is in no group. The index
    /// of its first element is `first` plus `indexes`.
    pub fn row_result(&self, first: &[u64], indexes: &[u64]) -> Option<u64> {
        let outer = self.roles.len().saturating_sub(1);
        let axes = self.roles[..outer].iter().zip(&self.result_strides).zip(first).zip(indexes);
        axes.map(|(((role, stride), first), index)| Some(role.result_index(first + index)? * stride)).sum()
    }

    /// The position of an element among the reduced axes.
    pub fn position(&self, first: &[u64], indexes: &[u64]) -> u64 {
        let axes = self.position_strides.iter().zip(first).zip(indexes);
        axes.map(|((stride, first), index)| stride * (first + index)).sum()
    }

    /// The results of a part of the selection, in its order, each with its index in the whole
    /// result.
    pub fn part_results(&self, first: &[u64], counts: &[u64]) -> Vec<u64> {
        let axes = self.roles.iter().zip(&self.result_strides).zip(first.iter().zip(counts));
        axes.fold(vec![0], |results, ((role, stride), (first, count))| {
            let along = role.part_results(*first, *count);
            results.iter().flat_map(|start| along.iter().map(move |index| start + index * stride)).collect()
        })
    }

    /// Translates a position among the reduced axes of a part of the selection.
    pub fn part_position(&self, first: &[u64], counts: &[u64]) -> impl Fn(u64) -> u64 {
        let part_strides = position_strides(&self.roles, counts);
        move |position| {
            let axes = part_strides.iter().zip(&self.position_strides).zip(first.iter().zip(counts));
            let along = |((part, whole), (first, count)): ((&u64, &u64), (&u64, &u64))| match part {
                0 => 0,
                part => (first + position / part % count) * whole,
            };
            axes.map(along).sum()
        }
    }
}

fn position_strides(roles: &[AxisRole], counts: &[u64]) -> Vec<u64> {
    let lens: Vec<u64> = roles
        .iter()
        .zip(counts)
        .map(|(role, count)| if *role == (AxisRole::Reduce {}) { *count } else { 1 })
        .collect();
    let mut strides = strides(&lens);
    for (stride, role) in strides.iter_mut().zip(roles) {
        if *role != (AxisRole::Reduce {}) {
            *stride = 0;
        }
    }
    strides
}
