// SPDX-License-Identifier: Apache-2.0
//! Threads that share a pool, and blocks that travel between them.

use std::sync::mpsc;
use std::thread;

use gpupool::{Backend, Block, Pool, PoolVec, Result, Stream};

const THREADS: usize = 4;
const ROUNDS: u64 = 500;

#[test]
fn threads_share_a_pool() -> Result<()> {
    let pool = Pool::builder().backend(Backend::Sim).build()?;
    let shared = pool.create_stream()?;
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (pool, shared) = (&pool, &shared);
            scope.spawn(move || {
                let own = pool.create_stream().unwrap();
                for round in 0..ROUNDS {
                    let kept = Block::new(&own, 1 + round * 997 % (1 << 20)).unwrap();
                    let array = own_array(shared, number as u32 + 1);
                    drop((kept, array));
                }
            });
        }
    });
    let stats = pool.stats()?;
    assert_eq!(stats.all.allocated_blocks.current, 0);
    assert_eq!(stats.all.allocated_blocks.total_allocated, THREADS as u64 * ROUNDS * 2);
    pool.validate()
}

/// An array whose content is this thread's for as long as it lives.
fn own_array(stream: &Stream, number: u32) -> PoolVec<u32> {
    let array = stream.vec_from(&[number; 64]).unwrap();
    assert_eq!(array.to_vec().unwrap(), [number; 64]);
    array
}

#[test]
fn blocks_are_freed_where_they_end_up_even_after_the_pool() -> Result<()> {
    let (sender, blocks) = mpsc::channel::<Block>();
    let consumer = thread::spawn(move || blocks.into_iter().map(|block| block.bytes()).sum::<u64>());
    {
        let stream = Pool::builder().backend(Backend::Sim).build()?.create_stream()?;
        for round in 0..ROUNDS {
            sender.send(stream.block(round)?).expect("the consumer is there");
        }
    } // pool and stream are gone here, but for the blocks on their way
    drop(sender);
    assert_eq!(consumer.join().expect("no panic"), ROUNDS * (ROUNDS - 1) / 2);
    Ok(())
}
