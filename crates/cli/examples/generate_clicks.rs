//! Writes a CSV of clicks for load tests, generated from a fixed seed. Each line has a time, a key of three fields, and
//! a price. About 40 % of the lines repeat the key of an earlier line. `cargo run --release --example generate_clicks
//! -- 10000000 > clicks.csv`

use std::io::{BufWriter, Write};

const REPEATED_PERCENT: u64 = 40;
const EVENTS_PER_SECOND: u64 = 1000;
const FIRST_SECOND: u64 = 1_700_000_000;

fn main() -> std::io::Result<()> {
    let lines: u64 = std::env::args().nth(1).and_then(|lines| lines.parse().ok()).unwrap_or(1_000_000);
    let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    let (mut state, mut distinct) = (1, 0);
    writeln!(out, "time,user,campaign,ad,price")?;
    for line in 0..lines {
        let draw = split_mix(&mut state);
        let repeats = distinct > 0 && draw % 100 < REPEATED_PERCENT;
        let click = if repeats { (draw >> 8) % distinct } else { distinct };
        distinct += u64::from(!repeats);
        let mut id = click;
        let id = split_mix(&mut id);
        let time = FIRST_SECOND + line / EVENTS_PER_SECOND;
        let (user, campaign, price) = (id >> 16, id % 1_000_000, id % 9000);
        writeln!(out, "{time},u{user:012x},c{campaign:06},a{click:08},{}.{:02}", price / 100, price % 100)?;
    }
    out.flush()
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
