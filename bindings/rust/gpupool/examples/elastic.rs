// SPDX-License-Identifier: Apache-2.0
//! Memory that goes and comes back: a trainer and a server on one card, several models on one card, and a session that
//! gives its memory back while nobody uses it.
//!
//! cargo run --example elastic [IDLE_SECONDS]

use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use gpupool::{sleep_tag, wake_tag, Block, Pool, Result, SleepMode, SleepOptions, SleepState, WakeOptions};

const MIB: u64 = 1 << 20;

fn patient() -> WakeOptions {
    WakeOptions { timeout: Duration::from_secs(5), ..Default::default() }
}

/// A pool with a name, and a block in it.
fn named(name: &str, bytes: u64) -> Result<(Pool, Block)> {
    let pool = Pool::builder().build()?;
    pool.set_name(name)?;
    let block = pool.default_stream().block(bytes)?;
    Ok((pool, block))
}

/// What a program does with its memory.
fn work(block: &mut Block, value: u8) -> Result<()> {
    block.fill(value)?;
    block.stream().synchronize()
}

/// A step swaps two programs' worth of memory: weights must come back as they were, the cache is rebuilt anyway.
fn reinforcement_learning(steps: u8) -> Result<()> {
    let (_weights, mut parameters) = named("weights", 16 * MIB)?;
    let (_cache, mut pages) = named("kv_cache", 64 * MIB)?;
    let (_trainer, mut state) = named("trainer", 48 * MIB)?;
    let save = SleepOptions::default();
    let drop = SleepOptions { mode: SleepMode::Drop, ..save };
    for step in 0..steps {
        // SAFETY: this thread alone uses the memory, and no work is queued that does.
        let (slept, dropped) =
            unsafe { (sleep_tag(Some("weights"), &save)?, sleep_tag(Some("kv_cache"), &drop)?) };
        wake_tag(Some("trainer"), &patient())?;
        work(&mut state, step)?; // trains
                                 // SAFETY: as above.
        unsafe { sleep_tag(Some("trainer"), &save)? };
        wake_tag(Some("weights"), &patient())?;
        work(&mut parameters, step)?; // the new weights, before the cache takes its room
        wake_tag(Some("kv_cache"), &patient())?;
        work(&mut pages, 0)?; // serves
        let given_back = slept.released_bytes + dropped.released_bytes;
        println!("step {step}: the trainer had {} MiB more", given_back / MIB);
    }
    wake_tag(None, &patient())?;
    Ok(())
}

/// Each model has a pool, and one of them is awake: that of the last request.
fn several_models(count: usize, requests: usize) -> Result<()> {
    let mut models = Vec::new();
    for number in 0..count {
        let model = named(&format!("model {number}"), 80 * MIB)?;
        // SAFETY: nothing uses the memory.
        unsafe { model.0.sleep(&SleepOptions::default())? };
        models.push(model);
    }
    let mut awake = None;
    for request in 0..requests {
        let wanted = request * 3 % count;
        if awake != Some(wanted) {
            if let Some(last) = awake {
                let (last, _): &(Pool, Block) = &models[last];
                // SAFETY: its requests are answered.
                unsafe { last.sleep(&SleepOptions::default())? };
            }
            let woken = models[wanted].0.wake(&WakeOptions { retain_backup: true, ..patient() })?;
            println!("request {request}: model {wanted} is back with {} MiB", woken.saved_bytes / MIB);
            awake = Some(wanted);
        }
        work(&mut models[wanted].1, request as u8)?; // answers
    }
    for (pool, _) in &models {
        pool.wake(&patient())?;
    }
    Ok(())
}

/// Puts a pool to sleep when nobody has worked for a while. Mallocs of other threads wait meanwhile.
struct Idle {
    pool: Arc<Pool>,
    after: Duration,
    waiting: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Idle {
    /// Before work.
    fn begin(&mut self) -> Result<()> {
        if let Some((stop, thread)) = self.waiting.take() {
            drop(stop);
            thread.join().expect("the thread does not panic");
        }
        self.pool.wake(&patient()).map(|_| ())
    }

    /// After it.
    fn end(&mut self) {
        let (stop, stopped) = channel();
        let (pool, after) = (Arc::clone(&self.pool), self.after);
        let thread = std::thread::spawn(move || {
            if stopped.recv_timeout(after) == Err(RecvTimeoutError::Timeout) {
                let quietly = SleepOptions { sync_context: true, hold_mallocs: true, ..Default::default() };
                // SAFETY: between end() and begin() nobody uses the memory.
                if let Err(error) = unsafe { pool.sleep(&quietly) } {
                    println!("the memory stays: {error}");
                }
            }
        });
        self.waiting = Some((stop, thread));
    }
}

fn session(after: Duration) -> Result<()> {
    let (pool, mut block) = named("notebook", 200 * MIB)?;
    let pool = Arc::new(pool);
    let mut idle = Idle { pool: Arc::clone(&pool), after, waiting: None };
    idle.begin()?;
    work(&mut block, 7)?;
    idle.end();
    println!("someone works: {} MiB are reserved", pool.stats()?.all.reserved_bytes.current / MIB);
    while pool.sleep_state()? != SleepState::Asleep {
        std::thread::sleep(after / 10);
    }
    println!("nobody does: {} MiB are reserved", pool.stats()?.all.reserved_bytes.current / MIB);
    idle.begin()?;
    work(&mut block, 8)
}

fn main() -> Result<()> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0.2);
    reinforcement_learning(3)?;
    several_models(4, 8)?;
    session(Duration::from_secs_f64(seconds))
}
