// SPDX-License-Identifier: Apache-2.0
//! Pools that share a device with other processes. In one test, since the environment is the process's.

use std::time::Duration;

use gpupool::{Backend, ErrorKind, Pool, Result, ShareState, SleepOptions, WakeOptions};

#[test]
fn a_pool_of_a_group() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("gpupool-rust-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder of its own");
    std::env::set_var("GPUPOOL_SHARE_DIR", &folder);
    let sim = || Pool::builder().backend(Backend::Sim);

    let pool = sim()
        .share("team")
        .guaranteed_bytes(1 << 30)
        .priority(2)
        .share_wait(Duration::from_millis(1))
        .build()?;
    assert_eq!(pool.stats()?.share_state, ShareState::Shared);
    pool.share_request(1 << 20, Duration::ZERO)?;
    let refused = pool.share_request(1 << 60, Duration::ZERO).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OverLimit);
    // SAFETY: the pool has no memory that anything could use.
    unsafe { pool.allow_sleep(&SleepOptions::default()) }?;
    assert_eq!(pool.wake(&WakeOptions::default())?.pools, 0);

    for refused in [sim().share("a/b"), sim().share("team").priority(9)] {
        assert_eq!(refused.build().unwrap_err().kind(), ErrorKind::InvalidArgument);
    }

    std::env::set_var("GPUPOOL_SHARE", "team");
    let alone = sim().share("").build()?;
    assert_eq!(alone.stats()?.share_state, ShareState::Off);
    let refused = alone.share_request(1, Duration::ZERO).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    drop((pool, alone));
    std::fs::remove_dir_all(&folder).expect("nobody else uses it");
    Ok(())
}
