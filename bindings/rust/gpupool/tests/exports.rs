// SPDX-License-Identifier: Apache-2.0
//! Blocks between processes; here both are this one.

use gpupool::{Backend, ErrorKind, Pool, Result};

#[test]
fn a_block_is_exported_and_imported() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).build()?;
    let other = Pool::builder().backend(Backend::Sim).build()?;
    let stream = pool.create_stream()?;
    let block = gpupool::Block::new(&stream, 3 << 20)?;
    let address = block.address();
    let handle = pool.export_block(address)?;
    let import = other.import_block(&handle)?;
    assert_eq!(import.bytes(), 3 << 20);
    assert_ne!(import.address(), address);
    drop(block);
    assert_eq!(pool.stats()?.all.active_bytes.current, 3 << 20);
    drop(import);
    assert_eq!(pool.stats()?.all.active_bytes.current, 0);
    assert_eq!(other.import_block(&handle).unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(other.import_block("gpupool").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(pool.export_block(address).unwrap_err().kind(), ErrorKind::UnknownPointer);
    Ok(())
}
