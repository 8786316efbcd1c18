// SPDX-License-Identifier: Apache-2.0
//! The program of tests/gpu/one_card.py in Rust: obeys "become BYTES LARGEST SEED" and "work TIMES SEED", a line each;
//! answers "ok NANOSECONDS", or what went wrong.
//!
//!     one_card DEVICE      sim, cuda:0 and so on

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use gpupool::{Block, Pool, Stream};

const MIB: u64 = 1 << 20;
type Outcome = Result<(), Box<dyn std::error::Error>>;

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Random blocks, each filled with a byte of its own.
struct WorkingSet {
    stream: Stream,
    live: Vec<(Block, u8)>,
    bytes: u64,
}

impl WorkingSet {
    fn take(&mut self, size: u64, numbers: &mut Numbers) -> Outcome {
        let byte = 1 + numbers.below(255) as u8;
        let mut block = self.stream.block(size)?;
        block.fill(byte)?;
        self.live.push((block, byte));
        self.bytes += size;
        Ok(())
    }

    /// Returns the size of what is gone.
    fn drop_one(&mut self, numbers: &mut Numbers) -> Result<u64, Box<dyn std::error::Error>> {
        let which = numbers.below(self.live.len() as u64) as usize;
        let (block, byte) = self.live.swap_remove(which);
        let size = block.bytes();
        let mut last = [0u8];
        block.read(size - 1, &mut last)?;
        self.bytes -= size;
        if last[0] == byte {
            Ok(size)
        } else {
            Err("wrong bytes".into())
        }
    }

    fn become_as_large_as(&mut self, wanted: u64, largest: u64, numbers: &mut Numbers) -> Outcome {
        while self.bytes > wanted {
            self.drop_one(numbers)?;
        }
        while self.bytes < wanted {
            let size = (1 + numbers.below(largest / MIB)) * MIB;
            self.take(size.min(wanted - self.bytes), numbers)?;
        }
        Ok(())
    }

    fn work(&mut self, times: u64, numbers: &mut Numbers) -> Outcome {
        for _ in 0..if self.live.is_empty() { 0 } else { times } {
            let size = self.drop_one(numbers)?;
            self.take(size, numbers)?;
        }
        Ok(())
    }

    fn obey(&mut self, line: &str) -> Outcome {
        let mut words = line.split_whitespace();
        let word = words.next().unwrap_or_default();
        let given: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>()?;
        match (word, &given[..]) {
            ("become", &[wanted, largest, seed]) => {
                self.become_as_large_as(wanted, largest, &mut Numbers(seed))?
            }
            ("work", &[times, seed]) => self.work(times, &mut Numbers(seed))?,
            _ => return Err("no such command".into()),
        }
        Ok(self.stream.synchronize()?)
    }
}

fn main() -> Outcome {
    let device = std::env::args().nth(1).unwrap_or("cuda:0".into());
    let wait = Duration::from_secs(5); // a busy machine may be late
    let pool = Pool::builder().device(device.as_str()).share_wait(wait).build()?;
    let mut set = WorkingSet { stream: pool.create_stream()?, live: Vec::new(), bytes: 0 };
    for line in std::io::stdin().lock().lines() {
        let start = Instant::now();
        match set.obey(&line?) {
            Ok(()) => println!("ok {}", start.elapsed().as_nanos()),
            Err(error) => println!("failed {}", error.to_string().replace('\n', " ")),
        }
        std::io::stdout().flush()?;
    }
    Ok(())
}
