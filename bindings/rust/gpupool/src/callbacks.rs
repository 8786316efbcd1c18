// SPDX-License-Identifier: Apache-2.0
//! Closures as the library's callbacks. A panic must not cross into C, so each is caught and becomes "no".

use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, PoisonError, RwLock};

use gpupool_sys as sys;

use crate::StreamId;

pub(crate) type OomHandler = dyn Fn(u64, u32) -> bool + Send + Sync;

/// Holds a pool's handler. It stays for ever, because the library may be about to call the old handler while it is
/// replaced.
#[derive(Default)]
pub(crate) struct OomSlot(RwLock<Option<Arc<OomHandler>>>);

impl OomSlot {
    pub(crate) fn set(&self, handler: Option<Arc<OomHandler>>) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *current, handler);
        drop(current); // what the old handler owns may call the pool when it is dropped
        drop(old);
    }

    pub(crate) fn as_user(&'static self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// # Safety
    /// `user` is what `as_user` returned.
    pub(crate) unsafe extern "C" fn ask(
        user: *mut c_void,
        _pool: *mut sys::gpupool_t,
        size: u64,
        attempt: u32,
    ) -> i32 {
        // SAFETY: the caller says so, and slots stay for ever.
        let slot = unsafe { &*user.cast::<OomSlot>() };
        let current = slot.0.read().unwrap_or_else(PoisonError::into_inner);
        let handler = current.clone();
        drop(current); // the handler may replace itself
        let answer =
            catch_unwind(AssertUnwindSafe(move || handler.is_some_and(|handler| handler(size, attempt))));
        answer.unwrap_or(false).into()
    }
}

pub(crate) type SleepHook = dyn Fn(u64) -> bool + Send + Sync;

/// Holds a pool's hooks around sleep. It stays for ever, as an [`OomSlot`] does.
#[derive(Default)]
pub(crate) struct HookSlot(RwLock<Option<(Arc<SleepHook>, Arc<SleepHook>)>>);

impl HookSlot {
    pub(crate) fn set(&self, hooks: Option<(Arc<SleepHook>, Arc<SleepHook>)>) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *current, hooks);
        drop(current); // what the old hooks own may call the pool when it is dropped
        drop(old);
    }

    pub(crate) fn as_user(&'static self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Without hooks, nobody refuses.
    fn call(&self, is_before: bool, address: u64) -> i32 {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let hook = current.as_ref().map(|(before, after)| if is_before { before } else { after }.clone());
        drop(current); // the hook may replace itself
        let answer = catch_unwind(AssertUnwindSafe(move || hook.map_or(true, |hook| hook(address))));
        answer.unwrap_or(false).into()
    }

    /// # Safety
    /// `user` is what `as_user` returned.
    pub(crate) unsafe extern "C" fn before_release(
        user: *mut c_void,
        _pool: *mut sys::gpupool_t,
        address: u64,
    ) -> i32 {
        // SAFETY: the caller says so, and slots stay for ever.
        unsafe { &*user.cast::<HookSlot>() }.call(true, address)
    }

    /// # Safety
    /// `user` is what `as_user` returned.
    pub(crate) unsafe extern "C" fn after_map(
        user: *mut c_void,
        _pool: *mut sys::gpupool_t,
        address: u64,
    ) -> i32 {
        // SAFETY: the caller says so, and slots stay for ever.
        unsafe { &*user.cast::<HookSlot>() }.call(false, address)
    }
}

pub(crate) type UpstreamMalloc = dyn Fn(u64, StreamId) -> Option<u64> + Send + Sync;
pub(crate) type UpstreamFree = dyn Fn(u64, u64, StreamId) + Send + Sync;

/// Where the memory of a pool of mode upstream comes from.
pub(crate) struct Upstream {
    pub(crate) malloc: Box<UpstreamMalloc>,
    pub(crate) free: Box<UpstreamFree>,
}

impl Upstream {
    pub(crate) fn as_user(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// # Safety
    /// `user` is what `as_user` returned for an upstream that still exists.
    pub(crate) unsafe extern "C" fn malloc(
        user: *mut c_void,
        size: u64,
        stream: sys::gpupool_stream_t,
        out_ptr: *mut sys::gpupool_ptr_t,
    ) -> i32 {
        // SAFETY: the caller says so.
        let upstream = unsafe { &*user.cast::<Upstream>() };
        let answer =
            catch_unwind(AssertUnwindSafe(|| (upstream.malloc)(size, StreamId::from_number(stream))));
        match answer {
            Ok(Some(address)) => {
                // SAFETY: the library's out-parameter.
                unsafe { out_ptr.write(address) };
                0
            }
            Ok(None) | Err(_) => 1,
        }
    }

    /// # Safety
    /// As malloc.
    pub(crate) unsafe extern "C" fn free(
        user: *mut c_void,
        ptr: sys::gpupool_ptr_t,
        size: u64,
        stream: sys::gpupool_stream_t,
    ) {
        // SAFETY: the caller says so.
        let upstream = unsafe { &*user.cast::<Upstream>() };
        let _ = catch_unwind(AssertUnwindSafe(|| {
            (upstream.free)(ptr, size, StreamId::from_number(stream));
        }));
    }
}
