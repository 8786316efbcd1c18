// SPDX-License-Identifier: Apache-2.0
//! Each status that can be provoked arrives as its kind, with words, and changes nothing.

use gpupool::{device_info, features, sim, Backend, Error, ErrorKind, Kind, Mode, Pool, StreamId};

fn sim_pool(device: i32) -> Pool {
    Pool::builder().backend(Backend::Sim).device(device).build().unwrap()
}

fn expect(error: Error, kind: ErrorKind, words: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.message().contains(words), "{error}");
}

#[test]
fn invalid_argument() {
    let no_device = Pool::builder().backend(Backend::Sim).device(99).build().unwrap_err();
    expect(no_device, ErrorKind::InvalidArgument, "99");
    for fraction in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let failure = sim_pool(0).set_fraction(fraction).unwrap_err();
        expect(failure, ErrorKind::InvalidArgument, "fraction");
        let failure = Pool::builder().backend(Backend::Sim).fraction(fraction).build().unwrap_err();
        expect(failure, ErrorKind::InvalidArgument, "fraction");
    }
    expect(device_info(Backend::Sim, -1).unwrap_err(), ErrorKind::InvalidArgument, "-1");
}

#[test]
fn a_destroyed_pool() {
    let pool = sim_pool(0);
    let stream = pool.default_stream();
    let block = stream.block(100).unwrap();
    // SAFETY: this is the only thread that uses the pool.
    unsafe { pool.destroy() }.unwrap();
    expect(stream.block(100).unwrap_err(), ErrorKind::InvalidArgument, "destroyed");
    expect(pool.stats().unwrap_err(), ErrorKind::InvalidArgument, "destroyed");
    // SAFETY: as above.
    expect(unsafe { pool.destroy() }.unwrap_err(), ErrorKind::InvalidArgument, "destroyed");
    block.free().unwrap();
}

#[test]
fn out_of_memory_and_over_limit() {
    sim::configure(2, &sim::Config { capacity_bytes: 64 << 20, ..Default::default() }).unwrap();
    let pool = sim_pool(2);
    let stream = pool.default_stream();
    let failure = stream.block(1 << 30).unwrap_err();
    assert!(failure.is_out_of_memory());
    expect(failure, ErrorKind::OutOfMemory, "64.00 MiB");
    pool.set_limit(8 << 20).unwrap();
    let failure = stream.block(16 << 20).unwrap_err();
    assert!(failure.is_out_of_memory());
    assert_eq!(failure.status_name(), "GPUPOOL_ERROR_OVER_LIMIT");
    expect(failure, ErrorKind::OverLimit, "limit");
    assert!(stream.block(u64::MAX).is_err());
    assert_eq!(pool.stats().unwrap().all.allocated_bytes.current, 0);
}

#[test]
fn unknown_pointer() {
    let pool = sim_pool(0);
    let address = pool.default_stream().malloc(4096).unwrap();
    // SAFETY: nobody uses the block.
    let free = |address| unsafe { pool.free(address, StreamId::DEFAULT) };
    expect(free(0x1234).unwrap_err(), ErrorKind::UnknownPointer, "0x1234");
    expect(free(address + 512).unwrap_err(), ErrorKind::UnknownPointer, "");
    free(address).unwrap();
    expect(free(address).unwrap_err(), ErrorKind::UnknownPointer, "freed");
    expect(pool.block_info(address).unwrap_err(), ErrorKind::UnknownPointer, "freed");
    free(0).unwrap();
    pool.validate().unwrap();
}

#[test]
fn unavailable_or_there() {
    match Pool::builder().backend(Backend::Cuda).build() {
        Ok(_) => assert!(features().cuda),
        Err(failure) => expect(failure, ErrorKind::Unavailable, "CUDA"),
    }
}

#[test]
fn unsupported() {
    let pinned = Pool::builder().backend(Backend::Sim).kind(Kind::Pinned).mode(Mode::Vmm).build();
    expect(pinned.unwrap_err(), ErrorKind::Unsupported, "");
    sim::configure(1, &sim::Config { data: sim::Data::None, ..Default::default() }).unwrap();
    let failure = sim_pool(1).default_stream().vec_from(&[1u8]).unwrap_err();
    expect(failure, ErrorKind::Unsupported, "data");
}

#[test]
fn driver() {
    let pool = sim_pool(3);
    let stream = pool.create_stream().unwrap();
    sim::script(3, "create:*").unwrap();
    let failure = stream.block(1 << 20).unwrap_err();
    assert_ne!(failure.driver_code(), 0);
    expect(failure, ErrorKind::Driver, "");
    sim::script(3, "").unwrap();
    stream.block(1 << 20).unwrap();
}

extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

#[test]
fn forked() {
    let pool = sim_pool(4);
    let stream = pool.default_stream();
    let block = stream.block(1 << 20).unwrap();
    // SAFETY: the child allocates little and leaves at once.
    unsafe {
        let child = fork();
        if child == 0 {
            let kind = stream.block(1).map(drop).map_err(|error| error.kind());
            drop((block, stream, pool));
            _exit(i32::from(kind != Err(ErrorKind::Forked)));
        }
        let mut status = -1;
        assert_eq!(waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0);
    }
}
