//! How often a window of fingerprints errs, and how large it must be.
//!
//! An event that was never recorded is called a duplicate where its fingerprint of F bits is that of an entry in one of
//! its two buckets of S slots: of the `2 S fill` entries there each is equal with chance `2^-F`. No two of them share both
//! buckets and a fingerprint, as the later one would have been called a duplicate, so these chances exclude each other and
//! add up (Fan et al. 2014, section 5.1, have `1 - (1 - 2^-f)^(2b)` of buckets that hold equal ones, too).

use crate::rates::SizingError;
use crate::{BucketShape, PRINT_BITS_MAX, PRINT_BITS_MIN};

/// The rate at a share of slots that hold entries which are alive: `2 S fill 2^-F`.
///
/// ```
/// use firstseen_filter::{BucketShape, rates::cuckoo};
/// let rate = cuckoo::rate(BucketShape::new(16, 64), 0.9);
/// assert!((rate - 7.69e-4).abs() < 1e-6);
/// ```
pub fn rate(shape: BucketShape, fill: f64) -> f64 {
    2.0 * f64::from(shape.slots()) * fill * 0.5f64.powi(shape.print_bits() as i32)
}

/// The share of slots up to which a region takes events in: so far entries find room in one of their buckets, or after
/// one relocation. With few slots a bucket is more often full.
///
/// ```
/// use firstseen_filter::{BucketShape, rates::cuckoo};
/// assert_eq!(cuckoo::load(BucketShape::new(16, 64)), 0.93);
/// assert_eq!(cuckoo::load(BucketShape::new(32, 64)), 0.9);
/// ```
pub fn load(shape: BucketShape) -> f64 {
    if shape.slots() > 18 { 0.93 } else { 0.9 }
}

/// The shortest fingerprints with which a filter filled to its design load keeps `rate`.
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
/// [`SizingError`] where `rate` is none, or lower than that of the longest fingerprints.
pub fn print_bits(target: f64, time_bits: u8) -> Result<u32, SizingError> {
    SizingError::check(1.0, target)?;
    let shortest = (PRINT_BITS_MIN..=PRINT_BITS_MAX).find(|bits| full_rate(*bits, time_bits) <= target);
    shortest.ok_or_else(|| SizingError::Prints { rate: target, least: full_rate(PRINT_BITS_MAX, time_bits) })
}

/// The rate of a filter filled to its design load.
fn full_rate(print_bits: u32, time_bits: u8) -> f64 {
    let shape = BucketShape::new(print_bits, time_bits);
    rate(shape, load(shape))
}
