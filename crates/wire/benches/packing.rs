//! Measures the cost of encoding and decoding the positions of events, for each shape of positions.
#![allow(missing_docs)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use firstseen_filter::{BlockProbe, ProbeShape, Probes};
use firstseen_wire::packing::{event_bits, pack_probes, unpack_probes};

const EVENTS: usize = 1024;

fn probes(shape: ProbeShape) -> Probes {
    let mut probes = Probes::new(shape);
    let mut number = 1u64;
    let mut next = || {
        number = number.wrapping_mul(0xD134_2543_DE82_EF95).wrapping_add(1);
        number ^ number >> 32
    };
    for _ in 0..EVENTS {
        match shape {
            ProbeShape::Spread { cells, hashes } => {
                let positions: Vec<u64> = (0..hashes).map(|_| next() % cells).collect();
                probes.push_positions(&positions).expect("inside");
            }
            ProbeShape::Blocked { blocks, .. } => {
                let block = next() % blocks;
                probes.push_block(BlockProbe { block, words: [next(), next()] }).expect("inside");
            }
        }
    }
    probes
}

fn packing(criterion: &mut Criterion) {
    let blocked = [5, 7, 8].map(|hashes| ProbeShape::Blocked { blocks: 1 << 20, offset_bits: 9, hashes });
    let spread = [5, 10].map(|hashes| ProbeShape::Spread { cells: 100_000_007, hashes });
    let mut group = criterion.benchmark_group("packing");
    group.throughput(Throughput::Elements(EVENTS as u64));
    for shape in blocked.into_iter().chain(spread) {
        let name = format!("{shape} ({} bits)", event_bits(shape));
        let probes = probes(shape);
        let mut bytes = Vec::new();
        group.bench_function(BenchmarkId::new("pack", &name), |bencher| {
            bencher.iter(|| {
                bytes.clear();
                pack_probes(&probes, 0..EVENTS, &mut bytes);
            });
        });
        let mut unpacked = Probes::new(shape);
        group.bench_function(BenchmarkId::new("unpack", &name), |bencher| {
            bencher.iter(|| {
                unpacked.reset(shape);
                unpack_probes(&bytes, EVENTS, &mut unpacked)
            });
        });
    }
}

criterion_group!(benches, packing);
criterion_main!(benches);
