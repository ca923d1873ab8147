//! Throughput of each codec over a batch of 16 KiB and one of 256 KiB, state kept:
//! `cargo bench -p alluvium-record-format --features codecs --bench codecs`.

use std::hint::black_box;

use alluvium_record_format::{Codec, Compressor, Decompressor};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Lines that share words and differ in numbers: packs to about a third.
fn lines(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut text = Vec::new();
    while text.len() < len {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        let (user, event) = (state >> 8, (state >> 16) % 40);
        text.extend(format!("{{\"user\":{user},\"event\":\"page-{event}\"}}\n").bytes());
    }
    text.truncate(len);
    text
}

fn codecs(criterion: &mut Criterion) {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        for len in [16 << 10, 256 << 10] {
            let content = lines(len);
            let mut payload = Vec::new();
            let mut compressor = Compressor::new(codec, None).unwrap();
            let mut compress = |payload: &mut Vec<u8>| {
                payload.clear();
                compressor.write(black_box(&content), payload).unwrap();
                compressor.finish(payload).unwrap();
            };
            compress(&mut payload);

            let mut group = criterion.benchmark_group(format!("{codec}/{} KiB", len >> 10));
            group.throughput(Throughput::Bytes(len.try_into().unwrap()));
            let mut out = Vec::new();
            group.bench_function("compress", |bencher| bencher.iter(|| compress(&mut out)));
            let mut decompressor = Decompressor::new();
            let mut out = Vec::new();
            group.bench_function("decompress", |bencher| {
                bencher.iter(|| {
                    decompressor.decompress(codec, black_box(&payload), len, &mut out).unwrap();
                });
            });
            group.finish();
        }
    }
}

criterion_group!(benches, codecs);
criterion_main!(benches);
