// SPDX-License-Identifier: Apache-2.0
//! The helper that finds what a test leaves live.

use std::panic::{catch_unwind, AssertUnwindSafe};

use gpupool::testing::no_leaks;
use gpupool::{Backend, Block, Pool, Result, Stream, Tag};

const MIB: u64 = 1 << 20;

// Not the last call, so that the function has a frame.
#[inline(never)]
fn grow(pool: &Pool, stream: &Stream) -> Result<Block> {
    let _tag = Tag::new("kv cache")?;
    let block = stream.block(64 * MIB)?;
    pool.stats()?;
    Ok(block)
}

#[test]
fn what_stays_live_is_named() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).build()?;
    let stream = pool.create_stream()?;
    let old = stream.block(128 * MIB)?;
    let said =
        catch_unwind(AssertUnwindSafe(|| no_leaks(&pool, || grow(&pool, &stream)))).expect_err("a leak");
    let said = said.downcast_ref::<String>().expect("words");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "gpupool: 67108864 bytes more are live than before; blocks: 1 more");
    assert_eq!(lines[1], "  67108864 bytes more, tag \"kv cache\"");
    assert!(lines[2].starts_with("    leaks::grow+0x"), "{said}");
    assert!(!said.contains("134217728 bytes"), "{said}");
    drop(old);
    Ok(())
}

#[test]
fn what_is_freed_is_no_leak() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).build()?;
    let stream = pool.create_stream()?;
    let old = stream.block(MIB)?;
    assert_eq!(no_leaks(&pool, || stream.block(MIB).map(|block| block.bytes()))?, MIB);
    no_leaks(&pool, move || drop(old));
    Ok(())
}
