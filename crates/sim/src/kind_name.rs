//! The kinds of filter by the names that scenarios have for them. Must not know: scenarios.

use firstseen_filter::Kind;

/// The name of the kind that no seed draws.
pub(crate) const CUCKOO: &str = "cuckoo";

/// The kind that scenarios name so.
pub(crate) fn kind_of(name: &str) -> Kind {
    match name {
        "bloom" => Kind::Bloom,
        "timing" => Kind::Timing,
        CUCKOO => Kind::Cuckoo,
        _ => Kind::Generations,
    }
}
