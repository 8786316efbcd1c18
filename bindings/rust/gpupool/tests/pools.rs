// SPDX-License-Identifier: Apache-2.0
//! Pools: creating, limiting, watching, giving back, callbacks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use gpupool::{
    device_count, device_info, features, sim, Backend, BlockState, ErrorKind, Features, Kind, Mode, Pool,
    Result, StreamId,
};

const MIB: u64 = 1 << 20;

fn sim_pool() -> Pool {
    Pool::builder().backend(Backend::Sim).build().unwrap()
}

#[test]
fn shared_types_go_to_other_threads() {
    fn is_shared<T: Clone + Send + Sync + 'static>() {}
    is_shared::<Pool>();
    is_shared::<gpupool::Stream>();
    is_shared::<gpupool::Error>();
}

#[test]
fn the_library_tells_about_itself() -> Result<()> {
    assert_eq!(gpupool::version() / 10_000, 0);
    assert!(gpupool::version_string().starts_with("0."));
    let Features { sim, cuda, .. } = features();
    assert!(sim);
    assert_eq!(device_count(Backend::Sim)?, 8);
    assert_eq!(device_count(Backend::Cuda).is_ok(), cuda);
    let info = device_info(Backend::Sim, 6)?;
    assert_eq!((info.backend, info.device), (Backend::Sim, 6));
    assert!(info.has_vmm && info.total_bytes > 100 << 30 && info.name.contains("simulated"));
    Ok(())
}

#[test]
fn the_builder_sets_everything() -> Result<()> {
    let builder = Pool::builder().device(1).backend(Backend::Sim).mode(Mode::Driver).kind(Kind::Pinned);
    let builder = builder.capture_aware(true).fraction(0.5).limit_bytes(MIB << 10).slack(0.1).peers(&[2]);
    let pool = builder.build()?;
    assert_eq!(pool.device_info()?.device, 1);
    assert_eq!(pool.stats()?.limit_bytes, MIB << 10);
    let block = pool.create_stream()?.block(MIB)?;
    assert_eq!(block.info()?.device, 1);
    assert_ne!(pool.stats()?.driver.malloc.count, 0);

    let large = Pool::builder().backend(Backend::Sim).max_chunk_bytes(3 * MIB).build();
    assert_eq!(large.unwrap_err().kind(), ErrorKind::InvalidArgument);
    Ok(())
}

#[test]
fn a_default_pool_is_one_and_stays() -> Result<()> {
    let pool = Pool::default_for(5)?;
    let handle = pool.handle();
    drop(pool);
    let again = Pool::default_for(5)?;
    assert_eq!(again.handle(), handle);
    let block = again.default_stream().block(MIB)?;
    assert_eq!(block.stream().id(), StreamId::DEFAULT);
    // SAFETY: nobody else uses the pool.
    assert_eq!(unsafe { again.destroy() }.unwrap_err().kind(), ErrorKind::InvalidArgument);
    Ok(())
}

#[test]
fn memory_is_kept_limited_and_given_back() -> Result<()> {
    // On a device of its own: a pool that is short has the caches of all on its device emptied.
    let pool = Pool::builder().backend(Backend::Sim).device(2).build()?;
    let stream = pool.create_stream()?;
    stream.reserve(64 * MIB)?;
    assert_eq!(pool.stats()?.all.reserved_bytes.current, 64 * MIB);
    assert_eq!(pool.trim(16 * MIB)?, 48 * MIB);
    let block = stream.block(4 * MIB)?;
    pool.set_limit(16 * MIB)?;
    assert_eq!(stream.block(32 * MIB).unwrap_err().kind(), ErrorKind::OverLimit);
    assert_eq!(pool.set_limit(MIB).unwrap_err().kind(), ErrorKind::OverLimit);
    pool.set_fraction(1.0)?;
    drop(block);
    pool.synchronize()?;
    pool.empty()?;
    pool.reset_peaks()?;
    let stats = pool.stats()?;
    assert_eq!((stats.all.reserved_bytes.current, stats.all.reserved_bytes.peak), (0, 0));
    assert_eq!(stats.all.allocated_bytes.total_allocated, 4 * MIB);
    assert_eq!(stats.driver.total().count, stats.driver.by_kind().iter().map(|kind| kind.1.count).sum());
    pool.validate()
}

#[test]
fn what_is_in_a_pool_can_be_seen() -> Result<()> {
    let pool = sim_pool();
    let stream = pool.create_stream()?;
    let block = stream.block(3 * MIB + 1)?;
    let seen = pool.snapshot()?;
    let live: Vec<_> = seen.blocks.iter().filter(|block| block.state == BlockState::Live).collect();
    assert_eq!(live.len(), 1);
    assert_eq!(*live[0], pool.block_info(block.address() + MIB)?);
    assert_eq!((live[0].requested_bytes, live[0].allocated_bytes), (3 * MIB + 1, 3 * MIB + 512));
    assert_eq!(live[0].stream, stream.id());
    let mapped: u64 = seen.segments.iter().map(|segment| segment.size_bytes).sum();
    assert_eq!(mapped, pool.stats()?.all.reserved_bytes.current);
    assert!(seen.segments.iter().all(|segment| !segment.is_small && segment.stream == stream.id()));
    let report = pool.report()?;
    assert!(report.contains("1 live block") && !report.ends_with('\0'), "{report}");
    Ok(())
}

#[test]
fn a_freed_block_waits_for_the_streams_that_were_recorded() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).device(4).build()?;
    let (stream, other) = (pool.create_stream()?, pool.create_stream()?);
    let block = stream.block(8 * MIB)?;
    sim::work(4, other.id(), block.address(), block.bytes(), 1_000_000)?;
    block.record_stream(&other)?;
    block.free()?;
    assert_eq!(pool.stats()?.all.active_blocks.current, 1);
    pool.synchronize()?;
    assert_eq!(pool.stats()?.all.active_blocks.current, 0);
    stream.block(8 * MIB)?.free_on(&other)?;
    stream.block(8 * MIB)?.free_on_all()?;
    pool.park_stream(other.id())?;
    other.block(8 * MIB)?.free()?;
    pool.release_stream(other.id())?;
    assert_eq!(sim::faults(4)?, sim::Faults::default());
    Ok(())
}

#[test]
fn the_simulated_device_obeys() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).device(6).build()?;
    let stream = pool.create_stream()?;
    sim::begin_capture(6, stream.id())?;
    sim::end_capture(6, stream.id())?;
    sim::advance(6, 1000)?;
    let unmapped = sim::work(6, stream.id(), 0x1000, 64, 10).unwrap_err();
    assert_eq!(unmapped.kind(), ErrorKind::Driver);
    let faults = sim::faults(6)?;
    assert_eq!(faults.count, 1);
    assert!(unmapped.message().contains(&faults.last), "{faults:?}");
    let in_use = sim::configure(6, &sim::Config::default()).unwrap_err();
    assert_eq!(in_use.kind(), ErrorKind::InvalidArgument);
    assert_eq!(sim::script(6, "create:1\0").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(sim::script(6, "dance:1").unwrap_err().kind(), ErrorKind::InvalidArgument);
    Ok(())
}

#[test]
fn a_captures_memory_comes_back_when_its_graph_is_gone() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).device(7).capture_aware(true).build()?;
    let stream = pool.create_stream()?;
    assert_eq!(stream.capture_id()?, None);
    sim::begin_capture(7, stream.id())?;
    let capture = stream.capture_id()?.expect("it has a number");
    drop(stream.block(MIB)?);
    // SAFETY: it is refused, because the capture is under way.
    let refused = unsafe { pool.release_capture(capture) }.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    sim::end_capture(7, stream.id())?;
    pool.empty()?;
    assert_ne!(pool.stats()?.all.reserved_bytes.current, 0);
    // SAFETY: no graph was made.
    unsafe { pool.release_capture(capture) }?;
    pool.empty()?;
    assert_eq!(pool.stats()?.all.reserved_bytes.current, 0);
    Ok(())
}

#[test]
fn a_free_leaves_no_event_while_a_capture_is_announced() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).device(7).build()?;
    let (one, other) = (pool.create_stream()?, pool.create_stream()?);
    let events = || -> Result<u64> {
        drop(one.block(64 * MIB)?);
        drop(other.block(64 * MIB)?);
        Ok(pool.stats()?.driver.event_record.count)
    };
    pool.announce_capture(true)?;
    assert_eq!(events()?, 0);
    pool.announce_capture(false)?;
    assert_ne!(events()?, 0);
    let refused = pool.announce_capture(false).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    Ok(())
}

#[test]
fn a_launch_does_what_was_captured() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).device(5).capture_aware(true).build()?;
    let (stream, other) = (pool.create_stream()?, pool.create_stream()?);
    // SAFETY: what is captured uses `block`, which is there to the end.
    let launch = |capture| unsafe { sim::launch(5, capture, other.id()) };
    let mut block = stream.block(4)?;
    block.write(0, &[1_u8; 4])?;
    sim::begin_capture(5, stream.id())?;
    let capture = stream.capture_id()?.expect("it has a number");
    sim::work(5, stream.id(), block.address(), 4, 1_000_000)?;
    block.fill(7)?;
    assert_eq!(launch(capture).unwrap_err().kind(), ErrorKind::InvalidArgument);
    sim::end_capture(5, stream.id())?;
    let mut bytes = [0_u8; 4];
    block.read(0, &mut bytes)?;
    assert_eq!(bytes, [1; 4]);
    launch(capture)?;
    other.synchronize()?;
    block.read(0, &mut bytes)?;
    assert_eq!(bytes, [7; 4]);
    assert_eq!(launch(capture + 1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(sim::faults(5)?, sim::Faults::default());
    Ok(())
}

#[test]
fn strict_streams_are_those_that_a_pool_made() -> Result<()> {
    let nobodys = StreamId::from_number(12345);
    sim::configure(3, &sim::Config { strict_streams: true, ..Default::default() })?;
    let pool = Pool::builder().backend(Backend::Sim).device(3).build()?;
    sim::work(3, pool.create_stream()?.id(), 0, 0, 1)?;
    assert_eq!(sim::work(3, nobodys, 0, 0, 1).unwrap_err().kind(), ErrorKind::Driver);
    Ok(())
}

#[test]
fn peers_are_added_to_a_living_pool() -> Result<()> {
    let pool = sim_pool();
    let _block = pool.default_stream().block(MIB)?;
    pool.enable_peer(1)?;
    pool.enable_peer(0)?;
    assert_eq!(pool.enable_peer(99).unwrap_err().kind(), ErrorKind::InvalidArgument);
    Ok(())
}

#[test]
fn children_share_the_limit() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).limit_bytes(32 * MIB).build()?;
    let child = pool.create_child()?;
    let block = child.default_stream().block(24 * MIB)?;
    let refusal = pool.default_stream().block(16 * MIB).unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::OverLimit);
    assert_eq!(child.create_child().unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop(block);
    drop(child);
    pool.default_stream().block(16 * MIB)?;
    Ok(())
}

#[test]
fn the_oom_handler_frees_and_the_malloc_succeeds() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).limit_bytes(32 * MIB).build()?;
    let stream = pool.create_stream()?;
    let hoard = Arc::new(Mutex::new(vec![stream.block(24 * MIB)?]));
    let shared = Arc::clone(&hoard);
    pool.set_oom_handler(move |bytes, attempt| {
        assert_eq!((bytes, attempt), (16 * MIB, 1));
        !std::mem::take(&mut *shared.lock().unwrap()).is_empty()
    })?;
    let block = stream.block(16 * MIB)?;
    assert!(hoard.lock().unwrap().is_empty());
    assert_eq!(pool.stats()?.oom_handler_calls, 1);

    pool.set_oom_handler(|_, _| panic!("a handler that panics counts as one that could not help"))?;
    assert_eq!(Arc::strong_count(&hoard), 1);
    assert!(stream.block(32 * MIB).unwrap_err().is_out_of_memory());
    pool.clear_oom_handler()?;
    let calls = pool.stats()?.oom_handler_calls;
    assert!(stream.block(32 * MIB).is_err());
    assert_eq!(pool.stats()?.oom_handler_calls, calls);
    drop(block);
    Ok(())
}

#[test]
fn a_handler_goes_with_its_pool() -> Result<()> {
    let pool = sim_pool();
    let token = Arc::new(());
    let held = Arc::clone(&token);
    pool.set_oom_handler(move |_, _| Arc::strong_count(&held) == 0)?;
    drop(pool);
    assert_eq!(Arc::strong_count(&token), 1);
    Ok(())
}

#[test]
fn memory_may_come_from_closures() -> Result<()> {
    let given = Arc::new(Mutex::new(HashMap::new()));
    let next = AtomicU64::new(1 << 40);
    let token = Arc::clone(&given);
    let taken = Arc::clone(&given);
    let malloc = move |bytes: u64, _| {
        let address = next.fetch_add(bytes.next_multiple_of(512), Ordering::Relaxed);
        let known = token.lock().unwrap().insert(address, bytes);
        assert!(known.is_none());
        (bytes < MIB << 10).then_some(address)
    };
    let free = move |address, bytes, _| {
        assert_eq!(taken.lock().unwrap().remove(&address), Some(bytes));
    };
    // SAFETY: nobody uses the memory.
    let builder = unsafe { Pool::builder().backend(Backend::Sim).upstream(malloc, free) };
    let pool = builder.build()?;
    let block = pool.default_stream().block(5 * MIB)?;
    assert!(given.lock().unwrap().contains_key(&block.address()));
    assert!(pool.default_stream().block(MIB << 11).unwrap_err().is_out_of_memory());
    given.lock().unwrap().retain(|_, bytes| *bytes < MIB << 10);
    drop((block, pool));
    assert!(given.lock().unwrap().is_empty());
    assert_eq!(Arc::strong_count(&given), 1);
    Ok(())
}

#[test]
fn an_upstream_that_panics_has_no_memory() -> Result<()> {
    // SAFETY: it gives nothing.
    let builder =
        unsafe { Pool::builder().backend(Backend::Sim).upstream(|_, _| panic!("broken"), |_, _, _| ()) };
    let failure = builder.build()?.default_stream().block(MIB).unwrap_err();
    assert!(failure.is_out_of_memory());
    Ok(())
}

#[test]
fn an_upstream_outlives_the_pool_while_raw_blocks_do() -> Result<()> {
    let freed = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&freed);
    let free = move |_, _, _| {
        count.fetch_add(1, Ordering::Relaxed);
    };
    // SAFETY: nobody uses the memory.
    let builder = unsafe { Pool::builder().backend(Backend::Sim).upstream(|_, _| Some(1 << 41), free) };
    let pool = builder.build()?;
    let address = pool.default_stream().malloc(5 * MIB)?;
    let handle = pool.handle();
    drop(pool);
    assert_eq!(freed.load(Ordering::Relaxed), 0);
    // SAFETY: the block is live, and handles stay readable.
    let status = unsafe { gpupool::sys::gpupool_free(handle, address, 0) };
    assert_eq!(status, gpupool::sys::GPUPOOL_SUCCESS);
    assert_eq!(freed.load(Ordering::Relaxed), 1);
    Ok(())
}
