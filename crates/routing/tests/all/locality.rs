//! Shows at which level of a filter tree the duplicates in real logs are found, as in Table 1 of Koloniari et al. 2011.
//! The tests compare the result with a plain model, which must find each duplicate at the same level.

mod model;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use crate::common::{Producer, TestRng, definition, spec as filter};
use crate::network::Network;
use crate::network::tree::{ROOT, spec};
use firstseen_filter::{Digest, FilterSecret, Kind, Probes};
use firstseen_records::{
    Block, BlockOptions, BlockReader, Decompressed, ParsedBlock, ParserConfig, RecordFormat, RecordParser,
};
use firstseen_routing::{Decision, FilterPolicies, TreeMode};
use model::{Counts, Model};

const HASHES: u32 = 6;
/// Number of cells for each different event. The error rate at the root is 2 % when all events have been seen.
const CELLS_PER_EVENT: f64 = 8.14;
const SITES: u64 = 4;

/// Parents and folds of the places. There is a leaf at each site below the root, and optionally regions of two sites
/// between them.
const SHAPES: [&[(usize, u8)]; 3] = [
    &[(0, 0), (0, 0), (0, 0), (0, 0), (0, 0)],
    &[(0, 0), (0, 0), (0, 0), (1, 0), (1, 0), (2, 0), (2, 0)],
    &[(0, 0), (0, 1), (0, 1), (1, 2), (1, 2), (2, 2), (2, 2)],
];

/// A log as a list of events, each with the site whose producers send it.
struct Log {
    events: Vec<Digest>,
    sites: Vec<usize>,
}

fn read(name: &str, format: RecordFormat, key: &[&str]) -> Vec<Digest> {
    let key = key.iter().map(|field| (*field).to_owned()).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data").join(name);
    let file = Decompressed::new(File::open(path).unwrap()).unwrap();
    let mut blocks = BlockReader::new(file, BlockOptions::for_format(format));
    let config = ParserConfig { key, ..ParserConfig::new(format) };
    let mut parser = RecordParser::new(config, FilterSecret::from_seed(5)).unwrap();
    let (mut block, mut parsed, mut digests) = (Block::default(), ParsedBlock::default(), Vec::new());
    while blocks.read_block(&mut block).unwrap() {
        parser.parse(&block, &mut parsed).unwrap();
        digests.extend_from_slice(parsed.digests());
    }
    digests
}

/// Reads the events of a log, whose keys consist of the fields `key`. The client's address determines the site of an
/// event.
fn log(name: &str, format: RecordFormat, key: &[&str]) -> Log {
    let (events, hosts) = (read(name, format, key), read(name, format, &["host"]));
    assert_eq!(events.len(), hosts.len());
    let site = |host: &Digest| (host.lo % SITES) as usize;
    Log { events, sites: hosts.iter().map(site).collect() }
}

/// Sends the whole log, one event at a time, to a tree and to its model.
fn carried_out(log: &Log, mode: TreeMode, shape: &[(usize, u8)]) -> Counts {
    let different: BTreeSet<(u64, u64)> = log.events.iter().map(|event| (event.hi, event.lo)).collect();
    let cells = (different.len() as f64 * CELLS_PER_EVENT) as u64;
    let definition = definition(&filter(Kind::Bloom, "unbounded", cells, HASHES), "vertical:3");
    let mut forest =
        Network::of_tree(&spec(mode, shape, &["none"]), &definition, FilterPolicies::default(), TestRng(1));
    let (mut producers, mut model) = (Producer::new(7, &definition), Model::new(mode, shape));
    let (leaves, prober) = (forest.leaves(), forest.map().prober(&forest.map().filters[&ROOT]).unwrap());
    let mut counts = Counts { hits: vec![0; model.counts.hits.len()], ..Counts::default() };
    for (number, (event, site)) in log.events.iter().zip(&log.sites).enumerate() {
        let leaf = leaves[*site];
        let (decision, seen) = producers.ask_in(&mut forest, leaf, *event, 0, true);
        let mut probes = Probes::new(prober.shape());
        prober.push(*event, &mut probes);
        let is_found = model.observe((leaf.0 - ROOT.0) as usize, probes.positions(0));
        assert_eq!(decision == Decision::Duplicate, is_found, "{mode:?}, event {number}");
        match decision {
            Decision::Duplicate => counts.hits[usize::from(seen.level)] += 1,
            _ => counts.delivered += 1,
        }
    }
    counts.accesses = forest.accesses();
    assert_eq!(counts, model.counts, "{mode:?}, {shape:?}");
    counts
}

/// Checks identities that hold for every log.
fn check_identities(log: &Log, counts: &Counts) {
    let Counts { accesses, hits, delivered } = counts;
    let leaf = accesses.len() - 1;
    assert_eq!(accesses[leaf], log.events.len() as u64);
    for level in 1..=leaf {
        assert_eq!(accesses[level - 1], accesses[level] - hits[level]);
    }
    assert_eq!(hits.iter().sum::<u64>() + delivered, log.events.len() as u64);
}

/// Returns the hits at the leaf and at the root in percent of all hits.
fn shares(counts: &Counts) -> [f64; 2] {
    let all: u64 = counts.hits.iter().sum();
    [counts.hits[counts.hits.len() - 1], counts.hits[0]].map(|hits| hits as f64 * 100.0 / all as f64)
}

fn table(name: &str, log: &Log) -> Vec<[[f64; 2]; 2]> {
    println!("{name}: {} events", log.events.len());
    let row = |shape: &&[(usize, u8)]| {
        [TreeMode::Dense, TreeMode::Sparse].map(|mode| {
            let counts = carried_out(log, mode, shape);
            check_identities(log, &counts);
            let [leaf, root] = shares(&counts);
            let (folds, Counts { accesses, hits, delivered }) = (shape[shape.len() - 1].1, &counts);
            println!(
                "  {mode:?}, folds to {folds}: from the root on accesses {accesses:?}, hits {hits:?}, {delivered} \
                 delivered; {leaf:.1} % of hits at the leaf, {root:.1} % at the root"
            );
            [leaf, root]
        })
    };
    SHAPES.iter().map(row).collect()
}

#[test]
fn dense_finds_duplicates_at_the_leaf_and_sparse_at_the_root() {
    let logs = [
        ("apache, by address", log("apache_logs.gz", RecordFormat::Clf, &["path"])),
        ("nasa, by address", log("nasa_19950801.tsv.gz", RecordFormat::Tsv, &["url"])),
    ];
    for (name, log) in &logs {
        for [[dense_leaf, dense_root], [sparse_leaf, sparse_root]] in table(name, log) {
            assert!(dense_leaf > 75.0 && dense_root < 25.0, "{name}, dense: {dense_leaf} and {dense_root}");
            assert!(sparse_root > sparse_leaf, "{name}, sparse: {sparse_leaf} and {sparse_root}");
        }
    }
}

#[test]
fn repeats_at_one_site_are_found_at_its_leaf_in_both_modes() {
    let log = log("apache_logs.gz", RecordFormat::Clf, &["host", "path"]);
    for [[dense_leaf, _], [sparse_leaf, _]] in table("apache, by host and address", &log) {
        assert!(dense_leaf > 75.0 && sparse_leaf > 75.0, "{dense_leaf} and {sparse_leaf}");
    }
}
