// SPDX-License-Identifier: Apache-2.0
//! Sleep and wake.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};

use gpupool::{
    sim, sleep_tag, wake_tag, Backend, ErrorKind, Pool, Result, SleepMode, SleepOptions, SleepState,
    WakeOptions,
};

#[test]
fn what_was_saved_is_there_again() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).build()?;
    pool.set_name("rust weights")?;
    assert_eq!(pool.name()?, "rust weights");
    let stream = pool.create_stream()?;
    let source: Vec<u32> = (0..1_000_000).collect();
    let array = stream.vec_from(&source)?;
    stream.synchronize()?;
    // SAFETY: nothing uses the array until the pool is awake.
    let slept = unsafe { pool.sleep(&SleepOptions::default()) }?;
    assert_eq!((slept.pools, slept.dropped_bytes), (1, 0));
    assert!(slept.saved_bytes >= 4_000_000);
    assert_eq!(pool.sleep_state()?, SleepState::Asleep);
    assert_eq!(stream.block(512).unwrap_err().kind(), ErrorKind::Asleep);
    assert_eq!(wake_tag(Some("rust weights"), &WakeOptions::default())?.pools, 1);
    assert_eq!(array.to_vec()?, source);
    Ok(())
}

#[test]
fn dropping_saves_nothing_but_what_is_kept() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).build()?;
    let stream = pool.create_stream()?;
    let block = stream.block(3 << 20)?;
    let options = SleepOptions { mode: SleepMode::Drop, ..Default::default() };
    // SAFETY: nothing uses the block until the pool is awake.
    assert_eq!(unsafe { pool.sleep(&options) }?.dropped_bytes, 3 << 20);
    assert_eq!(pool.backup(block.address()).unwrap_err().kind(), ErrorKind::Unavailable);
    pool.wake(&WakeOptions { fill: Some(9), ..Default::default() })?;
    pool.set_keep(block.address(), true)?;
    pool.prepare_backup(4 << 20)?;
    // SAFETY: as above.
    assert_eq!(unsafe { pool.sleep(&options) }?.saved_bytes, 3 << 20);
    let (data, bytes) = pool.backup(block.address() + 100)?;
    assert_eq!(bytes, (3 << 20) - 100);
    // SAFETY: the pool sleeps, and so many bytes are there.
    assert_eq!(unsafe { *data }, 9);
    pool.wake(&WakeOptions::default())?;
    Ok(())
}

#[test]
fn what_was_saved_can_be_read_while_it_sleeps() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).build()?;
    let stream = pool.create_stream()?;
    let source: Vec<u8> = (0..4 << 20).map(|at: u32| at.wrapping_mul(7) as u8).collect();
    let (kept, lost) = (stream.vec_from(&source)?, stream.block(4 << 20)?);
    stream.synchronize()?;
    let refused = |address, bytes: usize| pool.read_backup(address, &mut vec![0; bytes]).unwrap_err().kind();
    assert_eq!(refused(kept.address(), 1), ErrorKind::Unavailable);
    pool.set_keep(kept.address(), true)?;
    assert_eq!(pool.set_keep(kept.address() + 512, true).unwrap_err().kind(), ErrorKind::UnknownPointer);
    assert_eq!(pool.prepare_backup(1 << 60).unwrap_err().kind(), ErrorKind::HostOutOfMemory);
    // SAFETY: nothing uses the blocks until the pool is awake.
    unsafe { pool.sleep(&SleepOptions { mode: SleepMode::Drop, ..Default::default() }) }?;
    let mut whole = vec![0; 4 << 20];
    pool.read_backup(kept.address(), &mut whole)?;
    assert!(whole == source);
    let mut some = [0; 10];
    pool.read_backup(kept.address() + 100, &mut some)?;
    assert_eq!(some, source[100..110]);
    pool.read_backup(kept.address(), &mut [])?;
    assert_eq!(refused(kept.address() + 1, 4 << 20), ErrorKind::InvalidArgument);
    assert_eq!(refused(lost.address(), 1), ErrorKind::Unavailable);
    assert_eq!(refused(4096, 1), ErrorKind::UnknownPointer);
    pool.wake(&WakeOptions::default())?;
    assert_eq!(refused(kept.address(), 1), ErrorKind::Unavailable);
    assert_eq!(wake_tag(Some("nobody's"), &WakeOptions::default())?.pools, 0);
    Ok(())
}

#[test]
fn a_pool_that_may_sleeps_when_another_one_is_short() -> Result<()> {
    sim::configure(5, &sim::Config { capacity_bytes: 64 << 20, ..Default::default() })?;
    let make = || Pool::builder().backend(Backend::Sim).device(5).build();
    let (idle, busy) = (make()?, make()?);
    let (stream, other) = (idle.create_stream()?, busy.create_stream()?);
    let block = stream.vec_from(&vec![3_u8; 40 << 20])?;
    stream.synchronize()?;
    assert_eq!(other.block(40 << 20).unwrap_err().kind(), ErrorKind::OutOfMemory);
    // SAFETY: nothing uses the block until the pool is awake.
    unsafe { idle.allow_sleep(&SleepOptions::default()) }?;
    let taken = other.block(40 << 20)?;
    assert_eq!(idle.sleep_state()?, SleepState::Asleep);
    drop(taken);
    idle.wake(&WakeOptions::default())?;
    assert_eq!(block.to_vec()?[77], 3);
    Ok(())
}

#[test]
fn blocks_wake_ahead_of_their_pool() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).build()?;
    let stream = pool.create_stream()?;
    let (first, second) = (stream.vec_from(&[1_u8; 4 << 20])?, stream.vec_from(&[2_u8; 4 << 20])?);
    stream.synchronize()?;
    // SAFETY: nothing uses the blocks until they are awake.
    unsafe { pool.sleep(&SleepOptions::default()) }?;
    let woken = pool.wake_block(second.address(), &WakeOptions::default())?;
    assert_eq!((woken.pools, woken.saved_bytes), (0, 4 << 20));
    assert_eq!(pool.sleep_state()?, SleepState::Asleep);
    // SAFETY: as above.
    let refused = unsafe { pool.sleep(&SleepOptions::default()) };
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    let inside = pool.wake_block(second.address() + 512, &WakeOptions::default());
    assert_eq!(inside.unwrap_err().kind(), ErrorKind::UnknownPointer);
    assert_eq!(pool.wake(&WakeOptions::default())?.saved_bytes, 4 << 20);
    assert_eq!((first.to_vec()?[77], second.to_vec()?[77]), (1, 2));
    Ok(())
}

#[test]
fn one_block_sleeps_alone() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).max_chunk_bytes(2 << 20).build()?;
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (before, after) = (calls.clone(), calls.clone());
    pool.set_sleep_hooks(
        move |address| {
            before.lock().unwrap().push(("before", address));
            true
        },
        move |address| {
            after.lock().unwrap().push(("after", address));
            true
        },
    )?;
    let stream = pool.create_stream()?;
    let block = stream.block(4 << 20)?;
    // SAFETY: nothing uses the block until it is awake.
    let slept = unsafe { pool.sleep_block(block.address(), &SleepOptions::default()) }?;
    assert_eq!((slept.pools, slept.released_bytes), (0, 4 << 20));
    assert_eq!(pool.sleep_state()?, SleepState::Awake);
    assert_eq!(pool.wake_block(block.address(), &WakeOptions::default())?.created_bytes, 4 << 20);
    assert_eq!(*calls.lock().unwrap(), [("before", block.address()), ("after", block.address())]);
    pool.set_sleep_hooks(|_| panic!("no"), |_| true)?;
    // SAFETY: as above.
    let refused = unsafe { pool.sleep(&SleepOptions::default()) };
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    pool.clear_sleep_hooks()
}

#[test]
fn a_target_takes_the_idlest_blocks() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).max_chunk_bytes(2 << 20).build()?;
    pool.set_name("target")?;
    let stream = pool.create_stream()?;
    let blocks = [stream.block(4 << 20)?, stream.block(4 << 20)?, stream.block(4 << 20)?];
    let mut options = SleepOptions { target: NonZeroU64::new(5 << 20), ..Default::default() };
    // SAFETY: nothing uses the blocks until they are awake.
    let slept = unsafe { pool.sleep(&options) }?;
    assert_eq!((slept.pools, slept.released_bytes, slept.saved_bytes), (0, 8 << 20, 8 << 20));
    assert_eq!(pool.sleep_state()?, SleepState::Awake);
    options.mode = SleepMode::Drop;
    // SAFETY: as above.
    assert_eq!(unsafe { sleep_tag(Some("target"), &options) }?.dropped_bytes, 4 << 20);
    // SAFETY: as above.
    let refused = unsafe { pool.sleep_block(blocks[0].address(), &options) };
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(pool.wake(&WakeOptions::default())?.saved_bytes, 8 << 20);
    Ok(())
}
