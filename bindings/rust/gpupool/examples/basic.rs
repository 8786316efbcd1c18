// SPDX-License-Identifier: Apache-2.0
//! The whole of it in one screen: a pool, two streams, arrays on the device, running out of memory.
//!
//! cargo run --example basic

use gpupool::{Block, Pool};

fn main() -> gpupool::Result<()> {
    let pool = Pool::builder().limit_bytes(256 << 20).build()?;
    println!("gpupool {} on {}", gpupool::version_string(), pool.device_info()?.name);

    let stream = pool.create_stream()?;
    let numbers: Vec<f32> = (0..1000).map(|n| n as f32).collect();
    let on_device = stream.vec_from(&numbers)?;
    assert_eq!(on_device.to_vec()?, numbers);

    // Work that another stream does with the array comes first when the array's memory is reused.
    let other = pool.create_stream()?;
    on_device.record_stream(&other)?;
    drop(on_device);

    // A block that borrows its stream costs no more than malloc and free do in C.
    for _ in 0..1000 {
        let scratch = Block::new(&stream, 64 << 20)?;
        assert_eq!(scratch.bytes(), 64 << 20);
    }

    let failure = stream.block(1 << 30).unwrap_err();
    assert!(failure.is_out_of_memory());
    println!("{failure}");

    let stats = pool.stats()?;
    println!(
        "peak: {} bytes reserved for {} bytes allocated; {} of {} mallocs from the thread's cache",
        stats.all.reserved_bytes.peak,
        stats.all.allocated_bytes.peak,
        stats.hits,
        stats.hits + stats.misses
    );
    println!("given back: {} bytes", pool.empty()?);
    Ok(())
}
