//! How data objects store rows: compression, sizes, sort order, Bloom filters and column groups.
//!
//! The head has the layout of the objects that writers add. Existing objects keep the layout with
//! which they were written until [`Table::rewrite`](crate::Table::rewrite) replaces them. Each
//! object names its layout in the metadata of its Parquet footer, because the file itself does not
//! contain a compression level or a target size. So an interrupted rewrite can find the objects
//! that it still has to write, and the file lists do not grow.

use crate::bloom;
use crate::groups;
use crate::head::{Head, OBJECT_BYTES_TARGET};
use crate::ids::Id;
use crate::schema::TableSchema;
use crate::table::Table;
use crate::wire;
use benthic_core::{Error, Result};
use parquet::basic::{Compression, ZstdLevel};
use std::collections::HashSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Permitted target sizes of row groups.
pub const ROW_GROUP_BYTES: RangeInclusive<u64> = 1024 * 1024..=64 * 1024 * 1024;
/// Permitted levels of zstd. Higher levels take too much memory for their savings.
pub const ZSTD_LEVELS: RangeInclusive<u32> = 1..=19;

const ZSTD_LEVEL: u32 = 3;
/// Row groups are small by default because code inside an OSD, which has little memory, decodes
/// whole row groups.
const ROW_GROUP_BYTES_DEFAULT: u64 = 8 * 1024 * 1024;
const OBJECT_BYTES_DEFAULT: u64 = 32 * 1024 * 1024;
/// The rows of a row group are limited to one in this many bytes of its target size.
const ROW_BYTES: u64 = 64;
/// The key of the layout in a Parquet footer.
pub(crate) const FOOTER_KEY: &str = "benthic.layout";
/// The key of the size that an object's rows have in memory.
pub(crate) const ROWS_BYTES_KEY: &str = "benthic.rows_bytes";

/// The compression of data objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    None,
    #[default]
    Snappy,
    Lz4,
    Zstd {
        level: u32,
    },
}

impl Codec {
    pub(crate) fn compression(self) -> Result<Compression> {
        Ok(match self {
            Codec::None => Compression::UNCOMPRESSED,
            Codec::Snappy => Compression::SNAPPY,
            Codec::Lz4 => Compression::LZ4_RAW,
            Codec::Zstd { level } => {
                let level = i32::try_from(level).unwrap_or(i32::MAX);
                Compression::ZSTD(ZstdLevel::try_new(level).map_err(crate::error::parquet)?)
            }
        })
    }

    fn check(self) -> Result<()> {
        match self {
            Codec::Zstd { level } if !ZSTD_LEVELS.contains(&level) => {
                Err(Error::invalid_argument("the level of zstd must be from 1 to 19").with("level", level))
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for Codec {
    type Err = Error;

    /// Parses `none`, `snappy`, `lz4`, `zstd` or `zstd:LEVEL`.
    fn from_str(text: &str) -> Result<Codec> {
        let invalid =
            || Error::invalid_argument("a codec is none, snappy, lz4, zstd or zstd:LEVEL").with("got", text);
        let codec = match text {
            "none" => Codec::None,
            "snappy" => Codec::Snappy,
            "lz4" => Codec::Lz4,
            "zstd" => Codec::Zstd { level: ZSTD_LEVEL },
            _ => {
                let level = text.strip_prefix("zstd:").ok_or_else(invalid)?;
                Codec::Zstd { level: level.parse().map_err(|_| invalid())? }
            }
        };
        codec.check()?;
        Ok(codec)
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Codec::None => f.write_str("none"),
            Codec::Snappy => f.write_str("snappy"),
            Codec::Lz4 => f.write_str("lz4"),
            Codec::Zstd { level } => write!(f, "zstd:{level}"),
        }
    }
}

/// The layout of data objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub codec: Codec,
    /// Target size of a row group, compressed.
    pub row_group_bytes: u64,
    /// Ids of the columns by which the rows of a data object are sorted, ascending, nulls first.
    pub sort: Vec<u32>,
    /// Ids of the columns that get Bloom filters.
    pub bloom: Vec<u32>,
    /// Ids of the columns that objects of their own store, by group.
    pub groups: Vec<Vec<u32>>,
    /// Target size of a data object.
    pub object_bytes: u64,
}

impl Default for Layout {
    /// Snappy, row groups of 8 MiB, no sort order, objects of 32 MiB.
    fn default() -> Layout {
        Layout {
            codec: Codec::default(),
            row_group_bytes: ROW_GROUP_BYTES_DEFAULT,
            sort: Vec::new(),
            bloom: Vec::new(),
            groups: Vec::new(),
            object_bytes: OBJECT_BYTES_DEFAULT,
        }
    }
}

/// The text in the footers of data objects.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Layout { codec, row_group_bytes, sort, bloom, groups, object_bytes } = self;
        let joined = |ids: &Vec<u32>| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let (sort, bloom) = (joined(sort), joined(bloom));
        write!(f, "codec={codec} row_group_bytes={row_group_bytes} object_bytes={object_bytes} sort={sort}")?;
        // Objects from before Bloom filters and column groups have no such parts.
        if !bloom.is_empty() {
            write!(f, " bloom={bloom}")?;
        }
        if groups.is_empty() {
            return Ok(());
        }
        write!(f, " groups={}", groups.iter().map(joined).collect::<Vec<_>>().join(";"))
    }
}

impl Layout {
    pub(crate) fn row_group_rows(&self) -> usize {
        usize::try_from(self.row_group_bytes / ROW_BYTES).unwrap_or(usize::MAX)
    }

    /// Whether builds that do not know codecs and row-group sizes can write this layout.
    pub(crate) fn is_known_to_old_builds(&self) -> bool {
        (self.codec, self.row_group_bytes) == (Codec::default(), ROW_GROUP_BYTES_DEFAULT)
    }

    /// The layout with the changes.
    ///
    /// # Errors
    /// `InvalidArgument` for a missing column, with a hint, for a column that cannot be sorted by,
    /// and for sizes out of range.
    pub fn with(&self, change: &LayoutChange, schema: &TableSchema) -> Result<Layout> {
        let ids = |names: &Option<Vec<String>>, stored: &Vec<u32>| match names {
            Some(names) => names.iter().map(|name| Ok(schema.by_name(name)?.id)).collect::<Result<_>>(),
            // Older builds permitted a sort column twice.
            None => {
                let mut seen = HashSet::new();
                Ok(stored.iter().copied().filter(|id| seen.insert(*id)).collect())
            }
        };
        let layout = Layout {
            codec: change.codec.unwrap_or(self.codec),
            row_group_bytes: change.row_group_bytes.unwrap_or(self.row_group_bytes),
            sort: ids(&change.sort, &self.sort)?,
            bloom: ids(&change.bloom, &self.bloom)?,
            groups: match &change.groups {
                Some(groups) => groups::by_name(groups, schema)?,
                None => self.groups.clone(),
            },
            object_bytes: change.object_bytes.unwrap_or(self.object_bytes),
        };
        layout.check_sizes()?;
        if change.sort.is_some() {
            layout.check_sort(schema)?;
        }
        bloom::check(&layout.bloom, schema)?;
        groups::check(&layout.groups, schema)?;
        Ok(layout)
    }

    pub(crate) fn check(&self, schema: &TableSchema) -> Result<()> {
        self.check_sizes()?;
        self.check_sort(schema)?;
        bloom::check(&self.bloom, schema)?;
        groups::check(&self.groups, schema)
    }

    fn check_sort(&self, schema: &TableSchema) -> Result<()> {
        let invalid = |message: &str| Error::invalid_argument(message);
        for (place, id) in self.sort.iter().enumerate() {
            let column = schema.by_id(*id);
            let column =
                column.ok_or_else(|| invalid("the table has no such column to sort by").with("id", id))?;
            if column.data_type.is_nested() {
                let message = "a table cannot be sorted by lists, structs and maps";
                return Err(invalid(message).with("column", &column.name));
            }
            if self.sort[..place].contains(id) {
                return Err(
                    invalid("a table cannot be sorted by a column twice").with("column", &column.name)
                );
            }
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<()> {
        let invalid = |message: &str| Error::invalid_argument(message);
        self.codec.check()?;
        if !ROW_GROUP_BYTES.contains(&self.row_group_bytes) {
            let message = "the target size of row groups must be from 1 MiB to 64 MiB";
            return Err(invalid(message).with("size_bytes", self.row_group_bytes));
        }
        if !OBJECT_BYTES_TARGET.contains(&self.object_bytes) {
            let message = "the target size of data objects must be from 1 MiB to 64 MiB";
            return Err(invalid(message).with("size_bytes", self.object_bytes));
        }
        Ok(())
    }

    /// The part of the layout that has its own message in the head.
    pub(crate) fn encode(&self) -> Option<wire::Encoding> {
        let (codec, level) = match self.codec {
            Codec::None => (0, 0),
            Codec::Snappy => (1, 0),
            Codec::Lz4 => (2, 0),
            Codec::Zstd { level } => (3, level),
        };
        let encoding = wire::Encoding { codec, level, row_group_bytes: self.row_group_bytes };
        (!self.is_known_to_old_builds()).then_some(encoding)
    }

    pub(crate) fn encode_groups(&self) -> Vec<wire::ColumnGroup> {
        self.groups.iter().map(|columns| wire::ColumnGroup { columns: columns.clone(), bytes: 0 }).collect()
    }

    /// Forgets columns that a schema lacks.
    pub(crate) fn forget_columns(&mut self, schema: &TableSchema) {
        self.bloom.retain(|id| schema.by_id(*id).is_some());
        groups::forget_columns(&mut self.groups, schema);
    }

    pub(crate) fn decode(
        encoding: Option<wire::Encoding>,
        (sort, bloom, groups): (Vec<u32>, Vec<u32>, Vec<wire::ColumnGroup>),
        object_bytes: u64,
    ) -> Option<Layout> {
        let groups = groups.into_iter().map(|group| group.columns).collect();
        let layout = Layout { sort, bloom, groups, object_bytes, ..Layout::default() };
        let Some(wire::Encoding { codec, level, row_group_bytes }) = encoding else { return Some(layout) };
        let codec = match (codec, level) {
            (0, 0) => Codec::None,
            (1, 0) => Codec::Snappy,
            (2, 0) => Codec::Lz4,
            (3, level) if ZSTD_LEVELS.contains(&level) => Codec::Zstd { level },
            _ => return None,
        };
        ROW_GROUP_BYTES.contains(&row_group_bytes).then_some(Layout { codec, row_group_bytes, ..layout })
    }
}

/// Changes of a layout. Absent settings stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayoutChange {
    pub codec: Option<Codec>,
    pub row_group_bytes: Option<u64>,
    /// Names of columns; an empty list ends the sort order.
    pub sort: Option<Vec<String>>,
    /// Names of columns; an empty list ends the filters.
    pub bloom: Option<Vec<String>>,
    /// Names of columns, by group; an empty list joins the groups.
    pub groups: Option<Vec<Vec<String>>>,
    pub object_bytes: Option<u64>,
}

impl Table {
    /// Changes the layout of the data objects that writers add from now on. A writer that has
    /// started already keeps the layout that it knows. Builds from before codecs refuse the table
    /// once it had another codec or row-group size than the default, and builds from before column
    /// groups once it had some.
    ///
    /// # Errors
    /// As [`Layout::with`]; `NotFound`, `Busy`.
    pub async fn set_layout(&self, change: &LayoutChange) -> Result<Layout> {
        let set = |head: &mut Head| {
            let layout = head.layout.with(change, head.current()?.1)?;
            head.set_layout(layout);
            Ok(())
        };
        let ((), head) = self.commit(Id::draw(&self.environment)?, set).await?;
        Ok(head.layout)
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
