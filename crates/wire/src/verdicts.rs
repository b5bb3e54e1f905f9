//! Encodes and decodes bitmaps of verdicts, and runs of reasons.
//!
//! Decoding checks that a bitmap or a list of reasons has at most one entry for each event. Entries beyond the last
//! event are rejected.
//!
//! This module does not depend on replies or frames.

use firstseen_routing::Reason;

use crate::error::{WireError, check_at_most};
use crate::proto::producer as proto;

/// Encodes entries as a bitmap. Each byte is filled from its lowest bit upwards, and zero bytes at the end are omitted.
pub(crate) fn pack_bitmap(entries: impl ExactSizeIterator<Item = bool>) -> Vec<u8> {
    let mut bytes = vec![0u8; entries.len().div_ceil(8)];
    entries.enumerate().for_each(|(index, is_set)| bytes[index / 8] |= u8::from(is_set) << (index % 8));
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(used);
    bytes
}

/// Returns whether bit `index` is set.
#[inline]
pub(crate) fn bit(bitmap: &[u8], index: usize) -> bool {
    bitmap.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}

/// Checks that no bit beyond the last entry is set.
pub(crate) fn check_bitmap(field: &'static str, bitmap: &[u8], entries: usize) -> Result<(), WireError> {
    check_at_most(field, bitmap.len() as u64, entries.div_ceil(8) as u64)?;
    match bitmap.get(entries / 8) {
        Some(last) if last >> (entries % 8) != 0 => Err(WireError::Invalid { field, value: (*last).into() }),
        _ => Ok(()),
    }
}

/// Encodes which entries are undecided, and for which reason. The entries must be in ascending order.
///
/// Each run of consecutive entries with the same reason becomes three numbers: the number of entries between this run
/// and the previous run, the length of the run, and the reason. For example, if only the entries 3, 4 and 5 are
/// undecided, and all for the same reason, the encoding is 3, 3 and the number of the reason.
pub(crate) fn pack_reasons(undecided: impl IntoIterator<Item = (u32, Reason)>) -> Vec<u32> {
    let mut triples: Vec<u32> = Vec::new();
    let mut end = 0;
    for (index, reason) in undecided {
        let code = reason_message(reason) as u32;
        match triples.last_chunk_mut::<3>() {
            Some([_, count, last]) if index == end && *last == code => *count += 1,
            _ => triples.extend([index - end, 1, code]),
        }
        end = index + 1;
    }
    triples
}

/// Calls `visit` with the index and the reason of every entry in the triples.
pub(crate) fn unpack_reasons(
    field: &'static str,
    triples: &[u32],
    entries: usize,
    mut visit: impl FnMut(usize, Reason),
) -> Result<(), WireError> {
    if !triples.len().is_multiple_of(3) {
        return Err(WireError::Invalid { field, value: triples.len() as u64 });
    }
    let mut end = 0u64;
    for triple in triples.chunks_exact(3) {
        let start = end + u64::from(triple[0]);
        end = start + u64::from(triple[1]);
        if triple[1] == 0 {
            return Err(WireError::Invalid { field, value: 0 });
        }
        check_at_most(field, end, entries as u64)?;
        let reason = reason(field, triple[2])?;
        (start..end).for_each(|index| visit(index as usize, reason));
    }
    Ok(())
}

/// Encodes a reason.
pub(crate) fn reason_message(reason: Reason) -> proto::Reason {
    match reason {
        Reason::Full => proto::Reason::Full,
        Reason::Late => proto::Reason::Late,
        Reason::Future => proto::Reason::Future,
        Reason::Overloaded => proto::Reason::Overloaded,
        Reason::StaleMap => proto::Reason::StaleMap,
        Reason::TooOld => proto::Reason::TooOld,
        Reason::Unknown => proto::Reason::Unknown,
        Reason::NotReady => proto::Reason::NotReady,
        Reason::Invalid => proto::Reason::Invalid,
        Reason::UnknownFilter => proto::Reason::UnknownFilter,
        Reason::SlicesDown => proto::Reason::SlicesDown,
        Reason::Altered => proto::Reason::Altered,
        Reason::NameReused => proto::Reason::NameReused,
        Reason::CutOff => proto::Reason::CutOff,
        Reason::ClockSkew => proto::Reason::ClockSkew,
        Reason::Claimed => proto::Reason::Claimed,
        Reason::Forbidden => proto::Reason::Forbidden,
        Reason::ClaimsUnknown => proto::Reason::ClaimsUnknown,
    }
}

/// Decodes a reason. A reason that only a newer peer knows decodes to `Unknown`, which promises least.
pub(crate) fn reason(field: &'static str, value: u32) -> Result<Reason, WireError> {
    Ok(match i32::try_from(value).map(proto::Reason::try_from) {
        Ok(Ok(proto::Reason::Unspecified)) => return Err(WireError::Missing { field }),
        Ok(Ok(proto::Reason::Full)) => Reason::Full,
        Ok(Ok(proto::Reason::Late)) => Reason::Late,
        Ok(Ok(proto::Reason::Future)) => Reason::Future,
        Ok(Ok(proto::Reason::Overloaded)) => Reason::Overloaded,
        Ok(Ok(proto::Reason::StaleMap)) => Reason::StaleMap,
        Ok(Ok(proto::Reason::TooOld)) => Reason::TooOld,
        Ok(Ok(proto::Reason::NotReady)) => Reason::NotReady,
        Ok(Ok(proto::Reason::Invalid)) => Reason::Invalid,
        Ok(Ok(proto::Reason::UnknownFilter)) => Reason::UnknownFilter,
        Ok(Ok(proto::Reason::SlicesDown)) => Reason::SlicesDown,
        Ok(Ok(proto::Reason::Altered)) => Reason::Altered,
        Ok(Ok(proto::Reason::NameReused)) => Reason::NameReused,
        Ok(Ok(proto::Reason::CutOff)) => Reason::CutOff,
        Ok(Ok(proto::Reason::ClockSkew)) => Reason::ClockSkew,
        Ok(Ok(proto::Reason::Claimed)) => Reason::Claimed,
        Ok(Ok(proto::Reason::Forbidden)) => Reason::Forbidden,
        Ok(Ok(proto::Reason::ClaimsUnknown)) => Reason::ClaimsUnknown,
        Ok(Ok(proto::Reason::Unknown) | Err(_)) | Err(_) => Reason::Unknown,
    })
}
