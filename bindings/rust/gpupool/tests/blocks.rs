// SPDX-License-Identifier: Apache-2.0
//! Blocks and arrays: copies, lifetime, bad input.

use gpupool::{Backend, Block, ErrorKind, Pool, PoolVec, Result, Stream};

fn stream() -> Stream {
    Pool::builder().backend(Backend::Sim).build().unwrap().create_stream().unwrap()
}

fn live_blocks(stream: &Stream) -> u64 {
    stream.pool().stats().unwrap().all.allocated_blocks.current
}

#[test]
fn arrays_copy_both_ways() -> Result<()> {
    let stream = stream();
    let source: Vec<u32> = (0..100_000).collect();
    let mut array = stream.vec_from(&source)?;
    assert_eq!((array.len(), array.is_empty()), (source.len(), false));
    assert_eq!(array.to_vec()?, source);
    array.copy_from_slice(&vec![7; source.len()])?;
    let mut back = vec![0; source.len()];
    array.copy_to_slice(&mut back)?;
    assert!(back.iter().all(|&number| number == 7));
    array.fill_bytes(0xff)?;
    assert!(array.to_vec()?.iter().all(|&number| number == u32::MAX));

    let pairs: PoolVec<[f64; 2], &Stream> = PoolVec::from_slice(&stream, &[[1.0, 2.0], [3.0, 4.0]])?;
    assert_eq!(pairs.into_block().bytes(), 32);
    Ok(())
}

#[test]
fn parts_of_blocks_are_read_and_written() -> Result<()> {
    let stream = stream();
    let mut block = Block::new(&stream, 1000)?;
    block.fill(0)?;
    block.write(996, &[0x0102_0304_u32])?;
    let mut bytes = [0u8; 8];
    block.read(992, &mut bytes)?;
    assert_eq!(bytes, [0, 0, 0, 0, 4, 3, 2, 1]);

    let other = stream.pool().create_stream()?;
    let mut copy = other.block(1000)?;
    stream.synchronize()?;
    copy.copy_from(&block, 1000)?;
    drop(block);
    copy.read(992, &mut bytes)?;
    assert_eq!(bytes, [0, 0, 0, 0, 4, 3, 2, 1]);
    Ok(())
}

#[test]
fn copies_may_be_queued() -> Result<()> {
    let mut array = stream().vec::<u16>(3)?;
    let (source, mut destination) = ([1u16, 2, 3], [0; 3]);
    let block = array.block_mut();
    // SAFETY: both stay until the stream has passed.
    unsafe {
        block.write_async(0, &source)?;
        block.read_async(0, &mut destination)?;
    }
    block.stream().synchronize()?;
    assert_eq!(destination, source);
    Ok(())
}

#[test]
fn what_is_outside_a_block_is_refused() -> Result<()> {
    let stream = stream();
    let mut block = stream.block(100)?;
    let refused = [
        block.write(97, &[0u32]),
        block.write(u64::MAX, &[0u8]),
        block.read(0, &mut [0u8; 101]),
        block.copy_from(&stream.block(8)?, 9),
        stream.vec_from(&[1u8, 2])?.copy_to_slice(&mut [0; 3]),
        stream.vec::<u8>(2)?.copy_from_slice(&[0; 1]),
        Block::aligned(&stream, 10, 3).map(drop),
    ];
    for result in refused {
        let failure = result.unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::InvalidArgument);
        assert!(failure.to_string().starts_with("GPUPOOL_ERROR_INVALID_ARGUMENT: "), "{failure}");
    }
    assert_eq!(live_blocks(&stream), 1);
    Ok(())
}

#[test]
fn nothing_is_a_block_too() -> Result<()> {
    let stream = stream();
    let mut nothing = stream.vec_from::<u64>(&[])?;
    assert_eq!((nothing.address(), nothing.is_empty()), (0, true));
    nothing.fill_bytes(1)?;
    nothing.record_stream(&stream.pool().create_stream()?)?;
    assert_eq!(nothing.to_vec()?, []);
    nothing.into_block().free()
}

#[test]
fn alignment_is_kept() -> Result<()> {
    let stream = stream();
    let _odd = Block::new(&stream, 512)?;
    let block = Block::aligned(&stream, 10, 2 << 20)?;
    assert_eq!(block.address() % (2 << 20), 0);
    assert_eq!(stream.malloc_aligned(0, 64)?, 0);
    Ok(())
}

#[test]
fn a_block_keeps_its_stream_and_its_pool() -> Result<()> {
    let mut block = stream().vec_from(&[1u8, 2, 3])?.into_block();
    let stream = block.stream().clone();
    block.fill(9)?;
    let moved = std::thread::spawn(move || block.free());
    moved.join().expect("no panic")?;
    assert_eq!(live_blocks(&stream), 0);
    stream.pool().validate()
}

#[test]
fn a_stream_that_has_gone_is_released() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).build()?;
    let address = pool.create_stream()?.malloc(1 << 20)?;
    assert_eq!(pool.stats()?.streams, 0);
    let info = pool.block_info(address)?;
    // SAFETY: the block is live and nobody uses it.
    unsafe { pool.free(address, info.stream) }?;
    // SAFETY: the simulated device knows stream 0.
    let adopted = unsafe { pool.adopt_stream(gpupool::StreamId::from_number(0)) };
    drop(adopted.block(1)?);
    assert_eq!(pool.stats()?.streams, 1);
    drop(adopted);
    assert_eq!(pool.stats()?.streams, 0);
    Ok(())
}

#[test]
fn raw_addresses_and_blocks_change_into_each_other() -> Result<()> {
    let stream = stream();
    let address = stream.block(4096)?.into_raw();
    assert_eq!(live_blocks(&stream), 1);
    // SAFETY: the block is live and nobody else's.
    let mut block = unsafe { Block::from_raw(&stream, address, 4096) };
    block.fill(1)?;
    drop(block);
    assert_eq!(live_blocks(&stream), 0);
    Ok(())
}

#[test]
fn streams_of_other_pools_are_refused() -> Result<()> {
    let (ours, theirs) = (stream(), stream());
    let block = ours.block(10)?;
    assert_eq!(block.record_stream(&theirs).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(block.free_on(&theirs).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(live_blocks(&ours), 0);
    Ok(())
}
