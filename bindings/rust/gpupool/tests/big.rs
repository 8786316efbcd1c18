// SPDX-License-Identifier: Apache-2.0
//! Sizes of more than 32 bits. Memory that nobody touches takes none of the host's.

use gpupool::{sim, ErrorKind, Mode, Pool, Result};

const GIB: u64 = 1 << 30;
const BIG: u64 = 4 * GIB + 5;

#[test]
fn sizes_and_offsets_of_more_than_32_bits() -> Result<()> {
    let stream = Pool::builder().device("sim").build()?.create_stream()?;
    let mut block = stream.block(BIG)?;
    assert_eq!(block.bytes(), BIG);
    assert_eq!(stream.pool().block_info(block.address() + BIG - 1)?.requested_bytes, BIG);
    assert_eq!(stream.pool().stats()?.all.requested_bytes.current, BIG);
    block.write(BIG - 3, b"end")?;
    let mut end = [0; 3];
    block.read(BIG - 3, &mut end)?;
    assert_eq!(&end, b"end");
    let refused = block.read(BIG - 2, &mut end).unwrap_err();
    assert_eq!(refused.message(), "3 bytes at 4294967299 are not inside a block of 4294967301 bytes");
    assert_eq!(block.write(u64::MAX, &end).unwrap_err().kind(), ErrorKind::InvalidArgument);

    let mut array = stream.vec::<f64>(BIG as usize)?;
    assert_eq!(array.block().bytes(), 8 * BIG);
    let last = BIG as usize - 2;
    array.slice_mut(last..)?.copy_from_slice(&[1.0, 2.0])?;
    assert_eq!(array.slice(last..)?.address(), array.address() + 8 * (BIG - 2));
    assert_eq!(array.slice(last + 1..)?.to_vec()?, [2.0]);
    assert_eq!(array.slice(last..)?.download()?.wait()?, [1.0, 2.0]);
    assert_eq!(array.slice(last..last + 3).unwrap_err().kind(), ErrorKind::InvalidArgument);
    Ok(())
}

#[test]
fn more_than_the_host_has() -> Result<()> {
    let config = sim::Config { data: sim::Data::None, capacity_bytes: 1 << 46, ..Default::default() };
    sim::configure(6, &config)?;
    let stream = Pool::builder().device("sim:6").mode(Mode::Driver).build()?.create_stream()?;
    let array = stream.vec::<u64>(1 << 41)?;
    let refused = array.to_vec().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::HostOutOfMemory);
    assert_eq!(refused.message(), "the host has no memory for 17592186044416 bytes: read them in parts");
    assert_eq!(array.download().unwrap_err().kind(), ErrorKind::HostOutOfMemory);
    Ok(())
}
