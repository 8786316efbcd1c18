// SPDX-License-Identifier: Apache-2.0
//! The C functions of [gpupool](https://docs.rs/gpupool), as bindgen reads them from `gpupool.h`.
//!
//! Programs want the crate `gpupool`, which is safe; this one is for what it does not cover. The comments are
//! the header's. Numbers of enums arrive as newtypes, so that a number which this version does not know is no
//! undefined behaviour.
#![no_std]

#[rustfmt::skip]
#[allow(
    non_camel_case_types,
    rustdoc::broken_intra_doc_links,
    clippy::doc_lazy_continuation,
    clippy::doc_overindented_list_items
)]
mod bindings;

pub use bindings::*;

/// For gpupool_free: "any stream that this pool has seen may still be using the block".
pub const GPUPOOL_STREAM_UNKNOWN: gpupool_stream_t = gpupool_stream_t::MAX;
