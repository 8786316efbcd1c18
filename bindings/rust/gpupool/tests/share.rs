// SPDX-License-Identifier: Apache-2.0
//! Pools that share a device with other processes. In one test, since the environment is the process's.

use std::str::FromStr;
use std::time::Duration;

use gpupool::{share_info, share_repair, share_set};
use gpupool::{Backend, Device, ErrorKind, Pool, Result, ShareFigure, ShareState, SleepOptions, WakeOptions};

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

    let device = || Device::from_str("sim:0");
    let group = share_info(Some("team"), device()?)?;
    assert_eq!((group.used_bytes, group.limbo_bytes), (1 << 30, 0));
    let [member] = &group.members[..] else { panic!("{group:?}") };
    assert_eq!((member.pid, member.is_in_limbo), (std::process::id().into(), false));
    assert_eq!((member.guaranteed_bytes, member.priority, member.want_bytes), (1 << 30, 2, None));
    share_set(Some("team"), device()?, ShareFigure::MemberPriority(member.slot, -3))?;
    share_set(Some("team"), device()?, ShareFigure::MemberLimit(member.slot, 32 << 30))?;
    let set = &share_info(Some("team"), device()?)?.members[0];
    assert_eq!((set.priority, set.limit_bytes), (-3, 32 << 30));
    assert_eq!(share_repair(Some("team"), device()?)?, 0);
    for (figure, kind) in [
        (ShareFigure::MemberPriority(member.slot, 9), ErrorKind::InvalidArgument),
        (ShareFigure::MemberGuarantee(member.slot, u64::MAX), ErrorKind::OverLimit),
    ] {
        assert_eq!(share_set(Some("team"), device()?, figure).unwrap_err().kind(), kind);
    }
    for (name, kind) in [
        (Some("nobodys"), ErrorKind::Unavailable),
        (Some("a/b"), ErrorKind::InvalidArgument),
        (Some("a\0b"), ErrorKind::InvalidArgument),
        (None, ErrorKind::InvalidArgument), // the environment names none
    ] {
        assert_eq!(share_info(name, device()?).unwrap_err().kind(), kind);
    }

    for refused in [sim().share("a/b"), sim().share("team").priority(9)] {
        assert_eq!(refused.build().unwrap_err().kind(), ErrorKind::InvalidArgument);
    }

    std::env::set_var("GPUPOOL_SHARE", "team");
    assert_eq!(share_info(None, device()?)?.members.len(), 1);
    let alone = sim().share("").build()?;
    assert_eq!(alone.stats()?.share_state, ShareState::Off);
    let refused = alone.share_request(1, Duration::ZERO).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    drop((pool, alone));
    std::fs::remove_dir_all(&folder).expect("nobody else uses it");
    Ok(())
}
