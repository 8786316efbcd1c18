// SPDX-License-Identifier: Apache-2.0
//! Mapped memory and its contents.

use gpupool_sys as sys;

use crate::StreamId;

/// A pool at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Snapshot {
    /// Mapped memory, sorted by address.
    pub segments: Vec<Segment>,
    /// Blocks in it, sorted by address.
    pub blocks: Vec<BlockInfo>,
}

/// Mapped memory: a chunk at its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Segment {
    /// The address where it is mapped.
    pub address: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// The stream whose heap it backs.
    pub stream: StreamId,
    /// Blocks that touch it. 0: [`Pool::empty`](crate::Pool::empty) would give it back.
    pub blocks: u32,
    /// In a heap of small blocks.
    pub is_small: bool,
}

impl From<sys::gpupool_segment_t> for Segment {
    fn from(segment: sys::gpupool_segment_t) -> Segment {
        let sys::gpupool_segment_t { address, size_bytes, stream, blocks, is_small } = segment;
        Segment {
            address,
            size_bytes,
            stream: StreamId::from_number(stream),
            blocks,
            is_small: is_small != 0,
        }
    }
}

/// A block of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct BlockInfo {
    /// The start address.
    pub address: u64,
    /// The requested size in bytes.
    pub requested_bytes: u64,
    /// The same, rounded up to a multiple of 512.
    pub allocated_bytes: u64,
    /// The stream it belongs to.
    pub stream: StreamId,
    /// Whether it is in use.
    pub state: BlockState,
    /// Number of its device.
    pub device: i32,
}

/// State of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum BlockState {
    /// Handed out.
    Live,
    /// Freed, but a stream may still be using it.
    Pending,
    /// Free to hand out.
    Cached,
    /// A state that this version of the crate does not know.
    Unknown,
}

impl From<sys::gpupool_block_t> for BlockInfo {
    fn from(block: sys::gpupool_block_t) -> BlockInfo {
        let sys::gpupool_block_t { address, requested_bytes, allocated_bytes, stream, state, device } = block;
        BlockInfo {
            address,
            requested_bytes,
            allocated_bytes,
            stream: StreamId::from_number(stream),
            state: match sys::gpupool_block_state_t(state as u32) {
                sys::GPUPOOL_BLOCK_LIVE => BlockState::Live,
                sys::GPUPOOL_BLOCK_PENDING => BlockState::Pending,
                sys::GPUPOOL_BLOCK_CACHED => BlockState::Cached,
                _ => BlockState::Unknown,
            },
            device,
        }
    }
}
