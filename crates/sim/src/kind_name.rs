//! The kinds of filters by the names that scenarios use for them.

use firstseen_filter::Kind;

/// Name of the kind that no seed draws.
pub(crate) const CUCKOO: &str = "cuckoo";

/// Returns the kind with this name.
pub(crate) fn kind_of(name: &str) -> Kind {
    match name {
        "bloom" => Kind::Bloom,
        "timing" => Kind::Timing,
        CUCKOO => Kind::Cuckoo,
        _ => Kind::Generations,
    }
}
