// SPDX-License-Identifier: Apache-2.0
//! Runs scenario files: steps, and what statistics they lead to. Every language runs the same files and prints
//! the same lines. It deals in addresses and numbers of streams, as allocator plug-ins do.
//!
//! cargo run --example scenario FILE...

use std::collections::{BTreeMap, HashMap};

use gpupool::{sim, Backend, Kind, Mode, Pool, Stats, Stream, StreamId};
use serde_json::{json, Map, Value};

/// The result of a step: an address, if it has one.
type Outcome = gpupool::Result<Option<u64>>;
/// Why a scenario stops.
type Failure = String;

const GROUPS: [&str; 3] = ["all", "large", "small"];
const COUNTERS: [&str; 12] = [
    "limit_bytes",
    "cached_bytes",
    "releasable_bytes",
    "slack_bytes",
    "hits",
    "misses",
    "steals",
    "stream_steals",
    "retries",
    "oom_handler_calls",
    "failed_mallocs",
    "streams",
];

struct Block {
    address: u64,
    stream: StreamId,
}

struct Runner {
    simulated: bool,
    blocks: HashMap<String, Block>,
    saved: HashMap<String, u64>,
    streams: HashMap<String, Stream>,
    pools: BTreeMap<String, Pool>,
    destroyed: Vec<String>,
}

impl Runner {
    fn run(scenario: &Value) -> Result<Value, Failure> {
        if let Some(capacity) = scenario["sim"]["capacity_bytes"].as_u64() {
            let config =
                sim::Config { data: sim::Data::None, capacity_bytes: capacity, ..Default::default() };
            sim::configure(7, &config).map_err(|error| error.to_string())?;
        }
        let mut runner = Runner {
            simulated: scenario.get("sim").is_some(),
            blocks: HashMap::new(),
            saved: HashMap::new(),
            streams: HashMap::new(),
            pools: BTreeMap::new(),
            destroyed: Vec::new(),
        };
        for (index, step) in scenario["steps"].as_array().ok_or("there are no steps")?.iter().enumerate() {
            runner.step(step).map_err(|failure| format!("step {}: {step}: {failure}", index + 1))?;
        }
        let mut pools = Map::new();
        for name in runner.pools.keys().filter(|name| !runner.destroyed.contains(name)) {
            pools.insert(name.clone(), runner.summary(name)?);
        }
        Ok(json!({"name": scenario["name"], "pools": pools}))
    }

    /// A step, as often as it says, and what it should lead to.
    fn step(&mut self, step: &Value) -> Result<(), Failure> {
        let range = match step.get("for") {
            None => (0, 1, 1),
            Some(range) => (number(&range[0])?, number(&range[1])?, number(&range[2])?),
        };
        let expected = step["expect"]["status"].as_str().unwrap_or("GPUPOOL_SUCCESS");
        for index in (range.0..range.1).step_by(range.2 as usize) {
            let outcome = self.perform(step, index)?;
            let (status, words) = match &outcome {
                Ok(_) => ("GPUPOOL_SUCCESS", ""),
                Err(error) => (error.status_name(), error.message()),
            };
            if status != expected {
                return Err(format!("expected {expected}, found {status}: {words}"));
            }
            if index + range.2 >= range.1 {
                self.check_words(step, words)?;
                self.check_address(step, outcome.ok().flatten())?;
            }
        }
        self.check_stats(step)?;
        for (name, path) in entries(&step["save"]) {
            let value = self.stat(text(&step["pool"])?, text(path)?)?;
            self.saved.insert(name.clone(), value);
        }
        Ok(())
    }

    fn perform(&mut self, step: &Value, index: u64) -> Result<Outcome, Failure> {
        let name = text(&step["pool"])?;
        if step["op"] == "create" {
            return self.create(name, step);
        }
        let pool = self.pools.get(name).ok_or("the pool is unknown")?.clone();
        let done = |result: gpupool::Result<()>| result.map(|()| None);
        let block = step["block"].as_str().unwrap_or("").replace('#', &index.to_string());
        // SAFETY: one thread runs, addresses are only numbers here, and streams of a scenario stay until they
        // are destroyed.
        Ok(unsafe {
            match text(&step["op"])? {
                "destroy" => {
                    let result = pool.destroy();
                    if result.is_ok() {
                        self.destroyed.push(name.into());
                    }
                    done(result)
                }
                "stream" => pool.create_stream().map(|stream| {
                    self.streams.insert(step["stream"].to_string(), stream);
                    None
                }),
                "destroy_stream" => {
                    self.streams.remove(&step["stream"].to_string()).ok_or("the stream is unknown")?;
                    Ok(None)
                }
                "malloc" => self.malloc(&pool, step, block)?.map(Some),
                "free" => self.free(&pool, step, &block)?.map(|()| None),
                "record_stream" => done(pool.record_stream(self.block(&block)?.address, self.stream(step)?)),
                "release_stream" => done(pool.release_stream(self.stream(step)?)),
                "synchronize" => done(pool.synchronize()),
                "empty" => pool.empty().map(|_| None),
                "reset_peaks" => done(pool.reset_peaks()),
                "validate" => done(pool.validate()),
                "trim" => pool.trim(self.size(&step["target_bytes"])?).map(|_| None),
                "reserve" => {
                    let stream = match step.get("stream") {
                        None => pool.default_stream(),
                        Some(name) => self.streams[&name.to_string()].clone(),
                    };
                    done(stream.reserve(self.size(&step["target_bytes"])?))
                }
                "set_fraction" => done(pool.set_fraction(step["fraction"].as_f64().unwrap_or(f64::NAN))),
                "set_limit" => done(pool.set_limit(self.size(&step["limit_bytes"])?)),
                "look" => Ok(None),
                other => return Err(format!("unknown op {other}")),
            }
        })
    }

    fn create(&mut self, name: &str, step: &Value) -> Result<Outcome, Failure> {
        let mut builder = Pool::builder();
        if self.simulated {
            builder = builder.backend(Backend::Sim).device(7);
        }
        for (key, value) in entries(step) {
            builder = match (key.as_str(), value.as_str()) {
                ("fraction", _) => builder.fraction(value.as_f64().unwrap_or(f64::NAN)),
                ("slack", _) => builder.slack(value.as_f64().unwrap_or(f64::NAN)),
                ("limit_bytes", _) => builder.limit_bytes(self.size(value)?),
                ("max_chunk_bytes", _) => builder.max_chunk_bytes(self.size(value)?),
                ("mode", Some("vmm")) => builder.mode(Mode::Vmm),
                ("mode", Some("driver")) => builder.mode(Mode::Driver),
                ("kind", Some("device")) => builder.kind(Kind::Device),
                ("kind", Some("pinned")) => builder.kind(Kind::Pinned),
                ("kind", Some("managed")) => builder.kind(Kind::Managed),
                ("op" | "pool" | "expect" | "save", _) => builder,
                _ => return Err(format!("unknown: {key} {value}")),
            }
        }
        Ok(builder.build().map(|pool| {
            self.destroyed.retain(|destroyed| destroyed != name);
            self.pools.insert(name.into(), pool);
            None
        }))
    }

    /// # Safety
    /// The step's stream exists.
    unsafe fn malloc(
        &mut self,
        pool: &Pool,
        step: &Value,
        block: String,
    ) -> Result<gpupool::Result<u64>, Failure> {
        let stream = self.stream(step)?;
        let bytes = self.size(&step["size"])?;
        // SAFETY: the caller says so.
        let outcome = unsafe {
            match step.get("alignment") {
                None => pool.malloc(bytes, stream),
                Some(alignment) => pool.malloc_aligned(bytes, number(alignment)?, stream),
            }
        };
        let address = *outcome.as_ref().unwrap_or(&0);
        self.blocks.insert(block, Block { address, stream });
        Ok(outcome)
    }

    /// # Safety
    /// The step's stream exists, and nobody uses the block.
    unsafe fn free(&self, pool: &Pool, step: &Value, block: &str) -> Result<gpupool::Result<()>, Failure> {
        let (address, own) = match step.get("address") {
            Some(address) => (number(address)?, StreamId::DEFAULT),
            None => {
                let block = self.block(block)?;
                (block.address + step["offset"].as_u64().unwrap_or(0), block.stream)
            }
        };
        let stream = if step.get("stream").is_some() { self.stream(step)? } else { own };
        // SAFETY: the caller says so.
        Ok(unsafe { pool.free(address, stream) })
    }

    fn block(&self, name: &str) -> Result<&Block, Failure> {
        self.blocks.get(name).ok_or_else(|| format!("block {name} is unknown"))
    }

    fn stream(&self, step: &Value) -> Result<StreamId, Failure> {
        match step.get("stream") {
            None => Ok(StreamId::DEFAULT),
            Some(name) if name == "unknown" => Ok(StreamId::UNKNOWN),
            Some(name) => {
                let stream = self.streams.get(&name.to_string());
                stream.map(Stream::id).ok_or_else(|| format!("stream {name} is unknown"))
            }
        }
    }

    /// A number of bytes, or a part of the device's memory.
    fn size(&self, size: &Value) -> Result<u64, Failure> {
        let Some(part) = size["of_total"].as_f64() else { return number(size) };
        let (backend, device) = if self.simulated { (Backend::Sim, 7) } else { (Backend::Auto, 0) };
        let info = gpupool::device_info(backend, device).map_err(|error| error.to_string())?;
        Ok((part * info.total_bytes as f64).floor() as u64 / 512 * 512)
    }

    fn stat(&self, pool: &str, path: &str) -> Result<u64, Failure> {
        let pool = self.pools.get(pool).ok_or("the pool is unknown")?;
        if path == "device.free_bytes" {
            return pool.device_info().map(|info| info.free_bytes).map_err(|error| error.to_string());
        }
        let stats = to_json(&pool.stats().map_err(|error| error.to_string())?);
        let value = stats.pointer(&format!("/{}", path.replace('.', "/")));
        number(value.ok_or_else(|| format!("{path} is no statistic"))?)
    }

    fn check_stats(&self, step: &Value) -> Result<(), Failure> {
        for (path, expected) in entries(&step["expect"]["stats"]) {
            let found = self.stat(text(&step["pool"])?, path)?;
            let (min, max) = match expected.get("min").or(expected.get("max")) {
                None => (Some(self.value(expected)?), Some(self.value(expected)?)),
                Some(_) => (
                    expected.get("min").map(|min| self.value(min)).transpose()?,
                    expected.get("max").map(|max| self.value(max)).transpose()?,
                ),
            };
            if min.is_some_and(|min| found < min) || max.is_some_and(|max| found > max) {
                return Err(format!("{path}: expected {expected}, found {found}"));
            }
        }
        Ok(())
    }

    /// A number, or one that was saved and something more or less.
    fn value(&self, value: &Value) -> Result<u64, Failure> {
        let Some(name) = value["saved"].as_str() else { return number(value) };
        let saved = *self.saved.get(name).ok_or_else(|| format!("nothing is saved as {name}"))?;
        let plus = value["plus"].as_i64().unwrap_or(0);
        saved.checked_add_signed(plus).ok_or_else(|| format!("{value} is out of range"))
    }

    fn check_words(&self, step: &Value, words: &str) -> Result<(), Failure> {
        match step["expect"]["message_contains"].as_str() {
            Some(part) if !words.contains(part) => {
                Err(format!("expected a message with '{part}', found '{words}'"))
            }
            _ => Ok(()),
        }
    }

    fn check_address(&self, step: &Value, found: Option<u64>) -> Result<(), Failure> {
        let expect = &step["expect"];
        let mut holds = true;
        if let Some(other) = expect["same_address"].as_str() {
            holds &= found == Some(self.block(other)?.address);
        }
        if let Some(other) = expect["other_address"].as_str() {
            holds &= found.is_some() && found != Some(self.block(other)?.address);
        }
        if let Some(is_zero) = expect["address_zero"].as_bool() {
            holds &= found.is_some_and(|found| (found == 0) == is_zero);
        }
        if holds {
            Ok(())
        } else {
            Err(format!("expected {expect}, found address {found:?}"))
        }
    }

    /// The statistics that are printed at the end.
    fn summary(&self, pool: &str) -> Result<Value, Failure> {
        let stats = self.pools[pool].stats().map_err(|error| error.to_string())?;
        let all = to_json(&stats);
        let mut summary = Map::new();
        for group in GROUPS {
            for (quantity, stat) in entries(&all[group]) {
                for (part, value) in entries(stat) {
                    summary.insert(format!("{group}.{quantity}.{part}"), value.clone());
                }
            }
        }
        for counter in COUNTERS {
            summary.insert(counter.into(), all[counter].clone());
        }
        for (kind, calls) in stats.driver.by_kind() {
            summary.insert(format!("driver.{kind}.count"), calls.count.into());
        }
        Ok(summary.into())
    }
}

impl Drop for Runner {
    /// A pool with live blocks would stay, and keep its simulated device from the next scenario.
    fn drop(&mut self) {
        for pool in self.pools.values() {
            for block in self.blocks.values() {
                // SAFETY: nobody uses the block. Most are freed already, which the pool says.
                let _ = unsafe { pool.free(block.address, StreamId::UNKNOWN) };
            }
        }
    }
}

macro_rules! fields {
    ($of:expr, $convert:expr; $($field:ident)*) => {
        Value::from(Map::from_iter([$((stringify!($field).to_string(), $convert($of.$field))),*]))
    };
}

fn to_json(stats: &Stats) -> Value {
    let stat = |stat: gpupool::Stat| fields!(stat, Value::from; current peak total_allocated total_freed);
    let group = |group: gpupool::StatGroup| {
        fields!(group, stat; requested_bytes allocated_bytes active_bytes reserved_bytes allocated_blocks
            active_blocks chunks)
    };
    let mut all = fields!(stats, Value::from; limit_bytes cached_bytes releasable_bytes slack_bytes hits misses
        steals stream_steals retries oom_handler_calls failed_mallocs streams metadata_bytes);
    for (name, value) in entries(&fields!(stats, group; all large small)) {
        all[name] = value.clone();
    }
    for (kind, calls) in stats.driver.by_kind() {
        all["driver"][kind] = json!({"count": calls.count, "nanoseconds": calls.nanoseconds});
    }
    all
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn number(value: &Value) -> Result<u64, Failure> {
    value.as_u64().ok_or_else(|| format!("{value} is no number"))
}

fn text(value: &Value) -> Result<&str, Failure> {
    value.as_str().ok_or_else(|| format!("{value} is no text"))
}

fn run_file(file: &str) -> Result<Value, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let scenario = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    Runner::run(&scenario)
}

fn main() {
    let mut failures = 0;
    for file in std::env::args().skip(1) {
        match run_file(&file) {
            Ok(line) => println!("{line}"),
            Err(failure) => {
                eprintln!("{file}: {failure}");
                failures += 1;
            }
        }
    }
    std::process::exit(i32::from(failures > 0));
}
