//! Checks that files have at most 600 lines and functions at most 100, and that every file begins with module
//! documentation.

use firstseen_tidy::{Source, sources};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 100;

#[test]
fn no_file_is_too_long() {
    let long = sources().into_iter().filter(|source| source.text.lines().count() > FILE_LINES_MAX);
    let long: Vec<String> = long.map(|source| format!("{}: {}", source.path, source.text.lines().count())).collect();
    assert!(long.is_empty(), "files over {FILE_LINES_MAX} lines: {long:#?}");
}

#[test]
fn every_file_opens_with_a_module_doc() {
    let silent = |source: &Source| !source.text.trim_start().starts_with("//!") && !source.path.starts_with("fuzz/");
    let silent: Vec<String> = sources().into_iter().filter(silent).map(|source| source.path).collect();
    assert!(silent.is_empty(), "files without a `//!` at their top: {silent:#?}");
}

#[test]
fn no_function_is_too_long() {
    let long: Vec<String> = sources().iter().flat_map(long_functions).collect();
    assert!(long.is_empty(), "functions over {FUNCTION_LINES_MAX} lines: {long:#?}");
}

fn long_functions(source: &Source) -> Vec<String> {
    let file = syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{}: {error}", source.path));
    let mut lengths = Lengths { path: &source.path, long: Vec::new() };
    lengths.visit_file(&file);
    lengths.long
}

struct Lengths<'a> {
    path: &'a str,
    long: Vec<String>,
}

impl Lengths<'_> {
    fn measure(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let lines = block.span().end().line - signature.span().start().line + 1;
        if lines > FUNCTION_LINES_MAX {
            self.long.push(format!("{}: {} has {lines}", self.path, signature.ident));
        }
    }
}

impl<'ast> Visit<'ast> for Lengths<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }
}

#[test]
fn the_measure_sees_a_long_function() {
    let text = format!("fn long() {{\n{}}}\n", "    let _ = 1;\n".repeat(FUNCTION_LINES_MAX));
    assert_eq!(long_functions(&Source { path: "x.rs".to_owned(), text }).len(), 1);
}
