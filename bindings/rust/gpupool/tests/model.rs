// SPDX-License-Identifier: Apache-2.0
//! Random sequences of calls, beside a model that adds up what statistics must say.

use std::collections::BTreeMap;

use gpupool::{Backend, Block, Pool, Stream};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Malloc { bytes: u64, stream: usize },
    Free { which: usize },
    FreeOn { which: usize, stream: usize },
    FreeOnAll { which: usize },
    Record { which: usize, stream: usize },
    Synchronize,
    Empty,
    Trim { bytes: u64 },
}

const STREAMS: usize = 3;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![0..2048u64, 1..4u64 << 20, 1..64u64 << 20];
    let step = prop_oneof![
        8 => (bytes, 0..STREAMS).prop_map(|(bytes, stream)| Step::Malloc { bytes, stream }),
        4 => any::<usize>().prop_map(|which| Step::Free { which }),
        1 => (any::<usize>(), 0..STREAMS).prop_map(|(which, stream)| Step::FreeOn { which, stream }),
        1 => any::<usize>().prop_map(|which| Step::FreeOnAll { which }),
        1 => (any::<usize>(), 0..STREAMS).prop_map(|(which, stream)| Step::Record { which, stream }),
        1 => Just(Step::Synchronize),
        1 => Just(Step::Empty),
        1 => (0..128u64 << 20).prop_map(|bytes| Step::Trim { bytes }),
    ];
    prop::collection::vec(step, 1..120)
}

/// What must be true of the pool.
#[derive(Default)]
struct Model {
    requested: u64,
    allocated: u64,
    blocks: u64,
    peak: u64,
    freed: u64,
}

impl Model {
    fn malloc(&mut self, bytes: u64) {
        self.requested += bytes;
        self.allocated += bytes.next_multiple_of(512);
        self.blocks += u64::from(bytes > 0);
        self.peak = self.peak.max(self.allocated);
    }

    fn free(&mut self, bytes: u64) {
        self.requested -= bytes;
        self.allocated -= bytes.next_multiple_of(512);
        self.blocks -= u64::from(bytes > 0);
        self.freed += bytes.next_multiple_of(512);
    }

    fn check(&self, pool: &Pool, blocks: &[Block<&Stream>]) {
        let all = pool.stats().unwrap().all;
        assert_eq!(all.requested_bytes.current, self.requested);
        assert_eq!(all.allocated_bytes.current, self.allocated);
        assert_eq!(all.allocated_bytes.peak, self.peak);
        assert_eq!(all.allocated_bytes.total_freed, self.freed);
        assert_eq!(all.allocated_blocks.current, self.blocks);
        assert!(all.active_bytes.current >= self.allocated);
        assert!(all.reserved_bytes.current >= all.active_bytes.current);
        let places: BTreeMap<u64, u64> =
            blocks.iter().filter(|b| b.bytes() > 0).map(|b| (b.address(), b.address() + b.bytes())).collect();
        assert_eq!(places.len() as u64, self.blocks);
        assert!(places.values().zip(places.keys().skip(1)).all(|(end, next)| end <= next));
    }
}

fn run(steps: Vec<Step>) {
    let pool = Pool::builder().backend(Backend::Sim).build().unwrap();
    let streams: Vec<Stream> = (0..STREAMS).map(|_| pool.create_stream().unwrap()).collect();
    let mut blocks: Vec<Block<&Stream>> = Vec::new();
    let mut model = Model::default();
    for step in steps {
        let place = |which: usize| if blocks.is_empty() { None } else { Some(which % blocks.len()) };
        match step {
            Step::Malloc { bytes, stream } => {
                blocks.push(Block::new(&streams[stream], bytes).unwrap());
                model.malloc(bytes);
            }
            Step::Record { which, stream } => {
                if let Some(place) = place(which) {
                    blocks[place].record_stream(&streams[stream]).unwrap();
                }
            }
            Step::Free { which } | Step::FreeOn { which, .. } | Step::FreeOnAll { which } => {
                let Some(place) = place(which) else { continue };
                let block = blocks.swap_remove(place);
                model.free(block.bytes());
                match step {
                    Step::FreeOn { stream, .. } => block.free_on(&streams[stream]).unwrap(),
                    Step::FreeOnAll { .. } => block.free_on_all().unwrap(),
                    _ => drop(block),
                }
            }
            Step::Synchronize => pool.synchronize().unwrap(),
            Step::Empty => drop(pool.empty().unwrap()),
            Step::Trim { bytes } => drop(pool.trim(bytes).unwrap()),
        }
        model.check(&pool, &blocks);
    }
    pool.validate().unwrap();
    drop(blocks);
    pool.empty().unwrap();
    assert_eq!(pool.stats().unwrap().all.reserved_bytes.current, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]
    #[test]
    fn statistics_follow_the_calls(steps in steps()) {
        run(steps);
    }
}
