// SPDX-License-Identifier: Apache-2.0
//! For tests.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::Pool;

/// Panics if more blocks of the pool are live after `work` than before, and names the call sites and tags that hold
/// more, as far as samples tell: with `set_sampling(1)`, or `GPUPOOL_SAMPLE=1`, those are nearly all. Blocks in what
/// `work` returns count. Since 0.2.
///
/// ```
/// # fn main() -> gpupool::Result<()> {
/// let pool = gpupool::Pool::builder().backend(gpupool::Backend::Sim).build()?;
/// let stream = pool.create_stream()?;
/// gpupool::testing::no_leaks(&pool, || drop(stream.vec_from(&[1.0f32, 2.0])));
/// # Ok(())
/// # }
/// ```
///
/// # Panics
/// As said, and if the pool's figures cannot be read.
#[track_caller]
pub fn no_leaks<T>(pool: &Pool, work: impl FnOnce() -> T) -> T {
    let held = held_by_site(pool);
    let before = pool.stats().expect("the pool's figures").all;
    let result = work();
    let after = pool.stats().expect("the pool's figures").all;
    let blocks = after.allocated_blocks.current.saturating_sub(before.allocated_blocks.current);
    let bytes = after.allocated_bytes.current.saturating_sub(before.allocated_bytes.current);
    if blocks != 0 {
        panic!(
            "gpupool: {bytes} bytes more are live than before; blocks: {blocks} more{}",
            held_since(pool, &held)
        );
    }
    result
}

/// Live bytes by tag and stack, as samples estimate them; none if that fails, as the figures say enough without.
fn held_by_site(pool: &Pool) -> BTreeMap<(String, String), u64> {
    let holders = pool.holders().unwrap_or_default();
    holders.into_iter().map(|holder| ((holder.tag, holder.stack), holder.live_bytes)).collect()
}

/// Whose bytes have grown.
fn held_since(pool: &Pool, before: &BTreeMap<(String, String), u64>) -> String {
    let mut text = String::new();
    for (site, bytes) in held_by_site(pool) {
        let more = bytes.saturating_sub(before.get(&site).copied().unwrap_or(0));
        if more != 0 {
            let _ = write!(
                text,
                "\n  {more} bytes more, tag {:?}\n    {}",
                site.0,
                site.1.replace('\n', "\n    ")
            );
        }
    }
    text
}
