//! Checks that types have a limited size. A struct may have at most 20 fields. The methods of a type must be in the
//! file that defines the type, or in a few files next to that file.
//!
//! For each type, the check counts the files that contain its inherent `impl` blocks, within the crate that defines the
//! type. Files in the same folder, and in the folder with the name of the defining file, are considered to be next to
//! that file. If the methods of a type are spread over many files, the type probably has too many responsibilities and
//! should be split.

use std::collections::{BTreeMap, BTreeSet};

use firstseen_tidy::{Source, sources};
use syn::visit::{self, Visit};

const FIELDS_MAX: usize = 20;
const METHOD_FILES_MAX: usize = 3;

/// Structs with more fields, with the reason. Remove an entry when the struct has become smaller.
const MANY_FIELDS: [(&str, &str); 1] =
    [("crates/sim/src/scenario.rs: Scenario", "one field for each thing that a seed draws")];

/// Types whose methods are in more files, with the reason. Remove an entry when the type has become smaller.
const MANY_FILES: [(&str, &str); 1] = [(
    "crates/filter/src/slice.rs: CellSlice",
    "a file each for growth, bytes, copies and probes, which no type of theirs parts",
)];

/// Types that a file defines and implements.
#[derive(Default)]
struct Found {
    /// Number of fields of each struct.
    fields: BTreeMap<String, usize>,
    types: BTreeSet<String>,
    /// Types with inherent methods in this file.
    implemented: BTreeSet<String>,
}

impl Found {
    fn of(source: &Source) -> Self {
        let file = syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{}: {error}", source.path));
        let mut found = Self::default();
        found.visit_file(&file);
        found
    }
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.fields.insert(item.ident.to_string(), item.fields.len());
        self.types.insert(item.ident.to_string());
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.types.insert(item.ident.to_string());
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let (None, syn::Type::Path(of)) = (&item.trait_, &*item.self_ty) {
            self.implemented.extend(of.path.segments.last().map(|last| last.ident.to_string()));
        }
        visit::visit_item_impl(self, item);
    }
}

/// Returns the crate of a production file.
fn member(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.split_once("/src/").map(|(member, _)| member)
}

/// Returns whether `file` is next to `home`: in the same folder, or in the folder with the name of `home`.
fn is_beside(file: &str, home: &str) -> bool {
    let folder = |path: &str| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let own = home.strip_suffix(".rs").unwrap_or(home);
    folder(file) == folder(home) || folder(file) == own
}

/// Returns the structs with too many fields, as `file: name`.
fn with_many_fields(sources: &[Source]) -> Vec<(String, usize)> {
    let of = |source: &Source| {
        let many = Found::of(source).fields.into_iter().filter(|(_, fields)| *fields > FIELDS_MAX);
        many.map(|(name, fields)| (format!("{}: {name}", source.path), fields)).collect::<Vec<_>>()
    };
    sources.iter().filter(|source| member(&source.path).is_some()).flat_map(of).collect()
}

/// Returns the methods that are too far away from their type, and the types whose methods are in too many files.
fn scattered(sources: &[Source]) -> (Vec<String>, Vec<(String, usize)>) {
    let files: Vec<(&str, &str, Found)> = sources
        .iter()
        .filter_map(|source| Some((member(&source.path)?, source.path.as_str(), Found::of(source))))
        .collect();
    let (mut away, mut many) = (Vec::new(), Vec::new());
    for (member, home, found) in &files {
        for name in &found.types {
            let others = files.iter().filter(|(other, path, _)| other == member && path != home);
            let homes: Vec<&str> = files
                .iter()
                .filter(|(other, _, found)| other == member && found.types.contains(name))
                .map(|(_, path, _)| *path)
                .collect();
            let has_methods =
                others.filter(|(.., other)| other.implemented.contains(name) && !other.types.contains(name));
            let (near, far): (Vec<&str>, Vec<&str>) =
                has_methods.map(|(_, path, _)| *path).partition(|path| is_beside(path, home));
            let is_far = |path: &&&str| !homes.iter().any(|home| is_beside(path, home));
            away.extend(far.iter().filter(is_far).map(|path| format!("{path}: {name} of {home}")));
            let count = near.len() + usize::from(found.implemented.contains(name));
            if count > METHOD_FILES_MAX {
                many.push((format!("{home}: {name}"), count));
            }
        }
    }
    (away, many)
}

/// Returns the findings that are not in the list, and the entries of the list that were not found.
fn unlike(found: &[(String, usize)], known: &[(&str, &str)]) -> Vec<String> {
    let new = found.iter().filter(|(name, _)| !known.iter().any(|(known, _)| known == name));
    let gone = known.iter().filter(|(known, _)| !found.iter().any(|(name, _)| known == name));
    let new = new.map(|(name, count)| format!("{name} has {count}"));
    new.chain(gone.map(|(name, _)| format!("{name} is mended: take it from the list"))).collect()
}

#[test]
fn structs_have_few_fields() {
    let unlike = unlike(&with_many_fields(&sources()), &MANY_FIELDS);
    assert!(unlike.is_empty(), "structs with more than {FIELDS_MAX} fields: {unlike:#?}");
}

#[test]
fn methods_stand_beside_their_type_in_few_files() {
    let (away, many) = scattered(&sources());
    assert!(away.is_empty(), "methods far from their type: {away:#?}");
    let unlike = unlike(&many, &MANY_FILES);
    assert!(unlike.is_empty(), "types with methods in more than {METHOD_FILES_MAX} files: {unlike:#?}");
}

#[test]
fn what_is_large_or_scattered_is_found() {
    let source = |path: &str, text: &str| Source { path: format!("crates/x/src/{path}"), text: text.to_owned() };
    let fields: String = (0..=FIELDS_MAX).map(|field| format!("f{field}: u8,")).collect();
    assert_eq!(with_many_fields(&[source("a.rs", &format!("struct A {{ {fields} }} struct B;"))]).len(), 1);
    let files = |paths: &[&str]| {
        let home = source("a.rs", "struct A; impl A {} impl Default for A {}");
        let others = paths.iter().map(|path| source(path, "impl crate::a::A {}"));
        let (away, many) = scattered(&std::iter::once(home).chain(others).collect::<Vec<_>>());
        (away.len(), many.len())
    };
    assert_eq!(files(&["b.rs", "a/c.rs"]), (0, 0));
    assert_eq!(files(&["b/c.rs"]), (1, 0));
    assert_eq!(files(&["b.rs", "a/c.rs", "a/d.rs"]), (0, 1));
    assert_eq!(unlike(&[("a.rs: A".to_owned(), 21)], &[("b.rs: B", "")]).len(), 2, "a new one, and one that is mended");
}
