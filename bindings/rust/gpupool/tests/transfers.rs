// SPDX-License-Identifier: Apache-2.0
//! Copies that are not waited for.

use gpupool::{sim, ErrorKind, Pool, Result};

fn pool() -> Result<Pool> {
    Pool::builder().device("sim").build()
}

#[test]
fn there_and_back() -> Result<()> {
    let stream = pool()?.create_stream()?;
    let sent: Vec<u64> = (0..1000).collect();
    let place = sent.as_ptr();
    let mut array = stream.vec::<u64>(1000)?;
    let there = array.upload(sent)?;
    let back = array.slice(500..)?.download()?;
    drop(array); // in stream order, so behind both
    assert_eq!(format!("{back:?}"), "Transfer { len: 500, .. }");
    assert_eq!(back.wait()?, (500..1000).collect::<Vec<u64>>());
    let again = there.wait()?;
    assert_eq!((again.as_ptr(), again.len()), (place, 1000));
    Ok(())
}

#[test]
fn a_transfer_keeps_its_stream() -> Result<()> {
    let pool = pool()?;
    let stream = pool.create_stream()?;
    let mut array = stream.vec::<u8>(1 << 20)?;
    let there = array.upload(vec![7; 1 << 20])?;
    drop(array);
    drop(stream);
    drop(pool);
    assert_eq!(there.wait()?, vec![7; 1 << 20]);
    Ok(())
}

/// Work that the simulated device refuses while the stream is busy: of another stream, on the same bytes.
#[test]
fn a_transfer_that_is_dropped_has_waited() -> Result<()> {
    const DEVICE: i32 = 5;
    let pool = Pool::builder().device("sim:5").build()?;
    let (stream, other) = (pool.create_stream()?, pool.create_stream()?);
    let mut array = stream.vec::<u8>(1000)?;
    let used = |by: &gpupool::Stream| sim::work(DEVICE, by.id(), array.address(), 1000, 1_000_000);
    used(&stream)?;
    assert_eq!(used(&other).unwrap_err().kind(), ErrorKind::Driver);
    drop(array.download()?);
    used(&other)?;
    other.synchronize()?;
    drop(array.upload(vec![5; 1000])?);
    sim::work(DEVICE, other.id(), array.address(), 1000, 1)
}

#[test]
fn a_wrong_length_is_refused() -> Result<()> {
    let stream = pool()?.create_stream()?;
    let mut array = stream.vec::<u8>(10)?;
    let error = array.upload(vec![0; 9]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(array.slice_mut(..0)?.upload(Vec::new())?.wait()?.is_empty());
    Ok(())
}
