//! Tests of the steps from an event to its positions. The steps must be those of the page `docs/reference/hashing.md`,
//! and the positions must be statistically as good as independent draws.
//!
//! A normal test run checks only a sample of the cases to save time. The command `FIRSTSEEN_LONG=1 cargo test --release
//! -p firstseen-filter --test all hashing:: -- --nocapture` checks all cases, and prints the figures that the page
//! `docs/reference/hashing.md` quotes.

use firstseen_filter::rates::{band, plain};
use firstseen_filter::{
    BucketShape, DIGEST_WORDS, Digest, FilterSecret, Geometry, Layout, REGION_BUCKETS, positions_of, reduce,
};
use xxhash_rust::xxh3::{xxh3_128_with_secret, xxh3_128_with_seed};

const DOCUMENT: &str = include_str!("../../../../docs/reference/hashing.md");
const CONFIDENCE: f64 = 0.999;
/// Number of standard deviations that none of some hundred chi-square sums exceeds. A single sum exceeds it with the
/// probability 7e-6.
const DEVIATIONS_MAX: f64 = 4.5;

fn long_run() -> bool {
    std::env::var_os("FIRSTSEEN_LONG").is_some()
}

/// Second implementation of SplitMix64, for the keys of the page and for the random numbers of this file.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns the rows of the first table under a heading of the page, without the table's head.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let start = DOCUMENT.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    let rows: Vec<Vec<_>> = DOCUMENT[start..]
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    assert!(!rows.is_empty(), "no table under {heading}");
    rows
}

fn hex_word(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}

fn hex_bytes(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Returns the bytes of `text`. The text `ramp N` stands for N bytes 0, 1, .. 250, 0, 1, ..
fn event_bytes(text: &str) -> Vec<u8> {
    match text.strip_prefix("ramp ") {
        Some(length) => (0..length.parse::<usize>().unwrap()).map(|at| (at % 251) as u8).collect(),
        None => text.as_bytes().to_vec(),
    }
}

fn digest_of(lo: &str, hi: &str) -> Digest {
    Digest { lo: hex_word(lo), hi: hex_word(hi) }
}

#[test]
fn the_documents_secrets() {
    for row in table("Secrets") {
        let [material, first, last, lo, hi] = row[..] else { panic!("{row:?}") };
        let material = hex_bytes(material);
        let secret: Vec<u8> = (0..12).flat_map(|block| xxh3_128_with_seed(&material, block).to_le_bytes()).collect();
        assert_eq!((hex_bytes(first), hex_bytes(last)), (secret[..16].to_vec(), secret[176..].to_vec()));
        let hash = xxh3_128_with_secret(b"event", &secret);
        let digest = FilterSecret::from_material(&material).digest(b"event");
        assert_eq!(digest, digest_of(lo, hi));
        assert_eq!(digest, Digest { lo: hash as u64, hi: (hash >> 64) as u64 });
    }
    let seed = 7u64;
    let (from_seed, from_bytes) = (FilterSecret::from_seed(seed), FilterSecret::from_material(&seed.to_le_bytes()));
    assert_eq!(from_seed.digest(b"event"), from_bytes.digest(b"event"));
}

#[test]
fn the_documents_digests() {
    let secret = FilterSecret::from_seed(7);
    for row in table("Digests") {
        let [event, lo, hi] = row[..] else { panic!("{row:?}") };
        assert_eq!(secret.digest(&event_bytes(event)), digest_of(lo, hi), "{event}");
    }
    let mut scratch = Vec::new();
    for row in table("Composite keys") {
        let [parts, bytes, lo, hi] = row[..] else { panic!("{row:?}") };
        let digest =
            secret.digest_parts(parts.split(" + ").map(|part| part.trim_matches('"').as_bytes()), &mut scratch);
        assert_eq!(digest, digest_of(lo, hi), "{parts}");
        assert_eq!(secret.digest(&hex_bytes(bytes)), digest, "{parts}");
    }
}

#[test]
fn the_documents_words() {
    let mut state = 0;
    let rows = table("Word keys");
    assert_eq!(rows.len(), DIGEST_WORDS);
    for row in rows {
        let [_, a, b] = row[..] else { panic!("{row:?}") };
        assert_eq!((split_mix(&mut state), split_mix(&mut state)), (hex_word(a), hex_word(b)));
    }
    for row in table("Words") {
        let [lo, hi, index, word] = row[..] else { panic!("{row:?}") };
        assert_eq!(digest_of(lo, hi).word(index.parse().unwrap()), hex_word(word), "{row:?}");
    }
}

#[test]
fn the_documents_positions() {
    for row in table("Positions") {
        let [lo, hi, layout, cells, cell_bits, hashes, expected] = row[..] else { panic!("{row:?}") };
        let layout = match layout.split_once(' ') {
            Some((_, lines)) => Layout::Blocked { lines: lines.parse().unwrap() },
            None if layout == "partitioned" => Layout::Partitioned,
            None => Layout::Classic,
        };
        let (cells, hashes) = (cells.parse().unwrap(), hashes.parse().unwrap());
        let geometry = Geometry::new(cells, hashes, cell_bits.parse().unwrap(), layout).unwrap();
        assert_eq!(geometry.cells(), cells, "the page must state a number of cells that needs no rounding");
        let expected: Vec<u64> = expected.split(' ').map(|position| position.parse().unwrap()).collect();
        assert_eq!(positions_of_digest(digest_of(lo, hi), &geometry), expected, "{row:?}");
    }
}

#[test]
fn the_documents_buckets() {
    for row in table("Buckets") {
        let [lo, hi, ref numbers @ ..] = row[..] else { panic!("{row:?}") };
        let numbers: Vec<u64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
        let [print_bits, regions, region, bucket, print, partner, position] = numbers[..] else { panic!("{row:?}") };
        for time_bits in [64, 128] {
            let shape = BucketShape::new(print_bits as u32, time_bits);
            let cells = regions * REGION_BUCKETS as u64 * u64::from(shape.slots());
            let geometry = Geometry::new(cells, 1, print_bits as u32, Layout::Buckets { time_bits }).unwrap();
            assert_eq!((geometry.blocks(), geometry.cells()), (regions, cells));
            assert_eq!(positions_of_digest(digest_of(lo, hi), &geometry), [position], "{row:?}");
        }
        assert_eq!(position, (region * 1024 + bucket) * (1 << print_bits) + print, "{row:?}");
        assert_eq!(BucketShape::partner(bucket as usize, print as u32) as u64, partner, "{row:?}");
        assert_eq!(BucketShape::partner(partner as usize, print as u32) as u64, bucket, "{row:?}");
    }
}

fn positions_of_digest(digest: Digest, geometry: &Geometry) -> Vec<u64> {
    let mut positions = Vec::new();
    positions_of(digest, geometry, &mut positions);
    positions
}

/// Compares a second implementation of the documented steps with the crate, over many digests and shapes.
#[test]
fn a_second_writing_of_the_steps_agrees() {
    let mut state = 0;
    let keys: Vec<_> = (0..DIGEST_WORDS).map(|_| (split_mix(&mut state), split_mix(&mut state))).collect();
    let word = |digest: Digest, index: usize| {
        let product = u128::from(digest.lo ^ keys[index].0) * u128::from(digest.hi ^ keys[index].1);
        (product % (1 << 64)) as u64 ^ (product / (1 << 64)) as u64
    };
    let share = |word: u64, range: u64| (u128::from(word) * u128::from(range) / (1 << 64)) as u64;
    let mut rng = 1;
    for trial in 0..20_000u32 {
        let digest = Digest { lo: split_mix(&mut rng), hi: split_mix(&mut rng) };
        let cells = 1 + reduce(split_mix(&mut rng), 1 << 40);
        let (cell_bits, lines) = ([1, 8, 16][trial as usize % 3], 1 << (trial / 3 % 3));
        let buckets = Layout::Buckets { time_bits: [64, 128][trial as usize / 36 % 2] };
        let layouts = [Layout::Classic, Layout::Partitioned, Layout::Blocked { lines }, buckets];
        let layout = layouts[trial as usize / 9 % 4];
        let (cell_bits, hashes) =
            if layout == buckets { (10 + trial / 72 % 23, 1) } else { (cell_bits, 1 + trial / 36 % 16) };
        let Ok(geometry) = Geometry::new(cells, hashes, cell_bits, layout) else { continue };
        let (m, k) = (geometry.cells(), hashes as usize);
        let expected: Vec<u64> = match layout {
            Layout::Classic => (0..k).map(|i| share(word(digest, i), m)).collect(),
            Layout::Partitioned => {
                let part = m / k as u64;
                (0..k).map(|i| i as u64 * part + share(word(digest, i), part)).collect()
            }
            Layout::Blocked { .. } => {
                let block_cells = u64::from(lines) * 512 / u64::from(cell_bits);
                let bits = block_cells.ilog2() as usize;
                let (base, per_word) = (share(word(digest, 0), m / block_cells) * block_cells, 64 / bits);
                let offset = |i: usize| (word(digest, 1 + i / per_word) >> (i % per_word * bits)) % block_cells;
                (0..k).map(|i| base + offset(i)).collect()
            }
            Layout::Buckets { time_bits } => {
                let region_cells = 1024 * ((512 - u64::from(time_bits)) / u64::from(cell_bits));
                let bucket_and_print = word(digest, 1) >> (64 - 10 - cell_bits);
                vec![(share(word(digest, 0), m / region_cells) << (10 + cell_bits)) + bucket_and_print]
            }
        };
        assert_eq!(positions_of_digest(digest, &geometry), expected, "{geometry:?}");
    }
}

/// Fills a classic filter, queries it until it has had enough false positives, and compares the rate with the formula.
fn measured_over_formula(bits: u32, hashes: u32, events: u64, least_hits: u64) -> f64 {
    let geometry = Geometry::new(1 << bits, hashes, 1, Layout::Classic).unwrap();
    let secret = FilterSecret::from_seed(u64::from(bits * 100 + hashes));
    let mut set = vec![0u64; 1 << (bits - 6)];
    let mut positions = Vec::new();
    let mut next = 0u64;
    let mut draw = |positions: &mut Vec<u64>| {
        next += 1;
        positions_of(secret.digest(&next.to_le_bytes()), &geometry, positions);
    };
    for _ in 0..events {
        draw(&mut positions);
        positions.iter().for_each(|position| set[(position / 64) as usize] |= 1 << (position % 64));
    }
    let (mut hits, mut tests) = (0, 0u64);
    while hits < least_hits {
        draw(&mut positions);
        tests += 1;
        hits += u64::from(positions.iter().all(|position| set[(position / 64) as usize] >> (position % 64) & 1 == 1));
    }
    hits as f64 / tests as f64 / plain::rate(geometry.cells() as f64, hashes, events as f64)
}

/// Filters that are half full, with the best number of positions for their load.
#[test]
fn rates_are_those_of_independent_positions() {
    let (sizes, counts) = if long_run() { (20..=26, (2..=10).collect()) } else { (20..=21, vec![2, 3, 5, 7]) };
    let least_hits = if long_run() { 40_000 } else { 20_000 };
    for bits in sizes {
        for &hashes in &counts {
            let events = (f64::from(1 << bits) * std::f64::consts::LN_2 / f64::from(hashes)) as u64;
            let ratio = measured_over_formula(bits, hashes, events, least_hits);
            println!("m = 2^{bits}, k = {hashes}: measured / formula = {ratio:.4}");
            assert!((ratio - 1.0).abs() < 0.03, "m = 2^{bits}, k = {hashes}: {ratio}");
        }
    }
}

/// Filters with more positions that are so full that one in a hundred tests is a false positive.
#[test]
fn rates_with_many_positions_are_those_of_independent_ones() {
    let (sizes, counts) = if long_run() { (20..=24, (11..=16).collect()) } else { (20..=20, vec![12, 16]) };
    for bits in sizes {
        for &hashes in &counts {
            let fill = 0.01f64.powf(1.0 / f64::from(hashes));
            let events = plain::events_from_fill(f64::from(1 << bits), hashes, fill) as u64;
            let ratio = measured_over_formula(bits, hashes, events, if long_run() { 40_000 } else { 20_000 });
            println!("m = 2^{bits}, k = {hashes}, fill {fill:.2}: measured / formula = {ratio:.4}");
            assert!((ratio - 1.0).abs() < 0.03, "m = 2^{bits}, k = {hashes}: {ratio}");
        }
    }
}

/// Returns how many standard deviations the chi-square sum of equally likely buckets lies from its mean.
fn chi_square_deviations(counts: &[u32]) -> f64 {
    let total: f64 = counts.iter().map(|count| f64::from(*count)).sum();
    let expected = total / counts.len() as f64;
    let sum: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
    let freedom = counts.len() as f64 - 1.0;
    (sum - freedom) / (2.0 * freedom).sqrt()
}

/// Returns digests of events that differ only slightly: a counter, as bytes or at the end of a 64-byte id.
fn digests(count: u64) -> impl Iterator<Item = Digest> {
    let secret = FilterSecret::from_seed(11);
    let mut id = [b'0'; 64];
    (0..count).map(move |index| match index % 2 {
        0 => secret.digest(&index.to_le_bytes()),
        _ => {
            id[56..].copy_from_slice(&index.to_be_bytes());
            secret.digest(&id)
        }
    })
}

#[test]
fn positions_are_even_up_to_the_largest_filter() {
    let count = if long_run() { 1 << 24 } else { 1 << 18 };
    let mut worst = 0f64;
    for cells in [1 << 20, 1 << 26, 1 << 33, 1_000_000_000_000, 1 << 40] {
        let geometry = Geometry::new(cells, 16, 1, Layout::Classic).unwrap();
        let mut counts = vec![vec![0u32; 1 << 16]; 16];
        let mut positions = Vec::new();
        for digest in digests(count) {
            positions_of(digest, &geometry, &mut positions);
            for (counts, position) in counts.iter_mut().zip(&positions) {
                counts[((u128::from(*position) << 16) / u128::from(cells)) as usize] += 1;
            }
        }
        for (index, counts) in counts.iter().enumerate() {
            let deviations = chi_square_deviations(counts);
            worst = worst.max(deviations.abs());
            assert!(deviations.abs() < DEVIATIONS_MAX, "m = {cells}, position {index}: {deviations}");
        }
    }
    println!("chi-square of each position, 5 sizes x 16 positions: at most {worst:.2} standard deviations");
}

/// Checks that two positions of an event are independent: high bits of classic positions, offsets in a block, and an
/// offset and its block.
#[test]
fn positions_of_an_event_do_not_hang_together() {
    let count = if long_run() { 1 << 22 } else { 1 << 17 };
    for (layout, cell_bits, cells, shift, bits) in [
        (Layout::Classic, 1, 1u64 << 40, 32, 8),
        (Layout::Blocked { lines: 1 }, 8, 1 << 30, 0, 6),
        (Layout::Blocked { lines: 4 }, 8, 1 << 30, 0, 8),
    ] {
        let geometry = Geometry::new(cells, 16, cell_bits, layout).unwrap();
        let mut counts = vec![vec![0u32; 1 << (2 * bits)]; 17 * 17];
        let mut positions = Vec::new();
        for digest in digests(count) {
            positions_of(digest, &geometry, &mut positions);
            // The high bits of the block are tested like a seventeenth position.
            positions.push(positions[0] >> 22 << shift);
            for (second, high) in positions.iter().enumerate() {
                for (first, low) in positions[..second].iter().enumerate() {
                    let (high, low) = ((high >> shift) % (1 << bits), (low >> shift) % (1 << bits));
                    counts[second * 17 + first][(high << bits | low) as usize] += 1;
                }
            }
        }
        let with_block = if layout == Layout::Classic { 16 } else { 17 };
        let pairs = (0..with_block).flat_map(|second| (0..second).map(move |first| second * 17 + first));
        let worst = pairs.map(|pair| chi_square_deviations(&counts[pair]).abs()).fold(0.0, f64::max);
        println!("chi-square of pairs of positions, {layout:?}: at most {worst:.2} standard deviations");
        assert!(worst < DEVIATIONS_MAX, "{layout:?}: {worst}");
    }
}

fn equal_pairs(positions: &[u64]) -> u64 {
    let of = |(index, position)| positions[..index].iter().filter(|other| *other == position).count();
    positions.iter().enumerate().map(of).sum::<usize>() as u64
}

/// Counts pairs of equal positions within an event, which reduce the number of its cells.
#[test]
fn positions_of_an_event_meet_as_often_as_chance_says() {
    let count = if long_run() { 1 << 24 } else { 1 << 18 };
    for bits in [10, 13, 16, 20] {
        let geometry = Geometry::new(1 << bits, 16, 1, Layout::Classic).unwrap();
        let (mut equal, mut equal_by_double_hashing) = (0, 0);
        let mut positions = Vec::new();
        for digest in digests(count) {
            positions_of(digest, &geometry, &mut positions);
            equal += equal_pairs(&positions);
            for (index, position) in (0u64..).zip(&mut positions) {
                *position = digest.lo.wrapping_add(index.wrapping_mul(digest.hi)) >> (64 - bits);
            }
            equal_by_double_hashing += equal_pairs(&positions);
        }
        let band = band::binomial(1.0 / geometry.cells() as f64, count * 120, CONFIDENCE);
        println!("m = 2^{bits}: {equal} equal pairs, band {band:?}; double hashing: {equal_by_double_hashing}");
        assert!(band.contains(&equal), "m = 2^{bits}: {equal} equal pairs, band {band:?}");
        assert!(
            bits > 10 || !band.contains(&equal_by_double_hashing),
            "the test does not detect the equal pairs of double hashing"
        );
    }
}

/// Counts pairs of equal positions among all events of a stream, with up to 2^40 cells.
#[test]
fn positions_of_different_events_meet_as_often_as_chance_says() {
    let count = if long_run() { 1 << 21 } else { 1 << 17 };
    for bits in [32, 36, 40] {
        let geometry = Geometry::new(1 << bits, 16, 1, Layout::Classic).unwrap();
        let (mut all, mut positions) = (Vec::new(), Vec::new());
        for digest in digests(count) {
            positions_of(digest, &geometry, &mut positions);
            all.extend_from_slice(&positions);
        }
        all.sort_unstable();
        let equal: usize = all.chunk_by(|a, b| a == b).map(|same| same.len() * (same.len() - 1) / 2).sum();
        let pairs = all.len() as u64 * (all.len() as u64 - 1) / 2;
        let band = band::binomial(1.0 / geometry.cells() as f64, pairs, CONFIDENCE);
        println!("m = 2^{bits}, {} positions of a stream: {equal} equal pairs, band {band:?}", all.len());
        assert!(band.contains(&(equal as u64)), "m = 2^{bits}: {equal} equal pairs, band {band:?}");
    }
}

/// Counts pairs of events that share two positions. Shared positions are what makes false positives more likely.
#[test]
fn two_events_share_two_positions_as_often_as_chance_says() {
    let (count, hashes) = (1u64 << 14, 10);
    let geometry = Geometry::new(1 << 16, hashes, 1, Layout::Classic).unwrap();
    let (mut events_at, mut positions) = (vec![Vec::new(); 1 << 16], Vec::new());
    for (event, digest) in (0u32..).zip(digests(count)) {
        positions_of(digest, &geometry, &mut positions);
        positions.iter().for_each(|position| events_at[*position as usize].push(event));
    }
    let mut meetings = Vec::new();
    for events in &events_at {
        for (index, event) in events.iter().enumerate() {
            meetings.extend(events[..index].iter().filter(|other| *other != event).map(|other| (*other, *event)));
        }
    }
    meetings.sort_unstable();
    let shared: usize = meetings.chunk_by(|a, b| a == b).map(|same| same.len() * (same.len() - 1) / 2).sum();
    // There are 100 * 81 / 2 ways to choose two of the 10 x 10 pairings such that no position is used twice. The
    // remaining ways need a repetition.
    let band = band::binomial(1.0 / 2f64.powi(32), count * (count - 1) / 2 * 4050, CONFIDENCE);
    println!("{shared} pairs of positions shared by two events, band {band:?}");
    assert!(band.contains(&(shared as u64)), "{shared}, band {band:?}");
}
