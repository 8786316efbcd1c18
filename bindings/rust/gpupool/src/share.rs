// SPDX-License-Identifier: Apache-2.0
//! Groups of processes that share a device's memory, seen from outside.

use std::ffi::c_char;
use std::mem::size_of;
use std::ptr;

use gpupool_sys as sys;

use crate::error::{check, text};
use crate::words::c_text;
use crate::{library, Device, Result};

/// A group at one moment: [`share_info`]. Since 0.2.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ShareGroup {
    /// What all members may have together.
    pub limit_bytes: u64,
    /// What they have, guarantees included.
    pub used_bytes: u64,
    /// What the device has.
    pub total_bytes: u64,
    /// The part of `used_bytes` that dead members held, until the device shows it free.
    pub limbo_bytes: u64,
    /// What no member held at the last quiet moment: contexts, and programs outside the group.
    pub foreign_bytes: u64,
    /// Where the region is.
    pub path: String,
    /// In the order of their numbers.
    pub members: Vec<ShareMember>,
}

/// A process of a group. All but `charged_bytes` is what it says of itself, and may lag. Since 0.2.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ShareMember {
    /// Its number, for [`ShareFigure`].
    pub slot: u32,
    /// Whether it has ended, and the device does not show its memory as free yet.
    pub is_in_limbo: bool,
    /// As its own namespace sees it.
    pub pid: u64,
    /// Its user.
    pub uid: u64,
    /// From -8 to 8.
    pub priority: i32,
    /// What it waits for; `None`: it does not wait.
    pub want_bytes: Option<u64>,
    /// What it has.
    pub reserved_bytes: u64,
    /// What counts for the group: the larger of `reserved_bytes` and `guaranteed_bytes`.
    pub charged_bytes: u64,
    /// In live blocks, when it was asked last.
    pub live_bytes: u64,
    /// What it is guaranteed.
    pub guaranteed_bytes: u64,
    /// 0: none but the group's.
    pub limit_bytes: u64,
    /// What it has given to others.
    pub given_bytes: u64,
    /// What it got after asking others.
    pub taken_bytes: u64,
    /// The program.
    pub name: String,
}

/// What [`share_set`] sets; members are told by their slots. Since 0.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShareFigure {
    /// What all members may have together, in bytes.
    Limit(u64),
    /// What one member may have, in bytes; 0: no limit but the group's.
    MemberLimit(u32, u64),
    /// What one member is guaranteed, in bytes.
    MemberGuarantee(u32, u64),
    /// From -8 to 8.
    MemberPriority(u32, i32),
}

/// Describes a group of a device. `None` is the one that `GPUPOOL_SHARE` names. The caller need not be a member. Since
/// 0.2.
///
/// ```no_run
/// # fn main() -> gpupool::Result<()> {
/// for member in gpupool::share_info(Some("team"), "cuda:0".parse()?)?.members {
///     println!("{}: {} bytes", member.name, member.reserved_bytes);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `InvalidArgument` for what is no name of a group, and no such device; `Unavailable` if there is no such group, or its
/// region cannot be used.
pub fn share_info(group: Option<&str>, device: Device) -> Result<ShareGroup> {
    let mut share =
        sys::gpupool_share_t { struct_size: size_of::<sys::gpupool_share_t>() as u32, ..Default::default() };
    let mut members = Vec::new();
    let mut count = 0;
    // Between counting and filling, others may join.
    loop {
        members.resize(count, sys::gpupool_share_member_t::default());
        on_group(group, |name| {
            // SAFETY: the struct says how long it is; the list is as long, and its elements as large, as the call says.
            unsafe {
                sys::gpupool_share_info(
                    name,
                    device.backend.to_c(),
                    device.number,
                    &mut share,
                    members.as_mut_ptr(),
                    size_of::<sys::gpupool_share_member_t>(),
                    members.len(),
                    &mut count,
                )
            }
        })?;
        if count <= members.len() {
            break;
        }
    }
    members.truncate(count);
    Ok(ShareGroup {
        limit_bytes: share.limit_bytes,
        used_bytes: share.used_bytes,
        total_bytes: share.total_bytes,
        limbo_bytes: share.limbo_bytes,
        foreign_bytes: share.foreign_bytes,
        path: text(&share.path),
        members: members.iter().map(ShareMember::from).collect(),
    })
}

/// Sets a figure of a group of a device, named as for [`share_info`], or of one of its members. A limit below what is
/// used takes nothing away. Since 0.2.
///
/// # Errors
/// `InvalidArgument` for no such member, and a value out of range; `OverLimit` if the group cannot guarantee that;
/// `Unavailable` if there is no such group, or the member does not answer.
pub fn share_set(group: Option<&str>, device: Device, figure: ShareFigure) -> Result<()> {
    // Bytes above i64::MAX are refused as the largest are.
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let (what, slot, value) = match figure {
        ShareFigure::Limit(bytes) => (sys::GPUPOOL_SHARE_FIGURE_LIMIT, 0, signed(bytes)),
        ShareFigure::MemberLimit(slot, bytes) => {
            (sys::GPUPOOL_SHARE_FIGURE_MEMBER_LIMIT, slot, signed(bytes))
        }
        ShareFigure::MemberGuarantee(slot, bytes) => {
            (sys::GPUPOOL_SHARE_FIGURE_MEMBER_GUARANTEE, slot, signed(bytes))
        }
        ShareFigure::MemberPriority(slot, priority) => {
            (sys::GPUPOOL_SHARE_FIGURE_MEMBER_PRIORITY, slot, i64::from(priority))
        }
    };
    on_group(group, |name| {
        // SAFETY: the name ends with a zero.
        unsafe {
            sys::gpupool_share_set(name, device.backend.to_c(), device.number, what.0 as i32, slot, value)
        }
    })
}

/// Takes back what dead members have left, corrects the used bytes of a group, named as for [`share_info`], and returns
/// by how much they were too high. Since 0.2.
///
/// # Errors
/// `InvalidArgument`; `Unavailable` if there is no such group.
pub fn share_repair(group: Option<&str>, device: Device) -> Result<i64> {
    let mut off = 0;
    on_group(group, |name| {
        // SAFETY: the name ends with a zero, and the out-parameter is a local.
        unsafe { sys::gpupool_share_repair(name, device.backend.to_c(), device.number, &mut off) }
    })?;
    Ok(off)
}

/// Calls a function with the name for C: null for the environment's group.
fn on_group(group: Option<&str>, call: impl FnOnce(*const c_char) -> sys::gpupool_status_t) -> Result<()> {
    library::check_version()?;
    let name = group.map(|name| c_text("group", name)).transpose()?;
    check(call(name.as_ref().map_or(ptr::null(), |name| name.as_ptr())))
}

impl From<&sys::gpupool_share_member_t> for ShareMember {
    fn from(member: &sys::gpupool_share_member_t) -> ShareMember {
        ShareMember {
            slot: member.slot,
            is_in_limbo: member.state == sys::GPUPOOL_SHARE_MEMBER_STATE_LIMBO.0 as i32,
            pid: member.pid,
            uid: member.uid,
            priority: member.priority,
            want_bytes: (member.is_waiting != 0).then_some(member.want_bytes),
            reserved_bytes: member.reserved_bytes,
            charged_bytes: member.charged_bytes,
            live_bytes: member.live_bytes,
            guaranteed_bytes: member.guaranteed_bytes,
            limit_bytes: member.limit_bytes,
            given_bytes: member.given_bytes,
            taken_bytes: member.taken_bytes,
            name: text(&member.name),
        }
    }
}
