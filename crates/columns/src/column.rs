//! Reads the values of Arrow arrays as the bytes that are hashed. Arrays without a dictionary are not copied.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Float16Type, Float32Type, Float64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Decimal128Array, Decimal256Array,
    FixedSizeBinaryArray, Int8Array, Int16Array, Int32Array, Int64Array, LargeBinaryArray, LargeStringArray,
    PrimitiveArray, StringArray, StringViewArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, TimeUnit};
use firstseen_filter::append_part;

use crate::text::Text;

/// Values of a column that can be part of a key.
#[derive(Clone, Debug)]
pub struct Column {
    array: ArrayRef,
}

impl Column {
    /// Reads the values of an array. `None` means that values of its type cannot be part of a key: nested values,
    /// intervals and times of day.
    ///
    /// # Errors
    /// Returns an [`ArrowError`] if the array has a dictionary that does not contain all of its values.
    pub fn new(array: &ArrayRef) -> Result<Option<Self>, ArrowError> {
        let array = match array.data_type() {
            DataType::Dictionary(_, values) => cast(array, values)?,
            _ => ArrayRef::clone(array),
        };
        Ok(Values::of(&array).is_some().then_some(Self { array }))
    }

    /// Returns whether values of this type can be part of a key.
    pub fn accepts(data_type: &DataType) -> bool {
        match data_type {
            DataType::Dictionary(_, values) => Self::accepts(values),
            _ => Values::of(&arrow_array::new_empty_array(data_type)).is_some(),
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.array.len()
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.array.is_empty()
    }

    /// Returns the bytes of each value as they are hashed, which are `None` where a value is missing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{ArrayRef, Float64Array};
    /// use firstseen_columns::Column;
    ///
    /// let array: ArrayRef = Arc::new(Float64Array::from(vec![Some(2.0), None, Some(0.5)]));
    /// let column = Column::new(&array)?.expect("numbers can be part of a key");
    /// assert_eq!(column.to_bytes(), [Some(b"2".to_vec()), None, Some(b"0.5".to_vec())]);
    /// # Ok::<(), arrow_schema::ArrowError>(())
    /// ```
    pub fn to_bytes(&self) -> Vec<Option<Vec<u8>>> {
        let mut text = Text::default();
        let values = self.values();
        (0..self.len()).map(|index| values.get(index, &mut text).map(<[u8]>::to_vec)).collect()
    }

    pub(crate) fn values(&self) -> Values<'_> {
        Values::of(&self.array).unwrap_or(Values::Null)
    }
}

/// Values of a column that is stored in several arrays, one after the other.
#[derive(Clone, Debug, Default)]
pub struct ChunkedColumn {
    chunks: Vec<Column>,
}

impl ChunkedColumn {
    /// Joins the chunks of a column.
    pub fn new(chunks: Vec<Column>) -> Self {
        Self { chunks }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(Column::len).sum()
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.chunks.iter().all(Column::is_empty)
    }

    /// Returns the bytes of each value as they are hashed, which are `None` where a value is missing.
    pub fn to_bytes(&self) -> Vec<Option<Vec<u8>>> {
        self.chunks.iter().flat_map(Column::to_bytes).collect()
    }

    fn values(&self) -> impl Iterator<Item = (Values<'_>, usize)> {
        self.chunks.iter().flat_map(|chunk| {
            let values = chunk.values();
            (0..chunk.len()).map(move |index| (values, index))
        })
    }
}

/// Calls `visit` with the bytes of the key of each event, in order. The values in row `i` of the columns form the key
/// of event `i`, which is `None` if a value is missing. All columns must have the same length.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, StringArray};
/// use firstseen_columns::{ChunkedColumn, Column, visit_keys};
/// use firstseen_filter::FilterSecret;
///
/// let users: ArrayRef = Arc::new(StringArray::from(vec![Some("ann"), None]));
/// let ads: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
/// let columns: Vec<_> = [users, ads]
///     .iter()
///     .map(|array| Ok(ChunkedColumn::new(Column::new(array)?.into_iter().collect())))
///     .collect::<Result<_, arrow_schema::ArrowError>>()?;
/// let secret = FilterSecret::from_seed(1);
/// let mut digests = Vec::new();
/// visit_keys(&columns, |key| digests.push(key.map(|key| secret.digest(key))));
/// assert_eq!(digests, [Some(secret.digest_parts([&b"ann"[..], b"7"], &mut Vec::new())), None]);
/// # Ok::<(), arrow_schema::ArrowError>(())
/// ```
pub fn visit_keys(columns: &[ChunkedColumn], mut visit: impl FnMut(Option<&[u8]>)) {
    let mut text = Text::default();
    if let [column] = columns {
        column.values().for_each(|(values, index)| visit(values.get(index, &mut text)));
        return;
    }
    let mut walks: Vec<_> = columns.iter().map(ChunkedColumn::values).collect();
    let events = columns.first().map_or(0, ChunkedColumn::len);
    let mut key = Vec::new();
    for _ in 0..events {
        key.clear();
        let mut parts = 0;
        for (values, index) in walks.iter_mut().filter_map(Iterator::next) {
            let Some(value) = values.get(index, &mut text) else { continue };
            append_part(value, &mut key);
            parts += 1;
        }
        visit((parts == columns.len()).then_some(key.as_slice()));
    }
}

/// Values of one array, by the type of the array.
#[derive(Clone, Copy)]
pub(crate) enum Values<'a> {
    Text(&'a StringArray),
    LargeText(&'a LargeStringArray),
    TextView(&'a StringViewArray),
    Bytes(&'a BinaryArray),
    LargeBytes(&'a LargeBinaryArray),
    BytesView(&'a BinaryViewArray),
    FixedBytes(&'a FixedSizeBinaryArray),
    Bool(&'a BooleanArray),
    Int8(&'a Int8Array),
    Int16(&'a Int16Array),
    Int32(&'a Int32Array),
    Int64(&'a Int64Array),
    UInt8(&'a UInt8Array),
    UInt16(&'a UInt16Array),
    UInt32(&'a UInt32Array),
    UInt64(&'a UInt64Array),
    Float16(&'a PrimitiveArray<Float16Type>),
    Float32(&'a PrimitiveArray<Float32Type>),
    Float64(&'a PrimitiveArray<Float64Type>),
    Decimal32(&'a PrimitiveArray<Decimal32Type>),
    Decimal64(&'a PrimitiveArray<Decimal64Type>),
    Decimal128(&'a Decimal128Array),
    Decimal256(&'a Decimal256Array),
    Date32(&'a PrimitiveArray<Date32Type>),
    Date64(&'a PrimitiveArray<Date64Type>),
    Seconds(&'a PrimitiveArray<TimestampSecondType>, HasZone),
    Millis(&'a PrimitiveArray<TimestampMillisecondType>, HasZone),
    Micros(&'a PrimitiveArray<TimestampMicrosecondType>, HasZone),
    Nanos(&'a PrimitiveArray<TimestampNanosecondType>, HasZone),
    /// Every value is missing.
    Null,
}

/// Whether timestamps name moments, or local times without a zone.
#[derive(Clone, Copy)]
pub(crate) struct HasZone(bool);

impl<'a> Values<'a> {
    /// Returns `None` if keys cannot have the type of the array.
    pub(crate) fn of(array: &'a dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Utf8 => Self::Text(array.as_string()),
            DataType::LargeUtf8 => Self::LargeText(array.as_string()),
            DataType::Utf8View => Self::TextView(array.as_string_view()),
            DataType::Binary => Self::Bytes(array.as_binary()),
            DataType::LargeBinary => Self::LargeBytes(array.as_binary()),
            DataType::BinaryView => Self::BytesView(array.as_binary_view()),
            DataType::FixedSizeBinary(_) => Self::FixedBytes(array.as_fixed_size_binary()),
            DataType::Boolean => Self::Bool(array.as_boolean()),
            DataType::Int8 => Self::Int8(array.as_primitive()),
            DataType::Int16 => Self::Int16(array.as_primitive()),
            DataType::Int32 => Self::Int32(array.as_primitive()),
            DataType::Int64 => Self::Int64(array.as_primitive()),
            DataType::UInt8 => Self::UInt8(array.as_primitive()),
            DataType::UInt16 => Self::UInt16(array.as_primitive()),
            DataType::UInt32 => Self::UInt32(array.as_primitive()),
            DataType::UInt64 => Self::UInt64(array.as_primitive()),
            DataType::Float16 => Self::Float16(array.as_primitive()),
            DataType::Float32 => Self::Float32(array.as_primitive()),
            DataType::Float64 => Self::Float64(array.as_primitive()),
            DataType::Decimal32(..) => Self::Decimal32(array.as_primitive()),
            DataType::Decimal64(..) => Self::Decimal64(array.as_primitive()),
            DataType::Decimal128(..) => Self::Decimal128(array.as_primitive()),
            DataType::Decimal256(..) => Self::Decimal256(array.as_primitive()),
            DataType::Date32 => Self::Date32(array.as_primitive()),
            DataType::Date64 => Self::Date64(array.as_primitive()),
            DataType::Timestamp(unit, zone) => {
                let zone = HasZone(zone.is_some());
                match unit {
                    TimeUnit::Second => Self::Seconds(array.as_primitive(), zone),
                    TimeUnit::Millisecond => Self::Millis(array.as_primitive(), zone),
                    TimeUnit::Microsecond => Self::Micros(array.as_primitive(), zone),
                    TimeUnit::Nanosecond => Self::Nanos(array.as_primitive(), zone),
                }
            }
            DataType::Null => Self::Null,
            _ => return None,
        })
    }

    /// Returns the bytes of a value as they are hashed, or `None` if the value is missing.
    #[inline]
    pub(crate) fn get<'b>(self, index: usize, text: &'b mut Text) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        match self {
            Self::Text(array) => array.is_valid(index).then(|| array.value(index).as_bytes()),
            Self::LargeText(array) => array.is_valid(index).then(|| array.value(index).as_bytes()),
            Self::TextView(array) => array.is_valid(index).then(|| array.value(index).as_bytes()),
            Self::Bytes(array) => array.is_valid(index).then(|| array.value(index)),
            Self::LargeBytes(array) => array.is_valid(index).then(|| array.value(index)),
            Self::BytesView(array) => array.is_valid(index).then(|| array.value(index)),
            Self::FixedBytes(array) => array.is_valid(index).then(|| array.value(index)),
            Self::Bool(array) => array.is_valid(index).then(|| truth(array.value(index))),
            Self::Int8(array) => array.is_valid(index).then(|| text.integer(array.value(index))),
            Self::Int16(array) => array.is_valid(index).then(|| text.integer(array.value(index))),
            Self::Int32(array) => array.is_valid(index).then(|| text.integer(array.value(index))),
            Self::Int64(array) => array.is_valid(index).then(|| text.integer(array.value(index))),
            Self::UInt8(array) => array.is_valid(index).then(|| text.integer(array.value(index))),
            Self::UInt16(array) => array.is_valid(index).then(|| text.integer(array.value(index))),
            Self::UInt32(array) => array.is_valid(index).then(|| text.integer(array.value(index))),
            Self::UInt64(array) => array.is_valid(index).then(|| text.integer(array.value(index))),
            Self::Float16(array) => array.is_valid(index).then(|| text.float(array.value(index))),
            Self::Float32(array) => array.is_valid(index).then(|| text.float(array.value(index))),
            Self::Float64(array) => array.is_valid(index).then(|| text.float(array.value(index))),
            Self::Decimal32(array) => array.is_valid(index).then(|| text.write(&array.value_as_string(index))),
            Self::Decimal64(array) => array.is_valid(index).then(|| text.write(&array.value_as_string(index))),
            Self::Decimal128(array) => array.is_valid(index).then(|| text.write(&array.value_as_string(index))),
            Self::Decimal256(array) => array.is_valid(index).then(|| text.write(&array.value_as_string(index))),
            Self::Date32(array) => array.is_valid(index).then(|| text.date(i64::from(array.value(index)))),
            Self::Date64(array) => {
                array.is_valid(index).then(|| text.date(array.value(index).div_euclid(MILLIS_PER_DAY)))
            }
            Self::Seconds(array, zone) => {
                array.is_valid(index).then(|| zone.text(array.value(index), NANOS_PER_SECOND, text))
            }
            Self::Millis(array, zone) => {
                array.is_valid(index).then(|| zone.text(array.value(index), NANOS_PER_MILLI, text))
            }
            Self::Micros(array, zone) => {
                array.is_valid(index).then(|| zone.text(array.value(index), NANOS_PER_MICRO, text))
            }
            Self::Nanos(array, zone) => array.is_valid(index).then(|| zone.text(array.value(index), 1, text)),
            Self::Null => None,
        }
    }
}

fn truth(value: bool) -> &'static [u8] {
    if value { b"true" } else { b"false" }
}

const MILLIS_PER_DAY: i64 = 86_400_000;
const NANOS_PER_SECOND: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;
const NANOS_PER_MICRO: i128 = 1_000;

impl HasZone {
    fn text(self, value: i64, unit_nanos: i128, text: &mut Text) -> &[u8] {
        let nanos = i128::from(value) * unit_nanos;
        if self.0 { text.moment(nanos) } else { text.local(nanos) }
    }
}
