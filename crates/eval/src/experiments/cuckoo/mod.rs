//! Fingerprints in order of expiry: how often they err, what they take, how full they get, when they forget.
//!
//! Promises: windows by count that fill whole regions to the design load; a filter that refuses an event fails the
//! experiment. Must not know: buckets, stashes.

mod churn;
mod rivals;

use firstseen_filter::BucketShape;
use firstseen_filter::rates::cuckoo;

use super::parameter;
use crate::document::{Axis, Line, Reading, Readings, Sheet, Source};
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::measure::{averaged, pooled};
use crate::stats::Counts;
pub(super) use churn::filling;
use churn::{Churn, Edge, Found, Size, WINDOWS_BEFORE, WINDOWS_MEASURED};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cuckoo",
    title: "Fingerprints in order of expiry: rate, bits, load, edge of the window",
    paragraph: "A filter of kind cuckoo keeps a fingerprint of each event of a sliding window, and the tick in which it expires. \
                New events go through a full one for six windows. It errs as often as its formula says, refuses nothing, \
                finds every event of the window, and keeps an event for at most one tick longer. Beside its bits stand those of \
                rivals that keep a window too, and the least that information theory allows.",
    reads_logs: None,
    measure,
};

/// Fingerprints of these bits, with these bits for the times of a bucket.
const SHAPES: [(u32, u8); 5] = [(14, 64), (16, 64), (24, 64), (32, 64), (16, 128)];
/// Bits for times, and the name of the series.
const WIDTHS: [(u8, &str); 2] = [(64, "64 bits of times"), (128, "128 bits of times")];

/// The rate that a filter of this shape is made for: that at its design load.
fn design_rate(shape: BucketShape) -> f64 {
    cuckoo::rate(shape, cuckoo::load(shape))
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let size = Size {
        regions: run.scale.pick(8, 2, 1),
        looks: run.scale.pick(64, 32, 16),
        unseen_events: run.scale.pick(10_000, 4_000, 2_000),
    };
    let churns = SHAPES.into_iter().map(|(print_bits, time_bits)| Churn::new(print_bits, time_bits, size));
    let churns: Vec<Churn> = churns.collect::<Result<_, _>>()?;
    let runs = run.trials(|seed| churns.iter().map(|churn| churn.run(seed)).collect::<Result<Vec<Found>, _>>())?;
    let tables = Tables { churns: &churns, runs: &runs };
    Ok(Findings {
        source: Source {
            paper: "Fan, Andersen, Kaminsky, Mitzenmacher: Cuckoo Filter: Practically Better Than Bloom. CoNEXT 2014"
                .to_owned(),
            section: "5.1 (the rate); the order of expiry is this project's own".to_owned(),
            figure: String::new(),
        },
        parameters: vec![
            parameter("regions of 1,024 buckets", size.regions),
            parameter("events a window, least", churns.iter().map(|churn| churn.window_events).min().unwrap_or(0)),
            parameter("events a window, most", churns.iter().map(|churn| churn.window_events).max().unwrap_or(0)),
            parameter("windows before a measurement", WINDOWS_BEFORE),
            parameter("windows of it", WINDOWS_MEASURED),
        ],
        sheets: vec![tables.bits(), tables.rates(), tables.loads(), tables.edges(), tables.missing()],
        notes: NOTES.map(str::to_owned).to_vec(),
    })
}

/// What all runs have found.
struct Tables<'a> {
    churns: &'a [Churn],
    runs: &'a [Vec<Found>],
}

impl Tables<'_> {
    fn values(&self, value: impl Fn(&Found) -> f64) -> Vec<Vec<f64>> {
        self.runs.iter().map(|run| run.iter().map(&value).collect()).collect()
    }

    fn counts(&self, counts: impl Fn(&Found) -> Counts) -> Vec<Vec<Counts>> {
        self.runs.iter().map(|run| run.iter().map(&counts).collect()).collect()
    }

    /// A series for each width of times: a reading for each place, where the shape of that place has the width.
    fn series(&self, name: &str, formula: Option<&str>, readings: Vec<Reading>) -> Vec<Readings> {
        let widths = WIDTHS.into_iter().map(|(width, width_name)| {
            let of_width = readings.iter().zip(self.churns).filter(|(_, churn)| churn.time_bits == width);
            Readings {
                name: if name.is_empty() { width_name.to_owned() } else { format!("{name}, {width_name}") },
                formula: formula.map(str::to_owned),
                points: of_width.map(|(reading, _)| *reading).collect(),
            }
        });
        widths.collect()
    }

    fn places(&self) -> impl Iterator<Item = (usize, &Churn)> {
        self.churns.iter().enumerate()
    }

    fn bits(&self) -> Sheet {
        let values = self.values(|found| found.bits);
        let readings = self.places().map(|(place, churn)| {
            let estimate = averaged(&values, place, churn.window_events);
            Reading::unjudged(design_rate(churn.shape()), estimate)
        });
        let series = self.series("fingerprints", None, readings.collect());
        let x = Axis::log("rate of false positives");
        Sheet::new("Bits for an event of the window", x, Axis::log("bits an event"), series).with_lines(rivals::lines())
    }

    fn rates(&self) -> Sheet {
        let counts = self.counts(|found| found.duplicates);
        let readings = self
            .places()
            .map(|(place, churn)| Reading::new(churn.print_bits, pooled(&counts, place), churn.expected_rate()));
        let series = self.series("", Some(RATE), readings.collect());
        let y = Axis::log("new events called duplicates (share)");
        Sheet::new("False positives", print_bits_axis(), y, series)
    }

    fn loads(&self) -> Sheet {
        let values = self.values(|found| found.load);
        let readings = self.places().map(|(place, churn)| {
            // The events that are called duplicates are not there, and their number is chance.
            let called = churn.live_events(0.0) * churn.expected_rate();
            let chance = (called / self.runs.len() as f64).sqrt() / churn.slots() as f64;
            let estimate = averaged(&values, place, churn.window_events).with_error_of(chance);
            Reading::new(churn.print_bits, estimate, churn.expected_load(0.0))
        });
        Sheet::new(
            "Load: slots that hold an event, just before a tick ends",
            print_bits_axis(),
            Axis::linear("slots that hold an event (share)"),
            self.series("", Some(LOAD), readings.collect()),
        )
        .with_lines(lines_of_shapes("the most by design", cuckoo::load))
    }

    fn edges(&self) -> Sheet {
        let mean = self.edge("mean", true, |edge| edge.mean);
        let least = self.edge("least", false, |edge| edge.least);
        let most = self.edge("greatest", false, |edge| edge.greatest);
        Sheet::new(
            "Edge of the window: how long an event is found beyond it",
            print_bits_axis(),
            Axis::linear("found too long (share of the window)"),
            [mean, least, most].concat(),
        )
        .with_lines(lines_of_shapes("a tick", |shape| 1.0 / churn::ticks(shape)))
    }

    /// The series of one edge; half a tick is expected if it is the mean.
    fn edge(&self, name: &str, is_mean: bool, edge: impl Fn(&Edge) -> f64) -> Vec<Readings> {
        let values = self.values(|found| edge(&found.edge));
        let readings = self.places().map(|(place, churn)| {
            let half_a_tick = 1.0 / churn.window_ticks() as f64 / 2.0;
            let estimate = averaged(&values, place, churn.size.looks);
            Reading { expected: is_mean.then_some(half_a_tick), ..Reading::unjudged(churn.print_bits, estimate) }
        });
        self.series(name, is_mean.then_some(EDGE), readings.collect())
    }

    fn missing(&self) -> Sheet {
        let counts = self.counts(|found| found.missing);
        let readings = self.places().map(|(place, churn)| Reading::new(churn.print_bits, pooled(&counts, place), 0.0));
        let series = self.series("", Some(MISSING), readings.collect());
        let y = Axis::linear("recorded events of the window that are not found (share)");
        Sheet::new("False negatives", print_bits_axis(), y, series)
    }
}

/// A line for each width of times, over the bits of fingerprints.
fn lines_of_shapes(name: &str, value: impl Fn(BucketShape) -> f64) -> Vec<Line> {
    let lines = WIDTHS.into_iter().map(|(width, width_name)| Line {
        name: format!("{name}, {width_name}"),
        points: shapes_of(width).map(|shape| (f64::from(shape.print_bits()), value(shape))).collect(),
    });
    lines.collect()
}

fn shapes_of(width: u8) -> impl Iterator<Item = BucketShape> {
    let of_width = SHAPES.into_iter().filter(move |(_, time_bits)| *time_bits == width);
    of_width.map(|(print_bits, time_bits)| BucketShape::new(print_bits, time_bits))
}

fn print_bits_axis() -> Axis {
    Axis::linear("bits of a fingerprint (F)")
}

const RATE: &str =
    "1 - (1 - 2^-F)^(2 S fill) (Fan et al. 2014, 5.1), S slots a bucket, at the mean fill: half of the current tick";
const LOAD: &str = "n T / (T - 1) events of T ticks, less what was called a duplicate, of all slots";
const EDGE: &str = "half a tick of W/(T - 1): an event expires with its tick";
const MISSING: &str =
    "0: nothing that is alive is ever dropped (an event that was called a duplicate by mistake is not recorded)";

const NOTES: [&str; 6] = [
    "Windows are the largest whose planned size is so many regions; small ones are planned with more room for chance than large \
     ones: one of 10 million events has the design load, one of 200,000 has a hundredth less.",
    "No event was refused: the experiment fails where a filter refuses one. Filters do not count how often an entry moves to its \
     other bucket, so that is not shown.",
    "The limit is log2(1/P) for the rate and log2(T - 1) for the tick in which the event expires.",
    "Of the age-partitioned Bloom filter (Shtul, Baquero, Almeida, arXiv 2001.03147), which is not built here, the formulas are \
     derived anew: with k filling and l keeping slices an event takes (1 + k/l) k / ln 2 bits. One line keeps events for W/(T - 1) \
     too long, as the fingerprints do; the other has the fewest bits of all with up to 200 keeping slices. A lookup has to read \
     dozens of slices.",
    "Timers and generations are those that the planner gives for a million events an hour, at the worst moment. Timers keep an event \
     for W/120 too long or less, generations of 8 bits for W/6.",
    "An exact key in a map takes about 90 bytes (experiment memory), one of 24 bytes in a Redis server 130 (bench rivals).",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::tests::found;
    use crate::stats::Judged;

    #[test]
    fn rates_loads_and_edges_are_as_promised() {
        let document = found("cuckoo");
        assert_eq!(document.count(Judged::Out), 0, "{document:#?}");
        let points = |panel: usize| document.panels[panel].series.iter().flat_map(|series| &series.points);
        assert!(points(0).all(|point| point.mean > -point.x.log2()), "nothing beats the limit");
        assert!(points(2).all(|point| point.mean > 0.85 && point.mean < 0.94), "windows fill their regions");
        for place in [2, 3] {
            let series = &document.panels[3].series[place];
            assert!(
                series.points.iter().all(|point| point.mean > 0.0),
                "{series:?}: nothing is forgotten within the window"
            );
        }
        for (greatest, tick) in document.panels[3].series[4..].iter().zip(&document.panels[3].lines) {
            assert!(greatest.points.iter().zip(&tick.points).all(|(point, (_, tick))| point.mean < tick * 1.001));
        }
        assert!(points(4).all(|point| point.mean == 0.0), "nothing is lost");
    }

    /// The figures that the kind is sold by, at the sizes at which it is sold.
    #[test]
    #[ignore = "minutes, and gigabytes: windows of 10 and of 100 million events"]
    fn large_windows_at_full_size_take_as_few_bits_and_err_as_seldom() {
        for (regions_of_16_bits, looks) in [(390, 16), (3_900, 4)] {
            for (print_bits, time_bits, bits_max) in [(14, 64, 18.5), (16, 64, 21.0), (32, 64, 43.0), (16, 128, 24.0)] {
                let regions = regions_of_16_bits * u64::from(print_bits) / 16;
                let churn =
                    Churn::new(print_bits, time_bits, Size { regions, looks, unseen_events: 1_000_000 }).unwrap();
                let begun = std::time::Instant::now();
                let found = churn.run(17).unwrap();
                let rate = found.duplicates.successes as f64 / found.duplicates.trials as f64;
                println!(
                    "{print_bits} bits, {time_bits} of times: {} events a window, {:.2} bits, load {:.4}, rate {rate:.4e} of {:.4e} \
                     ({} of {}), edge {:?} of W, {} of {} lost, {:.0} s",
                    churn.window_events,
                    found.bits,
                    found.load,
                    churn.expected_rate(),
                    found.duplicates.successes,
                    found.duplicates.trials,
                    found.edge,
                    found.missing.successes,
                    found.missing.trials,
                    begun.elapsed().as_secs_f64()
                );
                assert!(found.bits <= bits_max && found.missing.successes == 0);
                let expected = churn.expected_rate() * found.duplicates.trials as f64;
                let off = found.duplicates.successes as f64 - expected;
                assert!(off.abs() <= (0.03 * expected).max(5.0 * expected.sqrt() + 3.0), "{off} of {expected}");
            }
        }
    }

    /// A rate so small shows in as many new events as it takes.
    #[test]
    #[ignore = "minutes, and gigabytes: a billion events that were never observed"]
    fn a_billion_new_events_at_full_size_are_called_duplicates_as_seldom_as_promised() {
        let churn = Churn::new(32, 64, Size { regions: 780, looks: 16, unseen_events: 62_500_000 }).unwrap();
        let found = churn.run(19).unwrap();
        let expected = churn.expected_rate() * found.duplicates.trials as f64;
        println!("{} of {} new events, {expected:.1} expected", found.duplicates.successes, found.duplicates.trials);
        assert!(found.duplicates.trials > 1_000_000_000 && found.missing.successes == 0);
        assert!((found.duplicates.successes as f64 - expected).abs() <= 5.0 * expected.sqrt() + 3.0);
    }
}
