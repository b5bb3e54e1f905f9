//! Determines which modules of a crate use items that other modules define.
//!
//! The analysis finds the dependencies of a module from the names in its code. It traces each name to the module that
//! defines the named item, through `use` declarations, `crate::` and `super::` paths, imported names, and re-exports.
//! It ignores method calls, the arguments of macros, and tests.
//!
//! This module only finds dependencies. The tests that call it decide which dependencies are allowed.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::{Source, is_for_tests};

/// Maximum number of imports between a name and its definition.
const DEPTH_MAX: usize = 8;

/// Path of a module from the top of its crate. The path of the top module is empty.
pub type ModulePath = Vec<String>;

/// Dependency: one module uses an item that another module defines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    /// Module that uses the item.
    pub from: ModulePath,
    /// Module that defines the item.
    pub to: ModulePath,
    /// Name of the item.
    pub item: String,
}

/// Returns all dependencies between the files of the crate whose sources are below `folder` (`crates/x/src/`).
pub fn arrows(sources: &[Source], folder: &str) -> BTreeSet<Arrow> {
    let mut modules = Modules::default();
    for source in sources {
        if let Some(path) = source.path.strip_prefix(folder).and_then(module_path) {
            let file = syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{}: {error}", source.path));
            let mut reader = Reader { modules: &mut modules, path, file: &source.path };
            reader.open();
            reader.visit_file(&file);
        }
    }
    modules.arrows()
}

/// Returns the module of a file. Returns `None` for the top file of a binary.
fn module_path(file: &str) -> Option<ModulePath> {
    let path = file.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "main" => None,
        "lib" => Some(ModulePath::new()),
        path => Some(path.split('/').map(str::to_owned).collect()),
    }
}

/// Contents of a module.
#[derive(Default)]
struct Module {
    file: String,
    defined: BTreeSet<String>,
    /// Names that `use` brings into scope, with their paths.
    imported: BTreeMap<String, ModulePath>,
    /// Paths that are imported with `use x::*`.
    globs: Vec<ModulePath>,
    /// Paths in code, each with the first name as it is written there.
    named: Vec<ModulePath>,
}

#[derive(Default)]
struct Modules {
    known: BTreeMap<ModulePath, Module>,
    /// Test modules, which are not part of the analysis.
    tests: BTreeSet<ModulePath>,
}

impl Modules {
    fn arrows(&self) -> BTreeSet<Arrow> {
        let mut arrows = BTreeSet::new();
        for (from, module) in &self.known {
            if (0..=from.len()).any(|length| self.tests.contains(&from[..length])) {
                continue;
            }
            for named in &module.named {
                let Some(path) = self.absolute(from, named) else { continue };
                let Some((to, item)) = self.definition(&path, 0) else { continue };
                if self.known[&to].file != module.file {
                    arrows.insert(Arrow { from: from.clone(), to, item });
                }
            }
        }
        arrows
    }

    /// Resolves a path in `module` to a path from the top of the crate. Returns `None` if the path leads to another
    /// crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<ModulePath> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => self.absolute_in(module, rest),
            "super" => {
                let (_, parent) = module.split_last()?;
                match rest.first().map(String::as_str) {
                    Some("super") => self.absolute(parent, rest),
                    _ => self.absolute_in(parent, rest),
                }
            }
            name => {
                let here = self.known.get(module)?;
                let is_child = self.known.contains_key(&[module, &path[..1]].concat());
                let is_known = is_child
                    || here.imported.contains_key(name)
                    || here.defined.contains(name)
                    || here.globs.iter().any(|target| self.defines(module, target, name));
                is_known.then(|| [module, path].concat())
            }
        }
    }

    /// Returns whether the module that `module` calls `target` defines `name`. A glob import of a glob import is not
    /// followed.
    fn defines(&self, module: &[String], target: &[String], name: &str) -> bool {
        let is_ours = matches!(target.first().map(String::as_str), Some("crate" | "self" | "super"));
        let target = if is_ours { self.absolute(module, target) } else { Some([module, target].concat()) };
        target
            .and_then(|target| self.known.get(&target))
            .is_some_and(|module| module.defined.contains(name) || module.imported.contains_key(name))
    }

    fn absolute_in(&self, module: &[String], rest: &[String]) -> Option<ModulePath> {
        self.known.contains_key(module).then(|| [module, rest].concat())
    }

    /// Returns the module that defines the item at `path`, and the name of the item there. Returns `None` if the path
    /// leads to a module.
    fn definition(&self, path: &[String], depth: usize) -> Option<(ModulePath, String)> {
        let length = (0..=path.len()).rev().find(|length| self.known.contains_key(&path[..*length]))?;
        let (at, rest) = path.split_at(length);
        let name = rest.first()?;
        let module = self.known.get(at)?;
        if module.defined.contains(name) {
            return Some((at.to_vec(), name.clone()));
        }
        // An import such as `use memchr::memchr` seems to lead to itself, although it leads to another crate. The limit
        // on the number of imports ends the search in that case.
        if depth > DEPTH_MAX {
            return None;
        }
        let targets = match module.imported.get(name) {
            Some(target) => vec![[target, &rest[1..]].concat()],
            None => module.globs.iter().map(|target| [target, rest].concat()).collect(),
        };
        let mut targets = targets.iter().filter_map(|target| self.absolute(at, target));
        targets.find_map(|target| if target == path { None } else { self.definition(&target, depth + 1) })
    }
}

/// Visitor that reads a single file.
struct Reader<'a> {
    modules: &'a mut Modules,
    path: ModulePath,
    file: &'a str,
}

impl Reader<'_> {
    fn open(&mut self) {
        self.here().file = self.file.to_owned();
    }

    fn here(&mut self) -> &mut Module {
        self.modules.known.entry(self.path.clone()).or_default()
    }

    fn import(&mut self, tree: &syn::UseTree, before: &[String], is_passed_on: bool) {
        match tree {
            syn::UseTree::Path(path) => self.import(&path.tree, &after(before, &path.ident), is_passed_on),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, before, is_passed_on));
            }
            syn::UseTree::Glob(_) => self.here().globs.push(before.to_vec()),
            syn::UseTree::Name(name) => self.bring_in(&name.ident, after(before, &name.ident), is_passed_on),
            syn::UseTree::Rename(rename) => self.bring_in(&rename.rename, after(before, &rename.ident), is_passed_on),
        }
    }

    fn bring_in(&mut self, name: &syn::Ident, mut target: ModulePath, is_passed_on: bool) {
        let mut name = name.to_string();
        if name == "self" {
            target.pop();
            name = target.last().cloned().unwrap_or_default();
        }
        let here = self.here();
        // A re-export alone does not count as a use of the item.
        if !is_passed_on {
            here.named.push(target.clone());
        }
        here.imported.insert(name, target);
    }
}

fn after(path: &[String], name: &syn::Ident) -> ModulePath {
    [path, &[name.to_string()]].concat()
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let name = match item {
            syn::Item::Const(it) => &it.ident,
            syn::Item::Enum(it) => &it.ident,
            syn::Item::Fn(it) => &it.sig.ident,
            syn::Item::Static(it) => &it.ident,
            syn::Item::Struct(it) => &it.ident,
            syn::Item::Trait(it) => &it.ident,
            syn::Item::Type(it) => &it.ident,
            syn::Item::Union(it) => &it.ident,
            _ => return visit::visit_item(self, item),
        };
        self.here().defined.insert(name.to_string());
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.path.push(module.ident.to_string());
        if is_for_tests(&module.attrs) {
            self.modules.tests.insert(self.path.clone());
        } else if module.content.is_some() {
            self.open();
            visit::visit_item_mod(self, module);
        }
        self.path.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_passed_on = !matches!(item.vis, syn::Visibility::Inherited);
        self.import(&item.tree, &[], is_passed_on);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.here().named.push(names);
        visit::visit_path(self, path);
    }
}
