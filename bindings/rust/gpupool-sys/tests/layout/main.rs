// SPDX-License-Identifier: Apache-2.0
//! The committed bindings say what the header says, and belong to the library that is loaded. The first is
//! proven by compiling this file.

use std::ffi::{c_char, c_void};
use std::mem::{offset_of, size_of};

use gpupool_sys::*;

/// A field has this type and stands there.
macro_rules! field {
    ($structure:ty, $field:ident: $type:ty, at $offset:literal) => {
        const _: () = assert!(offset_of!($structure, $field) == $offset);
        const _: fn(&$structure) -> &$type = |structure| &structure.$field;
    };
}

include!("generated.rs");

#[test]
fn the_loaded_library_has_the_version_of_the_bindings() {
    // SAFETY: it takes nothing and never fails.
    let loaded = unsafe { gpupool_version() };
    assert_eq!(loaded / 100, GPUPOOL_VERSION / 100);
}
