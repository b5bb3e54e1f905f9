//! Creates the definition of a filter tree from flags or from a file. If the file has a mistake, the error message
//! names its location in the file. This module checks only the form of the definition, and the cluster checks whether
//! such a tree is possible.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use firstseen_routing::{ClusterMap, CutOff, PlaceSpec, Slicing, TreeMode, TreeSpec};
use serde::Deserialize;

use crate::exit::UsageError;

/// Default name of the root.
const ROOT: &str = "root";

/// Which events the levels below the root remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeArg {
    /// Events that passed through them to the root and were new
    Sparse,
    /// All events that passed through them, so that a leaf answers the next time
    Dense,
}

impl From<TreeArg> for TreeMode {
    fn from(mode: TreeArg) -> Self {
        match mode {
            TreeArg::Sparse => Self::Sparse,
            TreeArg::Dense => Self::Dense,
        }
    }
}

/// Verdict on an event that a level does not know while it cannot reach the level above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutOffArg {
    /// Undecided
    #[default]
    Undecided,
    /// First-seen, as far as this site knows
    Local,
}

impl From<CutOffArg> for CutOff {
    fn from(cut_off: CutOffArg) -> Self {
        match cut_off {
            CutOffArg::Undecided => Self::Undecided,
            CutOffArg::Local => Self::Local,
        }
    }
}

/// Flags of a filter tree. A leaf at every site answers events that it knows, and asks the root about all other events.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tree")]
pub struct TreeArgs {
    /// Create a leaf at every site of the cluster, below a root over all nodes. The value says which events leaves
    /// remember
    #[arg(long, value_enum, value_name = "MODE")]
    pub tree: Option<TreeArg>,
    /// Make each leaf 2^N times smaller than the root
    #[arg(long, value_name = "N", default_value_t = 0, requires = "tree")]
    pub tree_fold: u8,
    /// Check duplicates that a level above D finds in the levels below, down to level D (the root is 0). This gives
    /// fewer false positives and needs more queries; 0 checks nothing
    #[arg(long, value_name = "D", default_value_t = 0, requires = "tree")]
    pub tree_top_down: u8,
    /// Verdict of a site on events that it does not know while it cannot reach the level above: undecided, or
    /// first-seen as far as the site knows (other sites may reply the same)
    #[arg(long, value_enum, value_name = "POLICY", default_value_t, requires = "tree")]
    pub tree_cut_off: CutOffArg,
    /// Read the places of the tree from a TOML file: mode, top_down, cut_off, and [[place]] with name, parent, fold,
    /// slicing, sites
    #[arg(long, value_name = "FILE", conflicts_with = "tree")]
    pub tree_file: Option<PathBuf>,
}

/// The file of `--tree-file`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TreeFile {
    mode: TreeArg,
    #[serde(default)]
    top_down: u8,
    #[serde(default)]
    cut_off: CutOffArg,
    place: Vec<PlaceEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceEntry {
    name: String,
    parent: Option<String>,
    #[serde(default)]
    fold: u8,
    slicing: Option<Slicing>,
    sites: Vec<String>,
}

impl TreeArgs {
    /// Returns whether the flags ask for a tree.
    pub(super) fn is_asked_for(&self) -> bool {
        self.tree.is_some() || self.tree_file.is_some()
    }

    /// Returns the tree that the flags ask for, over the sites of `map`.
    ///
    /// # Errors
    /// Returns a [`UsageError`] if a file cannot be read or parsed.
    pub(super) fn spec(&self, map: &ClusterMap) -> Result<Option<TreeSpec>, UsageError> {
        match (&self.tree_file, self.tree) {
            (Some(file), _) => read(file).map(Some),
            (None, Some(mode)) => Ok(Some(leaf_at_every_site(
                map,
                mode.into(),
                (self.tree_fold, self.tree_top_down),
                self.tree_cut_off.into(),
            ))),
            (None, None) => Ok(None),
        }
    }
}

fn leaf_at_every_site(map: &ClusterMap, mode: TreeMode, (fold, top_down): (u8, u8), cut_off: CutOff) -> TreeSpec {
    let sites: BTreeSet<&String> = map.nodes.values().map(|node| &node.site).collect();
    // A site may already have the default name of the root.
    let root: String = std::iter::successors(Some(ROOT.to_owned()), |name| Some(format!("{name}-{ROOT}")))
        .find(|name| !sites.contains(name))
        .unwrap_or_default();
    let leaves = sites.iter().map(|site| PlaceSpec {
        name: (*site).clone(),
        parent: Some(root.clone()),
        fold,
        slicing: None,
        sites: vec![(*site).clone()],
    });
    let mut places: Vec<PlaceSpec> = leaves.collect();
    let sites = sites.into_iter().cloned().collect();
    places.push(PlaceSpec { name: root, parent: None, fold: 0, slicing: None, sites });
    TreeSpec { mode, cut_off, top_down, places }
}

fn read(file: &Path) -> Result<TreeSpec, UsageError> {
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|error| UsageError(format!("cannot read {shown}: {error}")))?;
    let TreeFile { mode, top_down, cut_off, place } =
        toml::from_str(&text).map_err(|error| UsageError(format!("{shown} cannot be understood: {error}")))?;
    let places = place.into_iter().map(|PlaceEntry { name, parent, fold, slicing, sites }| PlaceSpec {
        name,
        parent,
        fold,
        slicing,
        sites,
    });
    Ok(TreeSpec { mode: mode.into(), cut_off: cut_off.into(), top_down, places: places.collect() })
}
