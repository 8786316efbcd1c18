// SPDX-License-Identifier: Apache-2.0
//! Sizes, devices, pools and errors in words.

use gpupool::{sim, Backend, Device, Error, ErrorKind, Limit, Pool, PoolVec, Result, StreamId};

#[test]
fn limits() -> Result<()> {
    for (text, limit) in [
        ("4096", Limit::Bytes(4096)),
        ("8GiB", Limit::Bytes(8 << 30)),
        ("2 GB", Limit::Bytes(2_000_000_000)),
        ("40%", Limit::Share(0.4)),
    ] {
        assert_eq!(text.parse::<Limit>()?, limit);
    }
    sim::configure(1, &sim::Config { capacity_bytes: 1 << 30, ..Default::default() })?;
    let limit_of = |pool: &Pool| pool.stats().unwrap().limit_bytes;
    let pool = Pool::builder().device("sim:1").limit("50%").build()?;
    assert_eq!(limit_of(&pool), 1 << 29);
    pool.set_limit_to("16 MiB")?;
    assert_eq!(limit_of(&pool), 16 << 20);
    pool.set_limit_to(Limit::Share(0.25))?;
    assert_eq!(limit_of(&pool), 1 << 28);
    pool.set_limit_to(32u64 << 20)?;
    assert_eq!(limit_of(&pool), 32 << 20);
    assert_eq!(pool.set_limit_to("much").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(limit_of(&pool), 32 << 20);
    Ok(())
}

#[test]
fn devices() -> Result<()> {
    for (text, backend, number) in [
        ("cuda", Backend::Cuda, 0),
        ("cuda:1", Backend::Cuda, 1),
        ("sim:3", Backend::Sim, 3),
        ("auto", Backend::Auto, 0),
        ("5", Backend::Auto, 5),
    ] {
        assert_eq!(text.parse::<Device>()?, Device { backend, number });
    }
    let device_of = |pool: Pool| pool.device_info().map(|info| (info.backend, info.device));
    assert_eq!(device_of(Pool::builder().device("sim:2").build()?)?, (Backend::Sim, 2));
    assert_eq!(device_of(Pool::builder().backend(Backend::Sim).device("3").build()?)?, (Backend::Sim, 3));
    assert_eq!(device_of(Pool::builder().device(4).backend(Backend::Sim).build()?)?, (Backend::Sim, 4));
    let sim = Device { backend: Backend::Sim, number: 5 };
    assert_eq!(device_of(Pool::builder().device(sim).build()?)?, (Backend::Sim, 5));
    Ok(())
}

/// An error names the argument, its value and what is allowed.
#[test]
fn mistakes() -> Result<()> {
    let pool = Pool::builder().device("sim").build()?;
    let stream = pool.create_stream()?;
    let builder = Pool::builder;
    let says = |kind: ErrorKind, failure: Error, words: &str| {
        assert_eq!(failure.kind(), kind, "{failure}");
        assert!(failure.message().contains(words), "{failure}");
    };
    let invalid = |failure: Error, words: &str| says(ErrorKind::InvalidArgument, failure, words);
    invalid(builder().device("sim:99").build().unwrap_err(), "no device 99");
    invalid(builder().device("gpu").build().unwrap_err(), "\"gpu\"");
    invalid(builder().device("sim\0").build().unwrap_err(), "device is \"sim\\0\", with a zero inside");
    invalid(
        builder().limit("8 bananas").build().unwrap_err(),
        "limit is \"8 bananas\", not a size such as 4096",
    );
    invalid(builder().limit("140%").limit("1GiB").build().unwrap_err(), "140%");
    invalid(builder().fraction(50.0).build().unwrap_err(), "fraction is 50, not in");
    invalid(stream.malloc_aligned(10, 3).unwrap_err(), "alignment is 3, not a power of two");
    invalid(sim::script(1, "map:1\0").unwrap_err(), "script is \"map:1\\0\"");
    invalid(
        stream.block(3)?.write(2, &[0u32]).unwrap_err(),
        "4 bytes at 2 are not inside a block of 3 bytes",
    );
    // SAFETY: it is refused, and nothing is used.
    invalid(unsafe { pool.malloc(10, StreamId::from_number(2)) }.unwrap_err(), "stream 2");
    // SAFETY: it is refused.
    invalid(unsafe { pool.release_capture(0) }.unwrap_err(), "0 is the number of no capture");

    let shortage = |failure: Error, words: &str| says(ErrorKind::OutOfMemory, failure, words);
    shortage(stream.block(1 << 50).unwrap_err(), "1125899906842624");
    shortage(stream.block(u64::MAX).unwrap_err(), "18446744073709551615");
    let most = usize::MAX;
    let words = format!("{most} elements of 8 bytes are more than any device has");
    shortage(PoolVec::<u64>::new(stream, most).unwrap_err(), &words);
    Ok(())
}

/// What a failing `main`, or a panic of `unwrap`, prints.
#[test]
fn debugging() -> Result<()> {
    let pool = Pool::builder().device("sim").limit("64MiB").build()?;
    let failure = pool.default_stream().block(1 << 30).unwrap_err();
    assert_eq!(format!("{failure:?}"), format!("OverLimit: {}", failure.message()));
    let _block = pool.default_stream().block(1000)?;
    let words = "Pool { device: sim:0, reserved_bytes: 2097152, limit_bytes: 67108864, live_blocks: 1 }";
    assert_eq!(format!("{pool:?}"), words);
    // SAFETY: nobody else uses the pool.
    unsafe { pool.destroy() }?;
    assert_eq!(format!("{pool:?}"), "Pool { failure: InvalidArgument: the pool has been destroyed }");
    Ok(())
}
