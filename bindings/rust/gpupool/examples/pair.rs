// SPDX-License-Identifier: Apache-2.0
//! What a cached malloc and free cost together, beside `gpupool bench`: blocks that borrow their stream, and the
//! same 1 MiB with blocks that own a share of it and with bare addresses.
//!
//! cargo run --release --example pair

use std::time::Instant;

use gpupool::{sim, Backend, Block, Pool, Result};

const PAIRS: u32 = 1_000_000;
const ROUNDS: usize = 7;

fn main() -> Result<()> {
    let config = sim::Config { data: sim::Data::None, ..Default::default() };
    sim::configure(0, &config)?;
    let pool = Pool::builder().backend(Backend::Sim).build()?;
    let stream = pool.create_stream()?;
    println!(
        r#"{{"language":"rust","pair_ns_4k":{:.1},"pair_ns_1m":{:.1},"pair_ns_1m_owned":{:.1},"pair_ns_1m_raw":{:.1}}}"#,
        median(|| Block::new(&stream, 4 << 10).map(drop))?,
        median(|| Block::new(&stream, 1 << 20).map(drop))?,
        median(|| stream.block(1 << 20).map(drop))?,
        median(|| {
            let address = stream.malloc(1 << 20)?;
            // SAFETY: nobody uses the block.
            unsafe { pool.free(address, stream.id()) }
        })?,
    );
    Ok(())
}

/// Nanoseconds of one pair, in the middle round of several.
fn median(pair: impl Fn() -> Result<()>) -> Result<f64> {
    let mut rounds = [0.0; ROUNDS];
    for round in &mut rounds {
        let start = Instant::now();
        for _ in 0..PAIRS {
            pair()?;
        }
        *round = start.elapsed().as_secs_f64() * 1e9 / f64::from(PAIRS);
    }
    rounds.sort_by(f64::total_cmp);
    Ok(rounds[ROUNDS / 2])
}
