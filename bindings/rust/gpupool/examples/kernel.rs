// SPDX-License-Identifier: Apache-2.0
//! A kernel of one's own on a pool's memory: PTX, which the driver compiles for the GPU that is there. The simulated
//! device has no kernels, so there the host does the same. (With the feature `cudarc`, that crate loads and launches.)

use std::error::Error;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::mem::transmute_copy;
use std::ptr::{addr_of_mut, null_mut};

use gpupool::{device_info, Backend, Pool, PoolVec};

const SCALE: &CStr = c"
.version 6.0
.target sm_50
.address_size 64
.visible .entry scale(.param .u64 numbers, .param .f32 factor, .param .u32 count) {
  .reg .pred %outside;
  .reg .f32 %f<3>;
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [numbers];
  ld.param.f32 %f1, [factor];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4;
  setp.ge.u32 %outside, %r2, %r1;
  @%outside bra done;
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r2, 4;
  add.u64 %rd1, %rd1, %rd2;
  ld.global.f32 %f2, [%rd1];
  mul.f32 %f2, %f2, %f1;
  st.global.f32 [%rd1], %f2;
done:
  ret;
}
";

extern "C" {
    fn dlopen(file: *const c_char, mode: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A function of the driver, which the pool has loaded already.
///
/// # Safety
/// `F` is its type.
unsafe fn driver<F: Copy>(name: &CStr) -> Result<F, String> {
    const RTLD_NOW: c_int = 2;
    // SAFETY: both get strings that end.
    let found = unsafe {
        let library = dlopen(c"libcuda.so.1".as_ptr(), RTLD_NOW);
        if library.is_null() {
            library
        } else {
            dlsym(library, name.as_ptr())
        }
    };
    if found.is_null() {
        return Err(format!("the driver has no {name:?}"));
    }
    // SAFETY: an address of a function of that type.
    Ok(unsafe { transmute_copy(&found) })
}

fn check(result: c_int, name: &str) -> Result<(), String> {
    if result == 0 {
        Ok(())
    } else {
        Err(format!("{name} gives {result}"))
    }
}

type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
type SetCurrent = unsafe extern "C" fn(*mut c_void) -> c_int;
type Load = unsafe extern "C" fn(*mut *mut c_void, *const c_char) -> c_int;
type Get = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const c_char) -> c_int;
type Launch = unsafe extern "C" fn(
    *mut c_void,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
) -> c_int;

/// Queues the kernel on the array's stream, in the context that the pool uses: the device's primary one.
fn scale_on_gpu(device: i32, numbers: &mut PoolVec<f32>, mut factor: f32) -> Result<(), String> {
    let (mut context, mut module, mut function) = (null_mut(), null_mut(), null_mut());
    let (mut address, mut count) = (numbers.address(), numbers.len() as u32);
    let mut arguments: [*mut c_void; 3] =
        [addr_of_mut!(address).cast(), addr_of_mut!(factor).cast(), addr_of_mut!(count).cast()];
    let stream = numbers.block().stream().id().number() as *mut c_void;
    // SAFETY: the functions have these types; the kernel touches what is in the array only, on the array's stream.
    unsafe {
        check(
            driver::<Retain>(c"cuDevicePrimaryCtxRetain")?(&mut context, device),
            "cuDevicePrimaryCtxRetain",
        )?;
        check(driver::<SetCurrent>(c"cuCtxSetCurrent")?(context), "cuCtxSetCurrent")?;
        check(driver::<Load>(c"cuModuleLoadData")?(&mut module, SCALE.as_ptr()), "cuModuleLoadData")?;
        let name = c"scale".as_ptr();
        check(driver::<Get>(c"cuModuleGetFunction")?(&mut function, module, name), "cuModuleGetFunction")?;
        let launch = driver::<Launch>(c"cuLaunchKernel")?;
        let blocks = count.div_ceil(256);
        let result = launch(function, blocks, 1, 1, 256, 1, 1, 0, stream, arguments.as_mut_ptr(), null_mut());
        check(result, "cuLaunchKernel")
    }
}

fn scale_on_host(numbers: &mut PoolVec<f32>, factor: f32) -> gpupool::Result<()> {
    let scaled: Vec<f32> = numbers.to_vec()?.iter().map(|number| number * factor).collect();
    numbers.copy_from_slice(&scaled)
}

fn main() -> Result<(), Box<dyn Error>> {
    let stream = Pool::new()?.create_stream()?;
    let numbers: Vec<f32> = (0..1000).map(|number| number as f32).collect();
    let mut array = stream.vec_from(&numbers)?;
    let info = device_info(Backend::Auto, 0)?;
    if info.backend == Backend::Cuda {
        scale_on_gpu(info.device, &mut array, 1.5)?; // the copy back waits for it, on the same stream
    } else {
        println!("the simulated device has no kernels: the host scales");
        scale_on_host(&mut array, 1.5)?;
    }
    let expected: Vec<f32> = numbers.iter().map(|number| number * 1.5).collect();
    assert_eq!(array.to_vec()?, expected);
    println!("{} numbers scaled on {}", array.len(), info.name);
    Ok(())
}
