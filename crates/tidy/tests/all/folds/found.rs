//! Finds compressed code in production: closures bound to a name, two values bound by one `let`, and parameters that
//! are tuples of different types.
//!
//! Production code is the code below `crates/*/src` without tests. This module does not depend on how many exceptions
//! are allowed.

use std::collections::{BTreeMap, BTreeSet};

use firstseen_tidy::{Source, is_for_tests};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Compressed code in the production code of one crate.
#[derive(Debug, Default)]
pub(crate) struct Folds {
    /// Number of lines of code. Blank lines and lines with only a comment do not count.
    pub(crate) lines: usize,
    /// Places of `let name = |…| …;`.
    pub(crate) closures: Vec<String>,
    /// Places of `let (a, b) = (x, y);`.
    pub(crate) double_lets: Vec<String>,
    /// Places of functions with a parameter that is a tuple of different types.
    pub(crate) tuples: Vec<String>,
}

/// Returns the compressed code of each crate among `sources`.
pub(crate) fn folds(sources: &[Source]) -> BTreeMap<String, Folds> {
    let files: Vec<ReadFile> = sources.iter().filter_map(ReadFile::of).collect();
    let tests: Vec<&String> = files.iter().flat_map(|file| &file.test_modules).collect();
    let mut folds: BTreeMap<String, Folds> = BTreeMap::new();
    for file in &files {
        let module = file.path.strip_suffix(".rs").unwrap_or(&file.path);
        if tests.iter().any(|test| module == **test || module.starts_with(&format!("{test}/"))) {
            continue;
        }
        let of_crate = folds.entry(file.member.clone()).or_default();
        of_crate.lines += file.lines;
        of_crate.closures.extend_from_slice(&file.closures);
        of_crate.double_lets.extend_from_slice(&file.double_lets);
        of_crate.tuples.extend_from_slice(&file.tuples);
    }
    folds
}

/// Contents of one file outside of its tests.
#[derive(Default)]
struct ReadFile {
    member: String,
    path: String,
    lines: usize,
    closures: Vec<String>,
    double_lets: Vec<String>,
    tuples: Vec<String>,
    /// Paths of test modules in separate files, without `.rs`.
    test_modules: Vec<String>,
    /// Lines of test code.
    test_lines: BTreeSet<usize>,
}

impl ReadFile {
    /// Reads a file of a crate. Returns `None` if the file is not below `crates/*/src`.
    fn of(source: &Source) -> Option<Self> {
        let (member, _) = source.path.strip_prefix("crates/")?.split_once("/src/")?;
        let parsed = syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{}: {error}", source.path));
        let mut file = Self { member: member.to_owned(), path: source.path.clone(), ..Self::default() };
        file.visit_file(&parsed);
        let code = (1..).zip(source.text.lines()).filter(|(number, _)| !file.test_lines.contains(number));
        let code = code.map(|(_, line)| line.trim());
        file.lines = code.filter(|line| !line.is_empty() && !line.starts_with("//")).count();
        Some(file)
    }

    fn leave_out(&mut self, tests: &impl Spanned) {
        let span = tests.span();
        self.test_lines.extend(span.start().line..=span.end().line);
    }

    /// Returns the path of a module below this file, without `.rs`.
    fn below(&self, module: &str) -> String {
        let own = self.path.strip_suffix(".rs").unwrap_or(&self.path);
        let folder = ["/lib", "/main", "/mod"].iter().find_map(|name| own.strip_suffix(name)).unwrap_or(own);
        format!("{folder}/{module}")
    }

    fn place(&self, at: &impl Spanned, what: &impl ToString) -> String {
        format!("{}:{}: {}", self.path, at.span().start().line, what.to_string())
    }
}

impl<'ast> Visit<'ast> for ReadFile {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_for_tests(attributes(item)) {
            return visit::visit_item(self, item);
        }
        self.leave_out(item);
        if let syn::Item::Mod(module) = item
            && module.content.is_none()
        {
            self.test_modules.push(self.below(&module.ident.to_string()));
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if is_for_tests(&function.attrs) {
            self.leave_out(function);
        } else {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        let pattern = match &local.pat {
            syn::Pat::Type(typed) => &*typed.pat,
            pattern => pattern,
        };
        let value = local.init.as_ref().map(|init| &*init.expr);
        match (pattern, value) {
            (syn::Pat::Ident(name), Some(syn::Expr::Closure(_))) => {
                self.closures.push(self.place(local, &name.ident));
            }
            (syn::Pat::Tuple(_), Some(syn::Expr::Tuple(_))) => {
                self.double_lets.push(self.place(local, &"two `let`s in one"));
            }
            _ => {}
        }
        visit::visit_local(self, local);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        for parameter in &signature.inputs {
            if let syn::FnArg::Typed(parameter) = parameter
                && has_unlike_parts(&parameter.ty)
            {
                self.tuples.push(self.place(signature, &signature.ident));
            }
        }
        visit::visit_signature(self, signature);
    }
}

/// Returns whether a type is a tuple of different types, or a reference to one.
fn has_unlike_parts(of: &syn::Type) -> bool {
    match of {
        syn::Type::Reference(reference) => has_unlike_parts(&reference.elem),
        syn::Type::Tuple(tuple) => {
            let parts: BTreeSet<Option<String>> = tuple.elems.iter().map(|part| part.span().source_text()).collect();
            parts.len() > 1
        }
        _ => false,
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(it) => &it.attrs,
        syn::Item::Enum(it) => &it.attrs,
        syn::Item::Fn(it) => &it.attrs,
        syn::Item::Impl(it) => &it.attrs,
        syn::Item::Macro(it) => &it.attrs,
        syn::Item::Mod(it) => &it.attrs,
        syn::Item::Static(it) => &it.attrs,
        syn::Item::Struct(it) => &it.attrs,
        syn::Item::Trait(it) => &it.attrs,
        syn::Item::Type(it) => &it.attrs,
        syn::Item::Use(it) => &it.attrs,
        _ => &[],
    }
}
