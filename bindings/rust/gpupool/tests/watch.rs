// SPDX-License-Identifier: Apache-2.0
//! Tags and recordings. A recording is of the whole process, so one test makes all of them.

use gpupool::{mark, record_start, record_stop, Backend, Block, ErrorKind, Pool, Result, Stream, Tag};

const MIB: u64 = 1 << 20;

#[test]
fn holders_are_told_by_the_innermost_tag() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).build()?;
    let stream = pool.create_stream()?;
    let outer = Tag::new("weights")?;
    let inner = Tag::new("kv cache")?;
    let block = stream.block(512 * MIB)?;
    drop(inner);
    let other = stream.block(256 * MIB)?;
    drop(outer);
    let tags: Vec<String> = pool.holders()?.into_iter().map(|holder| holder.tag).collect();
    assert_eq!(tags, ["kv cache", "weights"]);
    drop((block, other));
    assert!(pool.holders()?.is_empty());
    for name in ["", "a\0b", &"x".repeat(64)] {
        assert_eq!(Tag::new(name).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    Ok(())
}

// Not the last call, so that the function has a frame.
#[inline(never)]
fn load_weights(pool: &Pool, stream: &Stream) -> Result<Block> {
    let block = stream.block(768 * MIB)?;
    pool.stats()?;
    Ok(block)
}

#[test]
fn frames_have_their_functions_names() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).limit_bytes(1 << 30).build()?;
    let stream = pool.create_stream()?;
    let block = load_weights(&pool, &stream)?;
    let holders = pool.holders()?;
    let lines: Vec<&str> = holders[0].stack.lines().collect();
    assert!(lines[0].starts_with("watch::load_weights+0x"), "{lines:#?}");
    assert!(lines[1].starts_with("watch::frames_have_their_functions_names+0x"), "{lines:#?}");
    assert!(pool.report()?.contains(" from watch::load_weights+0x"));
    let refused = stream.block(512 * MIB).unwrap_err().to_string();
    assert!(refused.contains("Most is held by:\n  768.00 MiB from watch::load_weights+0x"), "{refused}");
    drop(block);
    Ok(())
}

#[test]
fn a_recording_has_its_marks_and_is_not_written_over_a_file() -> Result<()> {
    let path = std::env::temp_dir().join(format!("gpupool_{}.gpt", std::process::id()));
    let path = path.to_str().expect("a path in UTF-8");
    record_start(path, false)?;
    let again = record_start(&format!("{path}2"), false);
    assert_eq!(again.unwrap_err().kind(), ErrorKind::InvalidArgument);
    mark("step 12")?;
    record_stop()?;
    assert_eq!(record_stop().unwrap_err().kind(), ErrorKind::InvalidArgument);
    mark("nobody listens")?;
    let bytes = std::fs::read(path).expect("the recording");
    assert!(bytes.windows(7).any(|text| text == b"step 12"));
    assert_eq!(record_start(path, false).unwrap_err().kind(), ErrorKind::InvalidArgument);
    std::fs::remove_file(path).expect("the recording can be removed");
    Ok(())
}
