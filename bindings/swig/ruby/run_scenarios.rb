# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# Runs tests/scenario files: run_scenarios.rb FILE... Every language's runner prints the same.
require "gpupool"
require "json"

# A step that did not come out as expected.
class Unexpected < StandardError
  def initialize(what, expected, found)
    super("#{what}: expected #{expected}, found #{found}")
  end
end

class Scenario
  SIM_DEVICE = 7
  ADDRESSES_ONLY = 2
  OPTIONS = %w[fraction limit_bytes slack max_chunk_bytes mode kind].freeze
  PATHS = [
    %w[all large small].product(
      %w[requested_bytes allocated_bytes active_bytes reserved_bytes allocated_blocks active_blocks chunks],
      %w[current peak total_allocated total_freed]
    ),
    %w[create release map set_access unmap address malloc free event_record query stream_wait host_wait]
      .map { |call| ["driver", call, "count"] },
    %w[limit_bytes cached_bytes releasable_bytes slack_bytes hits misses steals stream_steals retries
       oom_handler_calls failed_mallocs streams].map { |field| [field] }
  ].flatten(1).map { |parts| parts.join(".") }.sort.freeze

  def initialize(scenario)
    @scenario = scenario
    @pools = {}
    @streams = {}
    @blocks = {} # name => [address, stream]
    @saved = {}
    @sim = scenario["sim"]
    GpuPool.configure_sim(SIM_DEVICE, data: ADDRESSES_ONLY, **@sim.transform_keys(&:to_sym)) if @sim
  end

  # Yields each step's number, from 1, and the step, before it is done.
  def run
    @scenario["steps"].each.with_index(1) do |step, number|
      yield number, step
      do_step(step)
    end
    figures = @pools.sort.to_h { |name, pool| [name, PATHS.to_h { |path| [path, statistic(pool, path)] }] }
    puts JSON.generate({ "name" => @scenario["name"], "pools" => figures })
  end

  def close
    @streams.each_value(&:close)
    @pools.each_value(&:close)
  end

  private

  def do_step(step)
    expect = step.fetch("expect", {})
    wanted = expect.fetch("status", "GPUPOOL_SUCCESS")
    from, to, by = step.fetch("for", [0, 1, 1])
    message = block = nil
    from.step(to - 1, by) do |i|
      block = step["block"]&.gsub("#", i.to_s)
      status, message = status_of { perform(step, block) }
      raise Unexpected.new("status", wanted, "#{status} #{message}") unless status == wanted
    end
    check(step, expect, block, message)
    step.fetch("save", {}).each { |name, path| @saved[name] = statistic(@pools[step["pool"]], path) }
  end

  def status_of
    yield
    ["GPUPOOL_SUCCESS", ""]
  rescue GpuPool::Error => e
    [e.status_name, e.message]
  end

  def perform(step, block)
    pool = @pools[step["pool"]]
    case step["op"]
    when "create" then @pools[step["pool"]] = create(step)
    when "destroy" then @pools.delete(step["pool"]).close
    when "stream" then @streams[step["stream"]] = pool.create_stream
    when "destroy_stream" then @streams.delete(step["stream"]).close
    when "malloc" then malloc(pool, step, block)
    when "free" then free(pool, step, block)
    when "record_stream" then pool.record_stream(@blocks[block].first, stream(step, 0))
    when "release_stream" then pool.release_stream(stream(step, 0))
    when "synchronize", "empty", "reset_peaks", "validate" then pool.public_send(step["op"])
    when "trim" then pool.trim(size(step["target_bytes"]))
    when "reserve" then pool.reserve(size(step["target_bytes"]), stream(step, 0))
    when "set_fraction" then pool.fraction = step["fraction"]
    when "set_limit" then pool.limit_bytes = size(step["limit_bytes"])
    when "look" then nil
    else raise ArgumentError, "unknown op in #{step}"
    end
  end

  def create(step)
    options = step.slice(*OPTIONS).to_h do |option, value|
      [option.to_sym, value.is_a?(String) ? value.to_sym : value]
    end
    options.update(backend: :sim, device: SIM_DEVICE) if @sim
    GpuPool::Pool.new(**options)
  end

  def malloc(pool, step, block)
    bytes = size(step["size"])
    stream = stream(step, 0)
    address = if step.key?("alignment")
                pool.malloc_aligned(bytes, step["alignment"], stream)
              else
                pool.malloc(bytes, stream)
              end
    @blocks[block] = [address, stream]
  end

  def free(pool, step, block)
    return pool.free(step["address"]) unless block

    address, stream = @blocks[block]
    pool.free(address + step.fetch("offset", 0), stream(step, stream))
  end

  def stream(step, otherwise)
    case step["stream"]
    when nil then otherwise
    when "unknown" then GpuPool::STREAM_UNKNOWN
    else @streams.fetch(step["stream"]).id
    end
  end

  def size(size)
    size.is_a?(Hash) ? (size["of_total"] * device.total_bytes).floor / 512 * 512 : size
  end

  def device
    @sim ? GpuPool.device_info(GpuPool::BACKEND_SIM, SIM_DEVICE) : GpuPool.device_info(GpuPool::BACKEND_AUTO, 0)
  end

  def statistic(pool, path)
    return device.free_bytes if path == "device.free_bytes"

    path.split(".").reduce(pool.stats) { |value, part| value.public_send(part) }
  end

  def check(step, expect, block, message)
    expect.slice("same_address", "other_address").each do |which, other|
      same = @blocks[block].first == @blocks[other].first
      raise Unexpected.new("address", "#{which} as #{other}", same) unless same == (which == "same_address")
    end
    if expect.key?("address_zero") && @blocks[block].first.zero? != expect["address_zero"]
      raise Unexpected.new("address_zero", expect["address_zero"], @blocks[block].first)
    end
    words = expect.fetch("message_contains", "")
    raise Unexpected.new("message", words, message) unless message.include?(words)

    expect.fetch("stats", {}).each { |path, value| check_statistic(path, value, statistic(@pools[step["pool"]], path)) }
  end

  def check_statistic(path, value, found)
    range = value.is_a?(Hash) && !value.key?("saved") ? value : { "min" => value, "max" => value }
    low = number(range.fetch("min", 0))
    high = number(range.fetch("max", 2**64 - 1))
    raise Unexpected.new(path, low == high ? low : "#{low} to #{high}", found) unless found.between?(low, high)
  end

  def number(value)
    value.is_a?(Hash) ? @saved.fetch(value["saved"]) + value.fetch("plus", 0) : value
  end
end

good = ARGV.map do |file|
  scenario = Scenario.new(JSON.parse(File.read(file)))
  number = step = nil
  scenario.run { |*now| number, step = now }
  true
rescue Unexpected => e
  warn "#{file}: step #{number}: #{JSON.generate(step)}: #{e.message}"
  false
ensure
  scenario&.close
end
exit good.all?
