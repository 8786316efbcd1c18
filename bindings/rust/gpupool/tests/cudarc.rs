// SPDX-License-Identifier: Apache-2.0
//! Blocks on loan to cudarc. What needs a GPU is tested where there is one.

use cudarc::driver::CudaContext;
use gpupool::{features, Backend, ErrorKind, Pool};

#[test]
fn only_blocks_of_cudarcs_streams_are_lent() {
    let pool = Pool::builder().backend(Backend::Sim).build().unwrap();
    let mut block = pool.default_stream().block(64).unwrap();
    let failure = block.lend_to_cudarc::<f32>().map(drop).unwrap_err();
    assert_eq!(failure.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_loan_is_used_and_comes_back() -> Result<(), Box<dyn std::error::Error>> {
    if !features().cuda {
        return Ok(());
    }
    let cuda = CudaContext::new(0)?.new_stream()?;
    let pool = Pool::builder().backend(Backend::Cuda).build()?;
    let stream = pool.cudarc_stream(&cuda)?;
    for _ in 0..3 {
        let mut array = stream.vec_from(&[1.0f32, 2.0, 3.0])?;
        let mut loan = array.lend_to_cudarc()?;
        assert_eq!(loan.len(), 3);
        assert_eq!(cuda.clone_dtoh(&*loan)?, [1.0, 2.0, 3.0]);
        cuda.memcpy_htod(&[4.0f32, 5.0, 6.0], &mut loan.view_mut())?;
        drop(loan);
        assert_eq!(array.to_vec()?, [4.0, 5.0, 6.0]);
    }
    assert_eq!(pool.stats()?.all.allocated_blocks.current, 0);
    cuda.context().check_err()?; // nothing that was dropped has failed

    let simulated = Pool::builder().backend(Backend::Sim).build()?;
    let failure = simulated.cudarc_stream(&cuda).unwrap_err();
    assert_eq!(failure.kind(), ErrorKind::InvalidArgument);
    Ok(())
}
