//! A random filter tree over the nodes of a simulated cluster. Each node is a site and has a leaf. The root has its
//! slices either at all sites or at one of them. The same random numbers always give the same tree.

use std::fmt;

use firstseen_routing::{CutOff, PlaceSpec, TreeMode, TreeSpec};

use crate::seeded_rng::SeededRng;

/// Slicings of a root that has slices at all sites.
const SHARED: [&str; 3] = ["vertical:3", "vertical:3", "horizontal:3"];
/// Slicings of a root at one site.
const AT_ONE_SITE: [&str; 2] = ["none", "horizontal:2"];
const ROOT: &str = "root";
const MIDDLE: &str = "middle";

/// The tree of a run's filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// Which events leaves remember.
    pub mode: TreeMode,
    /// The fold of the leaf at each site.
    pub folds: Vec<u8>,
    /// The site that has the whole root. `None` if all sites have slices of it.
    pub root_at: Option<usize>,
    /// Whether the leaves of the first two sites query a middle level at the second site, which queries the root.
    pub has_middle: bool,
    /// Events found above this level are checked at the lower levels.
    pub top_down: u8,
    /// The verdicts of leaves while they cannot reach their parent level.
    pub cut_off: CutOff,
}

/// Returns the name of the site of node `index`, and of the leaf there.
pub fn site_name(index: usize) -> String {
    format!("site-{index}")
}

impl Tree {
    /// Draws a tree over `sites` sites, and the slicing of its root.
    pub fn draw(rng: &mut SeededRng, sites: usize) -> (Self, &'static str) {
        let root_at = (rng.below(3) == 0).then(|| rng.below(sites as u64) as usize);
        let tree = Self {
            mode: rng.pick(&[TreeMode::Dense, TreeMode::Dense, TreeMode::Sparse]),
            folds: (0..sites).map(|_| rng.below(3) as u8).collect(),
            root_at,
            has_middle: rng.below(4) == 0,
            top_down: 0,
            cut_off: CutOff::Undecided,
        };
        let slicing = if root_at.is_some() { rng.pick(&AT_ONE_SITE) } else { rng.pick(&SHARED) };
        let cut_off = rng.pick(&[CutOff::Undecided, CutOff::Local]);
        let depth = if tree.has_middle { 2 } else { 1 };
        let top_down = rng.below(2) as u8 * (1 + rng.below(depth) as u8);
        (Self { cut_off, top_down, ..tree }, slicing)
    }

    /// Returns the specification that an operator sends.
    pub fn spec(&self) -> TreeSpec {
        let sites: Vec<String> = (0..self.folds.len()).map(site_name).collect();
        let root_sites = self.root_at.map_or_else(|| sites.clone(), |site| vec![site_name(site)]);
        let mut places = vec![place(ROOT, None, 0, root_sites)];
        if self.has_middle {
            let fold = self.folds.iter().take(2).copied().min().unwrap_or_default();
            places.push(place(MIDDLE, Some(ROOT), fold, vec![site_name(1)]));
        }
        for (site, fold) in self.folds.iter().enumerate() {
            let parent = if self.has_middle && site < 2 { MIDDLE } else { ROOT };
            places.push(place(&sites[site], Some(parent), *fold, vec![sites[site].clone()]));
        }
        TreeSpec { mode: self.mode, cut_off: self.cut_off, top_down: self.top_down, places }
    }
}

fn place(name: &str, parent: Option<&str>, fold: u8, sites: Vec<String>) -> PlaceSpec {
    PlaceSpec { name: name.to_owned(), parent: parent.map(str::to_owned), fold, slicing: None, sites }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, folds, root_at, has_middle, cut_off, top_down } = self;
        write!(f, " in a {mode:?} tree, cut off {cut_off:?}, top-down {top_down}, folds {folds:?}")?;
        if let Some(site) = root_at {
            write!(f, ", root at site {site}")?;
        }
        write!(f, "{}", if *has_middle { ", a level between" } else { "" })
    }
}
