//! Checks that the measured false-positive rates of kinds `bloom`, `timing` and `generations` agree with the formulas,
//! within a two-sided band of 99.9 %. The rate of kind `cuckoo` is tested in `cuckoo_sizes.rs`
//! (`full_filters_err_as_often_as_the_formula_says`).

use crate::common::{LAYOUTS, bloom, digests, generations, rule, timing};
use firstseen_filter::rates::blocked::{self, BlockRates};
use firstseen_filter::rates::generations::{self as generation_rates, JumpingLoad, SteadyRate};
use firstseen_filter::rates::{Size, band, plain, timing as timing_rates};
use firstseen_filter::{FilterDefinition, FilterSlice, Geometry, Layout, Refresh, Stamp, UnitNumber, Verdict};

const UNSEEN: u64 = 1 << 40;
const CONFIDENCE: f64 = 0.999;

#[track_caller]
fn assert_in_band(what: &str, hits: u64, trials: u64, rate: f64) {
    let allowed = band::binomial(rate, trials, CONFIDENCE);
    assert!(allowed.contains(&hits), "{what}: {hits} of {trials}, but {allowed:?} at a rate of {rate:.6}");
}

fn duplicates(verdicts: &[Verdict]) -> u64 {
    verdicts.iter().filter(|verdict| **verdict == Verdict::Duplicate).count() as u64
}

/// Slice with a buffer for its verdicts.
struct Measured {
    slice: FilterSlice,
    verdicts: Vec<Verdict>,
    next_key: u64,
    next_unseen: u64,
}

impl Measured {
    fn new(definition: &FilterDefinition, first_key: u64) -> Self {
        let slice = FilterSlice::build(definition).unwrap();
        Self { slice, verdicts: Vec::new(), next_key: first_key, next_unseen: UNSEEN + first_key }
    }

    /// Observes `events` new keys in `unit`, and returns how many of them were called duplicates.
    fn bring(&mut self, events: u64, unit: u64) -> u64 {
        self.verdicts.resize(events as usize, Verdict::Undecided);
        let stamps = vec![Stamp::on_time(UnitNumber(unit)); events as usize];
        self.slice.observe_batch(&digests(self.next_key, events), &stamps, &mut self.verdicts);
        self.next_key += events;
        duplicates(&self.verdicts)
    }

    /// Looks up `events` keys that were never observed, and returns how many of them were called duplicates.
    fn probe(&mut self, events: u64, unit: u64) -> u64 {
        self.verdicts.resize(events as usize, Verdict::Undecided);
        let stamps = vec![Stamp::on_time(UnitNumber(unit)); events as usize];
        self.slice.lookup_batch(&digests(self.next_unseen, events), &stamps, &mut self.verdicts);
        self.next_unseen += events;
        duplicates(&self.verdicts)
    }
}

fn sized(layout: Layout, cell_bits: u32, events: f64, rate: f64) -> Geometry {
    let Size { cells, hashes, .. } = match layout {
        Layout::Blocked { lines } => {
            blocked::size(Geometry::block_cells_of(lines, cell_bits).unwrap(), events, rate).unwrap()
        }
        _ => plain::size(events, rate).unwrap(),
    };
    Geometry::new(cells, hashes, cell_bits, layout).unwrap()
}

#[test]
fn a_full_bloom_filter_lies_as_often_as_its_formula_says() {
    const EVENTS: u64 = 20_000;
    const PROBES: u64 = 25_000;
    const FILTERS: u64 = 16;
    for layout in LAYOUTS {
        let geometry = sized(layout, 1, EVENTS as f64, 0.01);
        let (cells, hashes) = (geometry.cells() as f64, geometry.hashes());
        let rate = match layout {
            Layout::Blocked { .. } => BlockRates::new(geometry.block_cells(), hashes).rate(cells, EVENTS as f64),
            _ => plain::rate(cells, hashes, EVENTS as f64),
        };
        assert!((0.0095..=0.01).contains(&rate), "{layout:?}: sized for {rate}");
        let (mut hits, mut expected) = (0, 0.0);
        for filter in 0..FILTERS {
            let mut measured = Measured::new(&bloom(geometry, None), filter << 32);
            measured.bring(EVENTS, 0);
            hits += measured.probe(PROBES, 0);
            expected += measured.slice.expected_rate() / FILTERS as f64;
        }
        assert_in_band(&format!("{layout:?}"), hits, FILTERS * PROBES, rate);
        assert_in_band(&format!("{layout:?}, from its cells"), hits, FILTERS * PROBES, expected);
    }
}

#[test]
fn timers_in_a_steady_stream_lie_as_often_as_their_formula_says() {
    const PER_TICK: u64 = 160;
    const SPAN: u64 = 129;
    // On average, an event arrives in the middle of a tick and lives for half a tick less than the span.
    let live = PER_TICK as f64 * (SPAN as f64 - 0.5);
    for cell_bits in [8, 16] {
        for layout in [LAYOUTS[0], LAYOUTS[2], LAYOUTS[3]] {
            let geometry = sized(layout, cell_bits, live, 0.01);
            let (cells, hashes) = (geometry.cells() as f64, geometry.hashes());
            let rate = match layout {
                Layout::Blocked { .. } => {
                    timing_rates::delivered_blocked(&mut BlockRates::new(geometry.block_cells(), hashes), cells, live)
                }
                _ => timing_rates::delivered_classic(cells, hashes, live),
            };
            let definition = timing(geometry, rule(SPAN, 16), Refresh::Fixed, None);
            let mut measured = Measured::new(&definition, 0);
            let (mut hits, mut events, mut probed, mut expected) = (0, 0, 0, Vec::new());
            for tick in 0..14 * SPAN {
                let got = measured.bring(PER_TICK, tick);
                if tick >= 3 * SPAN {
                    (hits, events) = (hits + got, events + PER_TICK);
                    if tick % 16 == 0 {
                        probed += measured.probe(1000, tick);
                        expected.push(measured.slice.expected_rate());
                    }
                }
            }
            assert_in_band(&format!("{layout:?} of {cell_bits} bits"), hits, events, rate);
            let (moments, total) = (expected.len() as u64, expected.iter().sum::<f64>());
            let what = format!("{layout:?} of {cell_bits} bits, from its cells");
            assert_in_band(&what, probed, 1000 * moments, total / moments as f64);
        }
    }
}

#[test]
fn generations_lie_as_often_as_their_formula_says_before_a_jump_and_on_average() {
    for (cell_bits, jumps) in [(8, 6), (16, 14)] {
        for layout in [LAYOUTS[0], LAYOUTS[3], LAYOUTS[4]] {
            let load = JumpingLoad { events: 6000.0 * f64::from(jumps), jumps };
            let size = match layout {
                Layout::Blocked { lines } => {
                    let block_cells = Geometry::block_cells_of(lines, cell_bits).unwrap();
                    generation_rates::size_blocked(block_cells, load, 0.01).unwrap()
                }
                _ => generation_rates::size_classic(load, 0.01).unwrap(),
            };
            let geometry = Geometry::new(size.cells, size.hashes, cell_bits, layout).unwrap();
            let cells = geometry.cells() as f64;
            let SteadyRate { mean, worst } = match layout {
                Layout::Blocked { .. } => {
                    let rates = &mut BlockRates::new(geometry.block_cells(), geometry.hashes());
                    generation_rates::delivered_blocked(rates, cells, load)
                }
                _ => generation_rates::delivered_classic(cells, geometry.hashes(), load),
            };
            let definition = generations(geometry, rule(u64::from(jumps) + 1, 0));
            let mut measured = Measured::new(&definition, 0);
            let (mut hits, mut probed, mut expected) = (0, 0, 0.0);
            for jump in 0..80 {
                let got = measured.bring(6000, jump);
                if jump >= 40 {
                    hits += got;
                    probed += measured.probe(6000, jump);
                    expected += measured.slice.expected_rate() / 40.0;
                }
            }
            let what = format!("{layout:?} of {cell_bits} bits");
            assert_in_band(&format!("{what}, mean"), hits, 40 * 6000, mean);
            assert_in_band(&format!("{what}, before a jump"), probed, 40 * 6000, worst);
            assert_in_band(&format!("{what}, from its cells"), probed, 40 * 6000, expected);
        }
    }
}

/// Repeats the landmark experiment of Metwally et al. 2005 with 1,000,000 distinct clicks and `m = k * 1,442,695`
/// cells. The measured rate must be the mean over a filter that fills up. This mean is far below 2^-k, which is the
/// rate of the full filter.
#[test]
fn a_landmark_window_lies_as_often_as_the_mean_over_its_stream() {
    let printed = [1.55e-2, 6.67e-3, 2.91e-3, 1.29e-3, 6.03e-4, 2.81e-4, 1.16e-4];
    for (hashes, printed) in (4..=10).zip(printed) {
        let (events, cells) = (1_000_000, u64::from(hashes) * 1_442_695);
        let mut measured = Measured::new(&bloom(Geometry::new(cells, hashes, 1, Layout::Classic).unwrap(), None), 0);
        let hits = measured.bring(events, 0);
        let mean = plain::stream_mean(cells as f64, hashes, events as f64);
        println!(
            "k = {hashes}: {:.3e} measured, {mean:.3e} by formula, {printed:.2e} in M05",
            hits as f64 / events as f64
        );
        assert_in_band(&format!("k = {hashes}"), hits, events, mean);
        // The figures of the paper agree with the mean, within the random variation of the paper's own measurement.
        assert!((printed / mean - 1.0).abs() < 0.12, "k = {hashes}: {mean} by formula, {printed} in M05");
    }
}
