//! Compares overlapping bit-substrings of an id with hash functions in the same memory (Metwally et al. 2005, section
//! 4).
//!
//! The filter of substrings is implemented only in this module, for comparison. The hash functions are those of the
//! production Bloom filter.

use std::collections::HashSet;

use firstseen_filter::rates::plain;
use firstseen_filter::{HASHES_MAX, Kind, Window};

use super::{m05, parameter};
use crate::document::{Axis, Reading, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::measure::{Subject, count, distinct, pooled, shaped};
use crate::stats::Counts;
use crate::stream::Event;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "substrings",
    title: "Overlapping bit-substrings against hash functions",
    paragraph: "The first idea of the paper keeps one bit vector for every substring of p bits in an id of b bits. \
                With b = 32 and p = 16 these are 17 vectors of 2^16 bits. Neighbouring substrings share all bits but \
                one, so two ids that collide in one vector are likely to collide in the next. In the same memory, \
                independent hash functions have far fewer false positives.",
    reads_logs: None,
    measure,
};

const ID_BITS: u32 = 32;
const RUN_BITS: u32 = 16;
const VECTORS: u32 = ID_BITS - RUN_BITS + 1;
/// Number of cells of both filters: all bit vectors together.
const CELLS: u64 = (VECTORS as u64) << RUN_BITS;
const LOADS: [u64; 6] = [30_000, 40_000, 50_000, 60_000, 80_000, 100_000];

/// Filter with one bit vector for every substring of [`RUN_BITS`] bits of an id (Metwally et al. 2005, section 4,
/// Figure 3).
struct Substrings {
    vectors: Vec<bool>,
}

impl Substrings {
    fn new() -> Self {
        Self { vectors: vec![false; CELLS as usize] }
    }

    fn cells(id: u32) -> impl Iterator<Item = usize> {
        (0..VECTORS).map(move |from| {
            let run = (id >> from) as usize & ((1 << RUN_BITS) - 1);
            ((from as usize) << RUN_BITS) + run
        })
    }

    fn holds(&self, id: u32) -> bool {
        Self::cells(id).all(|cell| self.vectors[cell])
    }

    fn record(&mut self, id: u32) {
        Self::cells(id).for_each(|cell| self.vectors[cell] = true);
    }
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let probes = run.scale.pick(200_000, 50_000, 20_000);
    let counts = run.trials(|seed| counted(probes, seed))?;
    let substrings =
        LOADS.iter().enumerate().map(|(place, load)| Reading::unjudged(thousands(*load), pooled(&counts, 2 * place)));
    let hashed = LOADS.iter().enumerate().map(|(place, load)| {
        let expected = plain::rate(CELLS as f64, HASHES_MAX, *load as f64);
        Reading::new(thousands(*load), pooled(&counts, 2 * place + 1), expected)
    });
    let independent = LOADS.map(|load| {
        let one = plain::rate((1u64 << RUN_BITS) as f64, 1, load as f64);
        (thousands(load), one.powi(VECTORS as i32))
    });
    Ok(Findings {
        source: m05("section 4", "Figure 3"),
        parameters: vec![
            parameter("bits of an id (b)", ID_BITS),
            parameter("bits of a run (p)", RUN_BITS),
            parameter("cells of each (m)", CELLS),
            parameter("hash functions (k)", HASHES_MAX),
        ],
        sheets: vec![
            Sheet::new(
                "False positives in 17 x 2^16 bits",
                Axis::linear("distinct ids held (thousands)"),
                Axis::log("false positives (share of new ids)"),
                vec![
                    Readings::unjudged("measured, bit-substrings", substrings),
                    Readings::new(
                        "measured, 16 hash functions",
                        "the false-positive rate of a filter with m cells and k hash functions that holds n distinct \
                         events. It is calculated as (1 - (1 - 1/m)^(kn))^k (Metwally et al. 2005, section 5.1)",
                        hashed,
                    ),
                ],
            )
            .with_line("17 runs if they were independent: (1 - (1 - 2^-p)^n)^17", independent),
        ],
        notes: vec![
            "Metwally et al. call an analysis of the overlapping substrings intractable. There is therefore no formula \
             for the substrings, and their points are not judged. Metwally et al. compare the substrings with 17 hash \
             functions. The filter of this project has at most 16, which is enough for the comparison."
                .to_owned(),
        ],
    })
}

fn thousands(load: u64) -> f64 {
    load as f64 / 1000.0
}

/// Performs one run. For every load, counts the new ids that the substrings call known, and then those that the filter
/// calls known.
fn counted(probes: u64, seed: u64) -> Result<Vec<Counts>, EvalError> {
    let most = LOADS.iter().max().copied().unwrap_or(0);
    let mut taken = HashSet::new();
    // Ids are drawn with 32 bits. Repeated ids are left out, so that all remaining ids are new.
    let mut ids = distinct(2 * most + 2 * probes, seed)?
        .map(|event| Event { key: event.key & u64::from(u32::MAX), ..event })
        .filter(|event| taken.insert(event.key));
    let probed: Vec<Event> = ids.by_ref().take(probes as usize).collect();
    let spec = shaped(Kind::Bloom, Window::Unbounded, CELLS, HASHES_MAX);
    let mut hashed = Subject::new("substrings", &spec, "none", seed)?;
    let mut substrings = Substrings::new();
    let mut counts = Vec::new();
    let mut held = 0;
    for load in LOADS {
        let more: Vec<Event> = ids.by_ref().take((load - held) as usize).collect();
        held = load;
        more.iter().for_each(|event| substrings.record(event.key as u32));
        hashed.observe(more.into_iter())?;
        let mut found = Counts::default();
        probed.iter().for_each(|event| count(&mut found, substrings.holds(event.key as u32)));
        counts.extend([found, hashed.look_up(probed.iter().copied())?]);
    }
    Ok(counts)
}
