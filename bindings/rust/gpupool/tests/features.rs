// SPDX-License-Identifier: Apache-2.0
//! What the optional crates bring.

use bytemuck::Zeroable;
use gpupool::{Backend, Pool, Result, Snapshot, Stats};
use half::{bf16, f16};

#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C)]
struct Particle {
    place: [f32; 3],
    charge: i32,
}

gpupool::pod!(Particle);

#[test]
fn types_of_bytemuck_go_to_the_device() -> Result<()> {
    let stream = Pool::builder().backend(Backend::Sim).build()?.create_stream()?;
    let source = [Particle { place: [1.0, 2.0, 3.0], charge: -1 }, Particle::zeroed()];
    let mut particles = stream.vec_from(&source)?;
    assert_eq!(particles.to_vec()?, source);
    particles.slice_mut(1..)?.copy_from_slice(&source[..1])?;
    assert_eq!(particles.to_vec()?, [source[0]; 2]);
    let pairs = stream.vec_from(&[source])?;
    assert_eq!(pairs.to_vec()?, [source]);
    Ok(())
}

#[test]
fn halves_go_to_the_device() -> Result<()> {
    let stream = Pool::builder().backend(Backend::Sim).build()?.create_stream()?;
    let source = [f16::from_f32(1.5), f16::MAX];
    assert_eq!(stream.vec_from(&source)?.to_vec()?, source);
    let source = [[bf16::from_f32(1.5); 2]; 3];
    assert_eq!(stream.vec_from(&source)?.to_vec()?, source);
    Ok(())
}

#[test]
fn what_a_pool_tells_is_serialised_with_the_names_of_c() -> Result<()> {
    let pool = Pool::builder().device("sim:2").limit("1GiB").build()?;
    let stream = pool.create_stream()?;
    let _block = stream.block(1000)?;
    let stats = pool.stats()?;
    let text = serde_json::to_value(stats).unwrap();
    assert_eq!(text["limit_bytes"], 1 << 30);
    assert_eq!(text["all"]["requested_bytes"]["current"], 1000);
    assert_eq!(text["driver"]["set_access"]["count"], 1);
    assert_eq!(serde_json::from_value::<Stats>(text).unwrap(), stats);

    let snapshot = pool.snapshot()?;
    let text = serde_json::to_value(&snapshot).unwrap();
    assert_eq!(text["blocks"][0]["stream"], stream.id().number());
    assert_eq!(text["blocks"][0]["state"], "live");
    assert_eq!(serde_json::from_value::<Snapshot>(text).unwrap(), snapshot);

    let info = serde_json::to_value(pool.device_info()?).unwrap();
    assert_eq!((&info["backend"], &info["device"]), (&"sim".into(), &2.into()));
    Ok(())
}
