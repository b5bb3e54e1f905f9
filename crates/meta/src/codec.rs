//! Encoding of commands, log entries and snapshots. An encoded value has a format version, a CRC-32, and then fields of
//! fixed width.
//!
//! # Guarantees
//! - The encoding of a value never changes within a version.
//! - If an older version can express a value, the value is encoded exactly as in that version.
//! - Torn or modified bytes result in an error, never in a value or a panic.
//! - No length in the bytes causes an allocation of more than [`BYTES_MAX`].
//!
//! Only this module uses the encoding library directly, so the library can be replaced without changing other modules.
//!
//! The caller of an encoding function decides in which version the value is encoded.

use std::ops::RangeInclusive;

use firstseen_routing::Format;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// Versions of the encoding that this program can read. During an upgrade, nodes with an older version of the program
/// must be able to read the values that newer nodes write. Most values are therefore written in the lowest version that
/// can express them.
///
/// - Version 10 belongs to release 0.1.
/// - Version 11 adds the format of a map ([`crate::Change::Raise`]), access rights ([`crate::AccessChange`]), the
///   principal that requested a change ([`crate::AskedBy`]), trees with a journal or copies, and places that are added
///   to trees and removed ([`crate::Change::AddPlace`], [`crate::Change::RemovePlace`]).
pub const VERSIONS: RangeInclusive<u8> = FIRST..=NEWEST;

/// The version of release 0.1.
pub const FIRST: u8 = Format::FIRST.0;

/// The newest version that this program writes.
pub const NEWEST: u8 = 11;

/// Maximum size of one value in bytes. The largest values are snapshots.
pub const BYTES_MAX: usize = 64 << 20;

const CRC_BYTES: usize = 4;
const HEADER_BYTES: usize = 1 + CRC_BYTES;

/// Reason why bytes cannot be decoded as the requested value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CodecError {
    /// The bytes are too short for a header.
    #[error("{bytes} bytes are too few: it was cut short")]
    TooShort {
        /// Number of given bytes.
        bytes: usize,
    },
    /// The bytes have an unsupported version.
    #[error("format version {found}, but this program reads {FIRST} to {NEWEST}: use the version that wrote it")]
    Version {
        /// The version in the bytes.
        found: u8,
    },
    /// The bytes have changed since they were written.
    #[error("the checksum does not match: it was torn or altered")]
    Checksum,
    /// The checksum is correct, but the bytes are not a value of the type.
    #[error("it is not a valid value of its type: {0}")]
    Malformed(String),
    /// The value is too large.
    #[error("{bytes} bytes, but at most {BYTES_MAX} are allowed")]
    TooLarge {
        /// Number of given bytes.
        bytes: usize,
    },
}

fn layout() -> impl bincode::config::Config {
    bincode::config::legacy().with_limit::<BYTES_MAX>()
}

/// Encodes `value`, which the first version can express.
///
/// # Errors
/// [`CodecError`] for a value that is too large.
///
/// ```
/// use firstseen_meta::codec;
/// let bytes = codec::encode(&(7u64, "clicks")).unwrap();
/// assert_eq!(codec::decode::<(u64, String)>(&bytes).unwrap(), (7, "clicks".to_owned()));
/// assert!(codec::decode::<(u64, String)>(&bytes[..bytes.len() - 1]).is_err());
/// ```
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    encode_as(FIRST, value)
}

/// Encodes `value` with `version`, which must be the lowest version that can express it.
///
/// # Errors
/// [`CodecError`] for a value that is too large.
pub(crate) fn encode_as<T: Serialize>(version: u8, value: &T) -> Result<Vec<u8>, CodecError> {
    let body =
        bincode::serde::encode_to_vec(value, layout()).map_err(|error| CodecError::Malformed(error.to_string()))?;
    if body.len() > BYTES_MAX {
        return Err(CodecError::TooLarge { bytes: body.len() });
    }
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.push(version);
    bytes.extend_from_slice(&checksum(version, &body).to_le_bytes());
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

/// Decodes the value that `bytes` contain. No bytes may remain.
///
/// # Errors
/// [`CodecError`] says what is wrong with the bytes.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let Some((header, body)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Err(CodecError::TooShort { bytes: bytes.len() });
    };
    let version = header[0];
    let crc = &header[1..];
    if !VERSIONS.contains(&version) {
        return Err(CodecError::Version { found: version });
    }
    if body.len() > BYTES_MAX {
        return Err(CodecError::TooLarge { bytes: body.len() });
    }
    if crc != checksum(version, body).to_le_bytes() {
        return Err(CodecError::Checksum);
    }
    let (value, read_bytes) =
        bincode::serde::decode_from_slice(body, layout()).map_err(|error| CodecError::Malformed(error.to_string()))?;
    if read_bytes != body.len() {
        return Err(CodecError::Malformed(format!("{} bytes follow it", body.len() - read_bytes)));
    }
    Ok(value)
}

fn checksum(version: u8, body: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[version]);
    crc.update(body);
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use firstseen_routing::{
        CutOff, FilterPolicies, NodeId, PlaceSpec, SecretMaterial, SlicedDefinition, TreeMode, TreeSpec,
    };
    use proptest::prelude::*;

    use super::*;
    use crate::change::{Change, NewFilter, NodeProfile};
    use crate::command::{Command, Outcome};
    use crate::refusal::Refusal;
    use crate::types::Applied;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn add_node() -> Command {
        let profile =
            NodeProfile { name: "n1".into(), site: "fra".into(), address: "h:1".into(), memory_bytes: 1 << 20 };
        Command::new([7; 16], Change::AddNode { profile })
    }

    #[test]
    fn bytes_of_a_version_never_change() {
        let command = encode(&add_node()).unwrap();
        let golden = concat!(
            "0a",
            "CRC",
            "07070707070707070707070707070707",
            "01000000",
            "0200000000000000",
            "6e31",
            "0300000000000000",
            "667261",
            "0300000000000000",
            "683a31",
            "0000100000000000",
        );
        assert_eq!(hex(&command), golden.replace("CRC", &hex(&command[1..5])));
        let applied = Applied { index: 9, outcome: Some(Ok(Outcome::NodeAdded(NodeId(3)))) };
        let golden = "0aCRC0900000000000000010000000001000000".to_owned() + "0300000000000000";
        let bytes = encode(&applied).unwrap();
        assert_eq!(hex(&bytes), golden.replace("CRC", &hex(&bytes[1..5])));
        let refused = Applied { index: 9, outcome: Some(Err(Refusal::NodeUnknown { node: NodeId(3) })) };
        assert_eq!(decode::<Applied>(&encode(&refused).unwrap()), Ok(refused));
    }

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(hex(&encode(&()).unwrap()), "0a".to_owned() + &hex(&crc32fast::hash(&[10]).to_le_bytes()));
    }

    #[test]
    fn a_definition_survives() {
        let spec = firstseen_filter::FilterSpec {
            capacity_events: Some(1000),
            ..firstseen_filter::FilterSpec::new(firstseen_filter::Kind::Timing, "1h".parse().unwrap())
        };
        let slicing = "vertical:8".parse().unwrap();
        let definition = SlicedDefinition::new(&spec, slicing).unwrap();
        let (name, parent, sites) = ("athens".to_owned(), Some("root".to_owned()), vec!["athens".to_owned()]);
        let place = PlaceSpec { name, parent, fold: 3, slicing: Some(slicing), sites };
        let filter = NewFilter {
            name: "clicks".into(),
            definition,
            policies: FilterPolicies::default(),
            secret: SecretMaterial([3; 32]),
            if_absent: true,
            tree: Some(TreeSpec { mode: TreeMode::Dense, cut_off: CutOff::Local, top_down: 1, places: vec![place] }),
        };
        let command = Command::new([1; 16], Change::CreateFilter(filter));
        assert_eq!(decode::<Command>(&encode(&command).unwrap()), Ok(command));
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = encode(&1u64).unwrap();
        bytes[0] = 1;
        assert_eq!(decode::<u64>(&bytes), Err(CodecError::Version { found: 1 }));
        bytes[0] = NEWEST + 1;
        assert_eq!(decode::<u64>(&bytes), Err(CodecError::Version { found: NEWEST + 1 }));
        assert_eq!(decode::<u64>(&[]), Err(CodecError::TooShort { bytes: 0 }));
    }

    #[test]
    fn a_length_decides_no_allocation() {
        let body = [&u64::MAX.to_le_bytes()[..], b"x"].concat();
        let mut bytes = vec![FIRST];
        bytes.extend_from_slice(&checksum(FIRST, &body).to_le_bytes());
        bytes.extend_from_slice(&body);
        assert!(matches!(decode::<String>(&bytes), Err(CodecError::Malformed(_))));
        assert!(matches!(decode::<Vec<u64>>(&bytes), Err(CodecError::Malformed(_))));
    }

    proptest! {
        #[test]
        fn a_changed_bit_or_a_cut_is_an_error(bit in 0usize..400, cut in 0usize..60) {
            let bytes = encode(&add_node()).unwrap();
            let mut altered = bytes.clone();
            let bit = bit % (bytes.len() * 8);
            altered[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode::<Command>(&altered).is_err());
            prop_assert!(decode::<Command>(&bytes[..cut.min(bytes.len() - 1)]).is_err());
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut framed = vec![FIRST];
            framed.extend_from_slice(&checksum(FIRST, &bytes).to_le_bytes());
            framed.extend_from_slice(&bytes);
            let _ = decode::<Command>(&bytes);
            let _ = decode::<Command>(&framed);
            let _ = decode::<Vec<Command>>(&framed);
        }
    }
}
