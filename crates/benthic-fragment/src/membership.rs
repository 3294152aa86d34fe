//! Membership filters: conditions that let through the rows whose keys a join can use.
//!
//! A join knows the keys of its build side before it reads its probe side. A long list of keys
//! would make a plan large and slow to decode, so the plan carries a Bloom filter of them instead.
//! The join removes the rows that the filter lets through by mistake.
//!
//! The filter is the split block Bloom filter of Parquet: a key sets one bit in each of the eight
//! words of one block, so a test touches one cache line. The rejected alternative is a call of a
//! function with a literal: each evaluation would copy the literal. The hash is DataFusion's, which
//! may change with its version. Only the build that made a plan runs it, so this does not matter.

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Schema};
use datafusion_common::hash_utils::{RandomState, create_hashes};
use datafusion_common::{Result, internal_err, not_impl_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
use datafusion_proto_models::datafusion_common::ArrowType;
use datafusion_proto_models::protobuf::physical_expr_node::ExprType;
use datafusion_proto_models::protobuf::{PhysicalExprNode, PhysicalScalarUdfNode};
use std::fmt;
use std::sync::Arc;

/// The function's name under which a plan carries a filter. The filter is its definition.
pub const NAME: &str = "membership_filter";
/// Maximum size of all filters of a plan together.
pub const FILTER_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of keys of a join.
pub const KEYS_MAX: usize = 8;

const BLOCK_WORDS: usize = 8;
const BLOCK_BYTES: usize = BLOCK_WORDS * size_of::<u32>();
/// With ten bits, about 1% of the other keys pass.
const BITS_PER_KEY: usize = 10;
/// With five bits, about 12% of the other keys pass. A filter with fewer is not made.
const BITS_PER_KEY_MIN: usize = 5;
const SEED: u64 = 0x62_65_6e_74_68_69_63;
/// The multipliers of Parquet's specification, one for each word of a block.
const SALTS: [u32; BLOCK_WORDS] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

/// A Bloom filter of keys, which are the values of some expressions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct MembershipFilter {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    blocks: Arc<[[u32; BLOCK_WORDS]]>,
}

impl MembershipFilter {
    /// A filter of at most `len_bytes_max` that lets through the rows for which the values of
    /// `keys` are those of a row of `values`, without nulls. `None` if the filter has too many
    /// columns, or would let through more than about 12% of the other keys.
    ///
    /// # Errors
    /// `NotImplemented` for keys of other types than integers, texts, bytes, dates, times and
    /// decimals.
    pub fn of(
        keys: Vec<Arc<dyn PhysicalExpr>>,
        values: &[ArrayRef],
        len_bytes_max: usize,
    ) -> Result<Option<MembershipFilter>> {
        let valid = valid_rows(values)?;
        let hashes = hashes(values)?;
        let mut hashes: Vec<u64> = match valid {
            Some(valid) => valid.valid_indices().map(|row| hashes[row]).collect(),
            None => hashes,
        };
        hashes.sort_unstable();
        hashes.dedup();
        let len_bytes = (hashes.len() * BITS_PER_KEY).div_ceil(8).min(len_bytes_max);
        let blocks = len_bytes.div_ceil(BLOCK_BYTES).min(len_bytes_max / BLOCK_BYTES);
        if keys.len() > KEYS_MAX || blocks == 0 || blocks * BLOCK_BYTES * 8 < hashes.len() * BITS_PER_KEY_MIN
        {
            return Ok(None);
        }
        let mut filter = vec![[0; BLOCK_WORDS]; blocks];
        for hash in hashes {
            let block = &mut filter[block_of(hash, blocks)];
            block.iter_mut().zip(bits(hash)).for_each(|(word, bit)| *word |= bit);
        }
        Ok(Some(MembershipFilter { keys, blocks: filter.into() }))
    }

    /// The filter with the bytes that [`to_bytes`](MembershipFilter::to_bytes) returned.
    ///
    /// # Errors
    /// `NotImplemented` for keys of types that have no filters; `Internal` for bytes that are no
    /// filter.
    pub fn from_bytes(
        keys: Vec<Arc<dyn PhysicalExpr>>,
        bytes: &[u8],
        schema: &Schema,
    ) -> Result<MembershipFilter> {
        if !is_filter(bytes) {
            return internal_err!("a membership filter has no blocks, or an incomplete one");
        }
        for key in &keys {
            check_type(&key.data_type(schema)?)?;
        }
        let (words, _) = bytes.as_chunks();
        let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let (blocks, _) = words.as_chunks();
        Ok(MembershipFilter { keys, blocks: blocks.into() })
    }

    /// The filter's blocks, each of eight little-endian words.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.blocks.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Size of the filter in a plan.
    pub fn len_bytes(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    fn contains(&self, hash: u64) -> bool {
        let block = &self.blocks[block_of(hash, self.blocks.len())];
        block.iter().zip(bits(hash)).all(|(word, bit)| word & bit != 0)
    }
}

/// Whether bytes are the blocks of a filter.
pub fn is_filter(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.len().is_multiple_of(BLOCK_BYTES)
}

/// The block of a hash. Its upper half selects the block, and its lower half the bits.
fn block_of(hash: u64, blocks: usize) -> usize {
    (((hash >> 32) * blocks as u64) >> 32) as usize
}

fn bits(hash: u64) -> impl Iterator<Item = u32> {
    SALTS.iter().map(move |salt| 1 << ((hash as u32).wrapping_mul(*salt) >> 27))
}

fn hashes(values: &[ArrayRef]) -> Result<Vec<u64>> {
    for column in values {
        check_type(column.data_type())?;
    }
    let mut hashes = vec![0; values.first().map_or(0, |column| column.len())];
    create_hashes(values, &RandomState::with_seed(SEED), &mut hashes)?;
    Ok(hashes)
}

/// The rows without a null. A join never finds a partner for the others.
fn valid_rows(values: &[ArrayRef]) -> Result<Option<NullBuffer>> {
    if values.windows(2).any(|pair| pair[0].len() != pair[1].len()) {
        return internal_err!("the keys of a membership filter have different lengths");
    }
    Ok(values
        .iter()
        .fold(None, |valid, column| NullBuffer::union(valid.as_ref(), column.logical_nulls().as_ref())))
}

/// Floating-point numbers have several zeros and NaNs that are equal, so they have no filter.
fn check_type(data_type: &DataType) -> Result<()> {
    use DataType as T;
    match data_type {
        T::Boolean
        | T::Date32
        | T::Date64
        | T::Time32(_)
        | T::Time64(_)
        | T::Timestamp(..)
        | T::Decimal128(..)
        | T::Utf8
        | T::LargeUtf8
        | T::Utf8View
        | T::Binary
        | T::LargeBinary
        | T::BinaryView => Ok(()),
        data_type if data_type.is_integer() => Ok(()),
        other => not_impl_err!("a membership filter of {other}"),
    }
}

impl fmt::Display for MembershipFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(NAME)?;
        formatter.write_str("(")?;
        for key in &self.keys {
            write!(formatter, "{key}, ")?;
        }
        write!(formatter, "{} bytes)", self.len_bytes())
    }
}

impl PhysicalExpr for MembershipFilter {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let values = self.keys.iter().map(|key| key.evaluate(batch)?.into_array(rows));
        let values = values.collect::<Result<Vec<_>>>()?;
        let hashes = hashes(&values)?;
        let found = BooleanBuffer::collect_bool(rows, |row| self.contains(hashes[row]));
        let found = if let Some(valid) = valid_rows(&values)? { &found & valid.inner() } else { found };
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(found, None))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.keys.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(MembershipFilter { keys: children, blocks: Arc::clone(&self.blocks) }))
    }

    fn fmt_sql(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }

    fn try_to_proto(&self, context: &PhysicalExprEncodeCtx<'_>) -> Result<Option<PhysicalExprNode>> {
        let call = PhysicalScalarUdfNode {
            name: NAME.to_owned(),
            args: context.encode_children_expressions(&self.keys)?,
            fun_definition: Some(self.to_bytes()),
            return_type: Some(ArrowType::try_from(&DataType::Boolean)?),
            nullable: false,
            return_field_name: NAME.to_owned(),
        };
        Ok(Some(PhysicalExprNode { expr_id: None, expr_type: Some(ExprType::ScalarUdf(call)) }))
    }
}
