//! Trees of filters: from flags or a file to the places of a tree.
//!
//! Promises: a mistake in a file is an error with its place. Must not know: which trees there can be (the cluster
//! checks that).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use firstseen_routing::{ClusterMap, CutOff, PlaceSpec, Slicing, TreeMode, TreeSpec};
use serde::Deserialize;

use crate::exit::UsageError;

/// What the root is called where no file says otherwise.
const ROOT: &str = "root";

/// Which events the levels below the root remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeArg {
    /// What climbed through them and was new
    Sparse,
    /// Whatever climbed through them, so that a leaf answers the next time
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

/// The verdict on an event that a level does not know while it cannot reach the level above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutOffArg {
    /// Nothing is known
    #[default]
    Undecided,
    /// First-seen, as far as is known here
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

/// A filter above filters: a leaf at every site answers what it knows, and asks the root for the rest.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tree")]
pub struct TreeArgs {
    /// Give every site of the cluster a leaf of its own, below a root over all nodes; leaves remember ...
    #[arg(long, value_enum, value_name = "MODE")]
    pub tree: Option<TreeArg>,
    /// Make each leaf 2^N times smaller than the root
    #[arg(long, value_name = "N", default_value_t = 0, requires = "tree")]
    pub tree_fold: u8,
    /// Check what is found at a level above D in the levels below, down to level D (the root is 0): fewer false positives
    /// for more questions; 0 checks nothing
    #[arg(long, value_name = "D", default_value_t = 0, requires = "tree")]
    pub tree_top_down: u8,
    /// The verdict of a site on events that it does not know while it is cut off from the level above: that they are undecided,
    /// or first-seen as far as it knows (other sites may reply the same)
    #[arg(long, value_enum, value_name = "POLICY", default_value_t, requires = "tree")]
    pub tree_cut_off: CutOffArg,
    /// Take the places of the tree from a TOML file: mode, top_down, cut_off, and [[place]] with name, parent, fold, slicing, sites
    #[arg(long, value_name = "FILE", conflicts_with = "tree")]
    pub tree_file: Option<PathBuf>,
}

/// The file.
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
    /// Whether a tree is asked for.
    pub(super) fn is_asked_for(&self) -> bool {
        self.tree.is_some() || self.tree_file.is_some()
    }

    /// The tree that is asked for, over the sites of `map`.
    ///
    /// # Errors
    /// [`UsageError`] for a file that cannot be read or understood.
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
    // A site may have the name that the root would have.
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
