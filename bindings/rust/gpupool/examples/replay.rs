// SPDX-License-Identifier: Apache-2.0
//! Replays a recorded workload, twice, and prints the figures that `gpupool replay --json` prints.
//!
//! cargo run --release --example replay TRACE.gz

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::time::Instant;

use flate2::read::GzDecoder;
use gpupool::{device_info, sim, Backend, Block, Pool, Stream};

/// One event: a malloc of `bytes` into a slot of the table of live blocks, or None for a free of it.
struct Event {
    slot: usize,
    malloc: Option<(u64, usize)>,
}

/// The events, the number of streams, the slots, and the slots that are live at the end.
#[derive(Default)]
struct Trace {
    events: Vec<Event>,
    streams: HashMap<u64, usize>,
    slots: usize,
    leftovers: Vec<usize>,
    peak_live_bytes: u64,
}

fn read_trace(path: &str) -> Result<Trace, Box<dyn Error>> {
    let mut trace = Trace::default();
    let mut live: HashMap<u64, (usize, u64)> = HashMap::new();
    let (mut spare, mut live_bytes) = (Vec::new(), 0);
    for line in BufReader::new(GzDecoder::new(std::fs::File::open(path)?)).lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        let kind = words.next().filter(|kind| !kind.starts_with('#'));
        let Some(kind) = kind else { continue };
        let numbers = words.map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        match (kind, numbers.as_slice()) {
            ("a", &[id, bytes, stream]) => {
                let next_stream = trace.streams.len();
                let stream = *trace.streams.entry(stream).or_insert(next_stream);
                let slot = spare.pop().unwrap_or(trace.slots);
                trace.slots = trace.slots.max(slot + 1);
                if live.insert(id, (slot, bytes)).is_some() {
                    return Err(format!("block {id} is allocated again before it is freed").into());
                }
                live_bytes += bytes.next_multiple_of(512);
                trace.peak_live_bytes = trace.peak_live_bytes.max(live_bytes);
                trace.events.push(Event { slot, malloc: Some((bytes, stream)) });
            }
            ("f", &[id]) => {
                let (slot, bytes) = live.remove(&id).ok_or("a block is freed that is not live")?;
                live_bytes -= bytes.next_multiple_of(512);
                spare.push(slot);
                trace.events.push(Event { slot, malloc: None });
            }
            _ => return Err(format!("not understood: {line}").into()),
        }
    }
    trace.leftovers = live.into_values().map(|(slot, _)| slot).collect();
    trace.leftovers.sort_unstable();
    Ok(trace)
}

/// Plays all events, a block in its slot for as long as it lives. Returns the nanoseconds.
fn play(trace: &Trace, streams: &[Stream]) -> gpupool::Result<f64> {
    let mut blocks: Vec<Option<Block<&Stream>>> = Vec::new();
    blocks.resize_with(trace.slots, || None);
    let start = Instant::now();
    for event in &trace.events {
        blocks[event.slot] = match event.malloc {
            Some((bytes, stream)) => Some(Block::new(&streams[stream], bytes)?),
            None => None, // frees the block
        };
    }
    let elapsed = start.elapsed().as_secs_f64() * 1e9;
    for &slot in &trace.leftovers {
        blocks[slot] = None;
    }
    Ok(elapsed)
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("which trace?")?;
    let trace = read_trace(&path)?;
    let device = device_info(Backend::Auto, 0)?;
    let kind = if device.backend == Backend::Sim { "sim" } else { "cuda" };
    if device.backend == Backend::Sim {
        sim::configure(0, &sim::Config { data: sim::Data::None, ..Default::default() })?;
    }
    let pool = Pool::builder().backend(device.backend).build()?;
    let streams = (0..trace.streams.len()).map(|_| pool.create_stream());
    let streams = streams.collect::<gpupool::Result<Vec<Stream>>>()?;

    let mut columns: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut ns_per_event = Vec::new();
    for _ in 0..2 {
        let before = pool.stats()?;
        ns_per_event.push(play(&trace, &streams)? / trace.events.len() as f64);
        let after = pool.stats()?;
        let calls = after.driver.total().count - before.driver.total().count;
        columns.entry("driver_calls").or_default().push(calls);
        columns.entry("hits").or_default().push(after.hits - before.hits);
        columns.entry("misses").or_default().push(after.misses - before.misses);
        columns.entry("steals").or_default().push(after.steals - before.steals);
    }
    let name = path.rsplit('/').next().unwrap_or(&path);
    let mut line = serde_json::json!({
        "language": "rust",
        "device": format!("{kind}:{}", device.device),
        "trace": name.trim_end_matches(".gz").trim_end_matches(".trace"),
        "events": trace.events.len(),
        "ns_per_event": ns_per_event,
        "peak_live_bytes": trace.peak_live_bytes,
        "peak_reserved_bytes": pool.stats()?.all.reserved_bytes.peak,
    });
    for (name, values) in columns {
        line[name] = values.into();
    }
    println!("{line}");
    Ok(())
}
