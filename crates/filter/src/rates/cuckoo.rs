//! The false-positive rate of cuckoo filters, and the size that a filter needs for a target rate.
//!
//! An event that was never recorded is called a duplicate if its fingerprint of F bits equals an entry in one of its
//! two buckets of S slots. There are `2 S fill` entries in these buckets, and each of them is equal with the
//! probability `2^-F`. No two entries have the same pair of buckets and the same fingerprint, because the later event
//! would have been called a duplicate. The cases therefore exclude each other, and their probabilities add up. Fan et
//! al. 2014, section 5.1, have `1 - (1 - 2^-f)^(2b)` instead, for buckets that may hold equal entries.
//!
//! The test `full_filters_err_as_often_as_the_formula_says` in `tests/all/cuckoo_sizes.rs` compares this formula with
//! the measured rate of filters.

use crate::rates::SizingError;
use crate::{BucketShape, PRINT_BITS_MAX, PRINT_BITS_MIN};

/// Returns the false-positive rate for a share of slots with live entries: `2 S fill 2^-F`.
///
/// ```
/// use firstseen_filter::{BucketShape, rates::cuckoo};
/// let rate = cuckoo::rate(BucketShape::new(16, 64), 0.9);
/// assert!((rate - 7.69e-4).abs() < 1e-6);
/// ```
pub fn rate(shape: BucketShape, fill: f64) -> f64 {
    2.0 * f64::from(shape.slots()) * fill * 0.5f64.powi(shape.print_bits() as i32)
}

/// Returns the design load, which is the share of slots up to which a region accepts events. Up to this load, an entry
/// finds room in one of its buckets, or after one relocation. The design load is lower for buckets with few slots,
/// because random variation fills small buckets more often.
///
/// ```
/// use firstseen_filter::{BucketShape, rates::cuckoo};
/// assert_eq!(cuckoo::load(BucketShape::new(16, 64)), 0.93);
/// assert_eq!(cuckoo::load(BucketShape::new(32, 64)), 0.9);
/// ```
pub fn load(shape: BucketShape) -> f64 {
    if shape.slots() > 18 { 0.93 } else { 0.9 }
}

/// Returns the length of the shortest fingerprints with which a filter at its design load achieves the target rate.
///
/// ```
/// use firstseen_filter::rates::cuckoo;
/// assert_eq!(cuckoo::print_bits(0.005, 64), Ok(14));
/// assert_eq!(cuckoo::print_bits(0.001, 64), Ok(16));
/// assert_eq!(cuckoo::print_bits(1e-8, 64), Ok(32));
/// assert!(cuckoo::print_bits(1e-10, 64).is_err());
/// ```
///
/// # Errors
/// Returns [`SizingError`] if the target is not a valid rate, or if it is lower than the rate of the longest
/// fingerprints.
pub fn print_bits(target: f64, time_bits: u8) -> Result<u32, SizingError> {
    SizingError::check(1.0, target)?;
    let shortest = (PRINT_BITS_MIN..=PRINT_BITS_MAX).find(|bits| full_rate(*bits, time_bits) <= target);
    shortest.ok_or_else(|| SizingError::Prints { rate: target, least: full_rate(PRINT_BITS_MAX, time_bits) })
}

/// Returns the false-positive rate of a filter at its design load.
fn full_rate(print_bits: u32, time_bits: u8) -> f64 {
    let shape = BucketShape::new(print_bits, time_bits);
    rate(shape, load(shape))
}
