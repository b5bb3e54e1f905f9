//! Maps keys to filters by key prefix. If several prefixes match a key, the longest prefix is used.
//!
//! This module does not depend on which filters exist.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::settings::PrefixSettings;

/// Prefixes with their filters, the longest prefix first.
pub(crate) struct Names {
    prefixes: Vec<(Vec<u8>, Vec<Arc<str>>)>,
}

impl Names {
    pub(crate) fn new(settings: &[PrefixSettings]) -> Self {
        let mut by_beginning: BTreeMap<Vec<u8>, Vec<Arc<str>>> = BTreeMap::new();
        for PrefixSettings { beginning, filter } in settings {
            by_beginning.entry(beginning.clone().into_bytes()).or_default().push(filter.as_str().into());
        }
        let mut prefixes: Vec<_> = by_beginning.into_iter().collect();
        prefixes.sort_by_key(|(beginning, _)| Reverse(beginning.len()));
        Self { prefixes }
    }

    /// Returns the index of the prefix that a key is mapped by, or `None` if no prefix matches.
    pub(crate) fn prefix_of(&self, key: &[u8]) -> Option<usize> {
        self.prefixes.iter().position(|(beginning, _)| key.starts_with(beginning))
    }

    /// Returns the filters that a key is mapped to. The list is empty if no prefix matches.
    pub(crate) fn filters_of(&self, key: &[u8]) -> &[Arc<str>] {
        let fitting = self.prefix_of(key).and_then(|prefix| self.prefixes.get(prefix));
        fitting.map_or(&[], |(_, filters)| filters)
    }

    /// Returns the filter of these keys, if every key is mapped to this filter and no other.
    pub(crate) fn only_filter<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> Option<&Arc<str>> {
        let [only] = self.filters_of(keys.next()?) else { return None };
        keys.all(|key| matches!(self.filters_of(key), [filter] if filter == only)).then_some(only)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_counts() {
        let prefix =
            |beginning: &str, filter: &str| PrefixSettings { beginning: beginning.into(), filter: filter.into() };
        let names =
            Names::new(&[prefix("a:", "short"), prefix("a:b:", "long"), prefix("c", "day"), prefix("c", "hour")]);
        let filters = |key: &str| names.filters_of(key.as_bytes()).iter().map(|name| &**name).collect::<Vec<_>>();
        assert_eq!(filters("a:b:1"), ["long"]);
        assert_eq!(filters("a:c"), ["short"]);
        assert_eq!(filters("c"), ["day", "hour"]);
        assert_eq!((filters("b"), filters("")), (vec![], vec![]));
        let only = |keys: &[&str]| names.only_filter(keys.iter().map(|key| key.as_bytes())).map(|name| &**name);
        assert_eq!((only(&["a:1", "a:2"]), only(&["a:1", "a:b:1"]), only(&["c"])), (Some("short"), None, None));
        assert_eq!((only(&["a:1", "b"]), only(&["b"]), only(&[])), (None, None, None));
        let all = Names::new(&[prefix("", "rest"), prefix("x", "x")]);
        assert_eq!(all.filters_of(b"anything").len(), 1);
    }
}
