// SPDX-License-Identifier: Apache-2.0
//! Parts of arrays.

use gpupool::{Backend, ErrorKind, Pool, PoolSlice, Result, Stream};

fn stream() -> Stream {
    Pool::builder().backend(Backend::Sim).build().unwrap().create_stream().unwrap()
}

#[test]
fn parts_are_read_and_written() -> Result<()> {
    let stream = stream();
    let mut array = stream.vec_from(&[0u32, 1, 2, 3, 4, 5, 6, 7])?;
    let part = array.slice(2..=5)?;
    assert_eq!((part.len(), part.is_empty(), part.address()), (4, false, array.address() + 8));
    assert_eq!(part.to_vec()?, [2, 3, 4, 5]);
    assert_eq!(part.slice(1..)?.slice(..2)?.to_vec()?, [3, 4]);
    assert_eq!(part.slice(4..)?.to_vec()?, []);
    assert_eq!(array.slice(..)?.stream().id(), stream.id());

    array.slice_mut(6..)?.copy_from_slice(&[60, 70])?;
    array.as_mut_slice().slice_mut(..1)?.fill_bytes(0xff)?;
    assert_eq!(array.to_vec()?, [u32::MAX, 1, 2, 3, 4, 5, 60, 70]);
    let mut two = [0; 2];
    array.slice(6..)?.copy_to_slice(&mut two)?;
    assert_eq!(two, [60, 70]);
    Ok(())
}

#[test]
fn halves_are_written_at_the_same_time() -> Result<()> {
    let stream = stream();
    let mut array = stream.alloc_zeros::<u16>(6)?;
    assert_eq!(array.to_vec()?, [0; 6]);
    let (left, right) = array.split_at(2)?;
    assert_eq!((left.len(), right.len()), (2, 4));

    let (mut left, right) = array.split_at_mut(2)?;
    let (mut middle, mut right) = right.split_at_mut(2)?;
    left.copy_from_slice(&[1, 2])?;
    right.copy_from(&left.as_slice())?;
    middle.fill_bytes(1)?;
    assert_eq!(array.to_vec()?, [1, 2, 0x101, 0x101, 1, 2]);
    Ok(())
}

#[test]
fn parts_are_copied_between_streams() -> Result<()> {
    let ours = stream();
    let theirs = ours.pool().create_stream()?;
    let source = theirs.vec_from(&[1u8, 2, 3])?;
    let mut array = ours.alloc_zeros::<u8>(3)?;
    array.slice_mut(..2)?.copy_from(&source.slice(1..)?)?;
    drop(source); // is there until the copy has been made
    assert_eq!(array.to_vec()?, [2, 3, 0]);

    let foreign = stream().vec_from(&[1u8])?;
    let refused = array.slice_mut(..1)?.copy_from(&foreign.as_slice()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.message().contains("belongs to another pool"), "{refused}");
    Ok(())
}

#[test]
fn ranges_outside_are_refused_in_words() -> Result<()> {
    let mut array = stream().vec_from(&[1u64, 2, 3])?;
    let says = |result: Result<PoolSlice<'_, u64>>, words: &str| {
        let failure = result.unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::InvalidArgument);
        assert_eq!(failure.message(), words);
    };
    says(array.slice(2..5), "elements 2..5 are not inside an array of 3");
    says(array.slice(4..), "elements 4..3 are not inside an array of 3");
    #[allow(clippy::reversed_empty_ranges)]
    says(array.slice(2..1), "elements 2..1 are not inside an array of 3");
    says(array.slice(..=usize::MAX), &format!("elements 0..{} are not inside an array of 3", usize::MAX));
    assert!(array.split_at(4).is_err());
    assert!(array.slice_mut(..2)?.copy_from_slice(&[1]).is_err());
    assert!(array.slice_mut(..2)?.split_at_mut(3).is_err());
    assert_eq!(array.to_vec()?, [1, 2, 3]);
    Ok(())
}

#[test]
fn nothing_has_parts_too() -> Result<()> {
    let mut nothing = stream().alloc_zeros::<u64>(0)?;
    assert_eq!(nothing.slice(..)?.to_vec()?, []);
    nothing.slice_mut(0..0)?.fill_bytes(1)?;
    let (left, right) = nothing.split_at(0)?;
    assert!(left.is_empty() && right.is_empty());
    Ok(())
}
