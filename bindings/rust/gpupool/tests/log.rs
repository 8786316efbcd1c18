// SPDX-License-Identifier: Apache-2.0
//! A logger that calls the crate. The log is the process's, so this has a program of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use gpupool::{log_to, log_to_stderr, Backend, Block, LogLevel, Pool, Result};

#[test]
fn a_logger_may_call_the_crate() -> Result<()> {
    let sim = || Pool::builder().backend(Backend::Sim).build();
    let watched = sim()?;
    let lines = Arc::new(AtomicU64::new(0));
    let (stream, count) = (watched.default_stream(), lines.clone());
    log_to(LogLevel::Debug, move |_, _| {
        drop(Block::new(&stream, 1 << 20).unwrap());
        count.fetch_add(1, Ordering::Relaxed);
    })?;
    let logged = sim()?;
    drop(Block::new(&logged.default_stream(), 64 << 20)?);
    logged.empty()?;
    log_to_stderr(LogLevel::Off)?;
    let lines = lines.load(Ordering::Relaxed);
    assert!(lines >= 2, "{lines} lines, of growth and of what was given back");
    let caused = watched.stats()?.all.allocated_blocks.total_allocated;
    assert_eq!(caused, lines, "nothing that the logger caused is logged");
    Ok(())
}
