// SPDX-License-Identifier: Apache-2.0
// libtorch on a pool, in Rust, as with the crate tch. The library comes from `python -m gpupool.libtorch /opt/libtorch`:
//     rustc main.rs -L . -l gpupool_libtorch
extern "C" {
    fn gpupool_torch_install() -> i32;
}

fn main() {
    // Before the first tensor on a GPU: tch::Device::Cuda(0) comes after this.
    if unsafe { gpupool_torch_install() } != 0 {
        eprintln!("PyTorch has an allocator in use already");
        std::process::exit(1);
    }
    println!("gpupool");
}
