# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# Tests of the Ruby binding on the simulated device.
require "gpupool"
require "minitest/autorun"
require "timeout"
require "tmpdir"

class PoolTest < Minitest::Test
  MIB = 1 << 20
  Pool = GpuPool::Pool

  def live(pool)
    pool.stats.all.allocated_bytes.current
  end

  def refused(&code)
    assert_raises(GpuPool::InvalidArgumentError, &code)
  end

  def test_library
    assert_operator GpuPool.version, :>=, 100
    assert_match(/\A0\./, GpuPool.version_string)
    assert_equal Encoding::UTF_8, GpuPool.version_string.encoding
    refute_equal 0, GpuPool.features & GpuPool::FEATURE_SIM
    assert_equal 8, GpuPool.device_count(GpuPool::BACKEND_SIM)
    info = GpuPool.device_info(GpuPool::BACKEND_SIM, 1)
    assert_equal [150_754_820_096, GpuPool::BACKEND_SIM], [info.total_bytes, info.backend]
    assert_equal "GPUPOOL_ERROR_OVER_LIMIT", GpuPool.status_name(GpuPool::ERROR_OVER_LIMIT)
    refused { GpuPool.device_info(GpuPool::BACKEND_SIM, 8) }
    if (GpuPool.features & GpuPool::FEATURE_CUDA).zero?
      assert_raises(GpuPool::UnavailableError) { GpuPool.device_count(GpuPool::BACKEND_CUDA) }
    end
    GpuPool.set_log(GpuPool::LOG_OFF)
  end

  def test_logging
    lines = []
    GC.start # what the collector ends is logged to standard error
    GpuPool.set_log(GpuPool::LOG_INFO, ->(level, message) { lines << [level, message] })
    GC.start
    Pool.open("sim", limit: 64 * MIB) do |pool|
      assert_match(/\Apool /, lines.assoc(GpuPool::LOG_INFO).last)
      assert_raises(GpuPool::OverLimitError) { pool.malloc(65 * MIB) }
      assert_match(/\AGPUPOOL_ERROR_OVER_LIMIT: malloc of 68157440 bytes/, lines.assoc(GpuPool::LOG_WARNING).last)
    end
    says("receiver is 5: an object with a method call(level, message)", TypeError) do
      GpuPool.set_log(GpuPool::LOG_INFO, 5)
    end
    GpuPool.set_log(GpuPool::LOG_OFF)
    count = lines.size
    Pool.new.close
    assert_equal count, lines.size
  end

  def test_every_status_has_a_class
    GpuPool.constants.grep(/\AERROR_/).each do |constant|
      status = GpuPool.const_get(constant)
      error = GpuPool::Error.of(status, 7, "words")
      assert_equal "GPUPOOL_#{constant}", error.status_name
      refute_instance_of GpuPool::Error, error
      assert_equal [7, "words"], [error.driver_code, error.message]
    end
  end

  def test_addresses
    Pool.open do |pool|
      address = pool.malloc(1000)
      info = pool.block_info(address + 999)
      assert_equal [address, 1000, GpuPool::BLOCK_LIVE], [info.address, info.requested_bytes, info.state]
      assert_equal 1024, live(pool)
      pool.free(address)
      assert_equal 0, pool.malloc(0)
      pool.free(0)
      aligned = pool.malloc_aligned(512, 2 * MIB)
      assert_equal 0, aligned % (2 * MIB)
      pool.free(aligned, GpuPool::STREAM_UNKNOWN)
      assert_equal 0, live(pool)
      error = assert_raises(GpuPool::UnknownPointerError) { pool.free(aligned) }
      assert_equal [GpuPool::ERROR_UNKNOWN_POINTER, 0], [error.status, error.driver_code]
      error = assert_raises(GpuPool::UnknownPointerError) { pool.free((2**64) - 512) }
      assert_includes error.message, "0xfffffffffffffe00"
      assert_raises(GpuPool::Error) { pool.malloc((2**64) - 1) }
      refused { pool.malloc_aligned(1, 3) }
    end
  end

  # A message that has these words, and none of C++ or SWIG.
  def says(words, type, &code)
    message = assert_raises(type, &code).message
    assert_includes message, words
    refute_match(/binding|uint64|SWIG|prototype|std::/, message)
  end

  def test_arguments
    Pool.open do |pool|
      says("size is -1: an Integer from 0 to 2**64 - 1 is wanted", RangeError) { pool.malloc(-1) }
      says("size is 18446744073709551616", RangeError) { pool.malloc(2**64) }
      says('size is "1": an Integer is wanted', TypeError) { pool.malloc("1") }
      says("size is 1.5: an Integer is wanted", TypeError) { pool.malloc(1.5) }
      says("size is 1000000.0: an Integer is wanted", TypeError) { pool.allocate(1e6) }
      says("stream is :stream: an Integer or a Stream is wanted", TypeError) { pool.malloc(1, :stream) }
      says("fraction is \"half\": a Float is wanted", TypeError) { pool.fraction = "half" }
      says("fraction is nil: a Float is wanted", TypeError) { GpuPool::Config.new(fraction: nil) }
      says("device is 4294967296: an Integer of 32 bits is wanted", RangeError) { pool.enable_peer(2**32) }
      says("read: these arguments do not fit: an offset and a length", ArgumentError) { pool.allocate(1).read(:all) }
      says("text is nil: a String is wanted", TypeError) { GpuPool.parse_size(nil) }
      says("device_count: argument 1 is :sim: a constant of GpuPool is wanted", TypeError) do
        GpuPool.device_count(:sim)
      end
      says("sim_configure: argument 2 is 5: SimConfig is wanted", TypeError) { GpuPool.sim_configure(5, 5) }
      refused { GpuPool.set_log(9) }
      assert_raises(ArgumentError) { pool.malloc }
      assert_raises(TypeError) { pool.oom_handler = 5 }
    end
  end

  def test_sizes_that_no_device_has
    Pool.open do |pool|
      (46..63).each do |shift|
        assert_raises(GpuPool::OutOfMemoryError) { pool.malloc(1 << shift) }
        assert_raises(GpuPool::OutOfMemoryError) { pool.allocate(1 << shift) }
      end
    end
  end

  def test_words
    assert_equal 1536, GpuPool.parse_size("1.5 KiB")
    refused { GpuPool.parse_size("a lot") }
    choice = GpuPool.parse_device("sim:3")
    assert_equal [GpuPool::BACKEND_SIM, 3], [choice.backend, choice.device]
    refused { GpuPool.parse_device("gpu") }
    refused { Pool.new("gpu") }
    assert_includes refused { Pool.new("sim", limit: "lots") }.message, 'limit is "lots"'
    pool = Pool.new("sim:1", limit: "64MiB")
    stream = pool.create_stream
    block = pool.allocate(1000, stream)
    assert_equal "pool on sim:1: 2 MiB of 64 MiB reserved, 1 block live", pool.inspect
    assert_equal pool.inspect, pool.to_s
    assert_equal "2 MiB of 64 MiB reserved, 1 block live", pool.stats.inspect
    assert_equal format("block of 1000 bytes at %#x on stream %#x", block.address, stream.id), block.inspect
    block.free
    assert_equal "block of 1000 bytes: freed", block.inspect
    stream.close
    assert_equal "stream: closed", stream.inspect
    pool.limit = "50%"
    assert_equal 150_754_820_096 / 2, pool.stats.limit_bytes
    pool.limit = MIB * 64
    assert_equal MIB * 64, pool.stats.limit_bytes
    pool.close
    assert_equal "pool: closed", pool.inspect
    Pool.open(device: "sim:2", limit: "25%") do |quarter|
      assert_equal [2, 150_754_820_096 / 4], [quarter.stats.device, quarter.stats.limit_bytes]
    end
    Pool.open("sim", limit: MIB) { |small| assert_equal MIB, small.stats.limit_bytes }
  end

  def test_a_device_by_its_number
    Pool.open(1) { |pool| assert_equal 1, pool.stats.device }
    Pool.open(2, limit: "8GiB") { |pool| assert_equal [2, 8 << 30], [pool.stats.device, pool.stats.limit_bytes] }
    Pool.open(nil) { |pool| assert_equal 0, pool.stats.device }
    [[:new, 99], [:open, 99], [:new, -1]].each do |method, device|
      error = refused { Pool.public_send(method, device) }
      assert_includes error.message, "device #{device}"
    end
    says("device is 4294967296: an Integer of 32 bits is wanted", RangeError) { Pool.new(2**32) }
    [true, false, 1.5, :sim, [1], { device: 1 }].each do |other|
      says("Pool: device is #{other.inspect}: an Integer, a String such as \"cuda:1\", or a Config is wanted",
           TypeError) { Pool.new(other) }
    end
    says("Pool: limit stands beside a Config, which has its own", ArgumentError) do
      Pool.new(GpuPool::Config.new, limit: "8GiB")
    end
    says("Pool: the device is named twice", ArgumentError) { Pool.new("sim:1", device: 2) }
  end

  def test_figures_as_hashes
    Pool.open("sim:1") do |pool|
      pool.malloc(1000)
      stats = pool.stats.to_h
      assert_equal [1, 1000], [stats[:device], stats.dig(:all, :requested_bytes, :current)]
      assert_equal 1, stats.dig(:driver, :create, :count)
      refute(stats.keys.any? { |key| key.end_with?("=") || key == :inspect })
      assert_equal GpuPool::BLOCK_LIVE, pool.snapshot.blocks.first.to_h[:state]
      assert_equal GpuPool::BACKEND_SIM, GpuPool.device_info(GpuPool::BACKEND_SIM, 1).to_h[:backend]
    end
  end

  def test_launches
    GpuPool.configure_sim(7, streams: 2)
    Pool.open(device: "sim:7", capture_aware: true) do |pool|
      stream = pool.create_stream
      other = pool.create_stream
      block = pool.allocate(4, stream)
      block.write("then")
      GpuPool.sim_capture(7, stream, true)
      capture = pool.capture_id(stream)
      GpuPool.sim_work(7, stream, block.address, 4, 1_000_000)
      block.fill("n".ord)
      refused { GpuPool.sim_launch(7, capture, other) }
      GpuPool.sim_capture(7, stream, false)
      assert_equal "then", block.read
      GpuPool.sim_launch(7, capture, other)
      other.synchronize
      assert_equal "nnnn", block.read
      refused { GpuPool.sim_launch(7, capture + 1, other) }
      assert_equal 0, GpuPool.sim_faults(7)
      assert_raises(GpuPool::DriverError) { GpuPool.sim_launch(7, capture, 12_345) }
    end
  end

  def test_captures
    Pool.open(device: "sim:4", capture_aware: true) do |pool|
      stream = pool.create_stream
      GpuPool.sim_capture(4, stream, true)
      capture = pool.capture_id(stream)
      refute_equal 0, capture
      pool.free(pool.malloc(MIB, stream), stream)
      refused { pool.release_capture(capture) }
      GpuPool.sim_capture(4, stream, false)
      pool.release_capture(capture)
      refused { pool.release_capture(0) }
      pool.announce_capture(true)
      pool.announce_capture(false)
      refused { pool.announce_capture(false) }
      pool.enable_peer(5)
      refused { pool.enable_peer(99) }
      pool.create_child.close
    end
  end

  def test_blocks
    Pool.open do |pool|
      pool.allocate(1000) do |block|
        block.fill(9)
        block.write("\x01\x00\xff", 100)
        assert_equal "\x01\x00\xff".b, block.read(100, 3)
        assert_equal 1000, block.read.size
        assert_equal "\x09", block.read(999)
        assert_equal "", block.read(1000)
        refused { block.write("abc", 998) }
        refused { block.read(0, 1001) }
        refused { block.read((2**64) - 1, 2) }
        assert_raises(TypeError) { block.write(nil) }
        assert_equal "value is 300: a byte is 0 to 255", refused { block.fill(300) }.message
        refused { pool.fill(block.address, -1, 1) }
        assert_equal "\x09", block.read(0, 1)
        copy = pool.allocate(1000)
        pool.copy(copy.address, block.address, 1000)
        pool.fill(copy.address, 7, 10)
        assert_equal "\x07\x09", copy.read(9, 2)
        copy.free
        assert_predicate copy, :freed?
        assert_raises(GpuPool::UnknownPointerError) { copy.free }
        freed = [-> { copy.address }, -> { copy.read }, -> { copy.fill(1) }, -> { copy.record_stream(0) }]
        freed.each do |use|
          assert_equal "the block has been freed", assert_raises(GpuPool::UnknownPointerError, &use).message
        end
        copy.close
      end
      assert_equal 0, live(pool)
      given = pool.allocate(1)
      pool.free(given.release)
      assert_raises(GpuPool::UnknownPointerError) { given.release }
      pool.validate
    end
  end

  def test_streams
    Pool.open do |pool|
      stream = pool.create_stream
      other = pool.create_stream
      pool.allocate(512, stream) do |block|
        block.record_stream(other)
        # A stream that is refused leaves the block as it was.
        refused { block.free(2) }
        refute_predicate block, :freed?
        block.free(other)
      end
      pool.allocate(MIB, stream, 4096) do |block|
        assert_equal stream.id, block.stream
        block.record_stream(0)
        pool.record_stream(block.address, 0)
        block.free(GpuPool::STREAM_UNKNOWN)
      end
      stream.synchronize
      pool.synchronize_stream(stream)
      pool.synchronize
      pool.park_stream(stream)
      pool.release_stream(stream)
      2.times { stream.close }
      assert_predicate stream, :closed?
      refused { stream.id }
      refused { pool.malloc(1, stream) }
      refused { pool.release_stream(GpuPool::STREAM_UNKNOWN) }
      closed = pool.create_stream(&:itself)
      assert_predicate closed, :closed?
    end
  end

  def test_a_block_whose_stream_is_closed
    Pool.open do |pool|
      block = pool.create_stream { |stream| pool.allocate(512, stream) }
      refused { block.read }
      refused { block.fill(1) }
      block.free
    end
  end

  def test_limits
    Pool.open(backend: :sim, limit_bytes: 64 * MIB) do |pool|
      error = assert_raises(GpuPool::OverLimitError) { pool.malloc(65 * MIB) }
      assert_kind_of GpuPool::OutOfMemoryError, error
      assert_includes error.message, "limit"
      pool.reserve(16 * MIB)
      assert_operator pool.stats.all.reserved_bytes.current, :>=, 16 * MIB
      assert_operator pool.trim(2 * MIB), :>, 0
      pool.empty
      assert_equal 0, pool.stats.all.reserved_bytes.current
      pool.limit_bytes = 128 * MIB
      assert_equal 128 * MIB, pool.stats.limit_bytes
      pool.fraction = 0.5
      assert_equal 150_754_820_096 / 2, pool.stats.limit_bytes
      refused { pool.fraction = Float::NAN }
      pool.reset_peaks
      assert_equal 0, pool.stats.all.reserved_bytes.peak
    end
  end

  def test_handlers
    Pool.open(backend: :sim, limit_bytes: 64 * MIB) do |pool|
      cache = pool.allocate(60 * MIB)
      asked = []
      pool.on_out_of_memory do |size, attempt|
        asked << [size, attempt]
        cache.close
        attempt < 2
      end
      GC.start
      pool.allocate(32 * MIB).free
      assert_equal [[32 * MIB, 1]], asked
      # One that always says yes can be interrupted.
      pool.on_out_of_memory { sleep(0.0001); true }
      assert_raises(Timeout::Error) { Timeout.timeout(0.1) { pool.malloc(1 << 40) } }
      pool.on_out_of_memory { raise IOError, "from the handler" }
      assert_equal "from the handler", assert_raises(IOError) { pool.malloc(65 * MIB) }.message
      pool.on_out_of_memory { throw :out, 5 }
      assert_equal(5, catch(:out) { pool.malloc(65 * MIB) })
      pool.oom_handler = nil
      assert_raises(GpuPool::OverLimitError) { pool.malloc(65 * MIB) }
    end
  end

  # Both end with the malloc.
  def test_a_handler_may_close_the_stream_and_the_pool_of_its_malloc
    pool = Pool.new("sim", limit: 64 * MIB)
    stream = pool.create_stream
    pool.on_out_of_memory do
      stream.close
      pool.close
      nil
    end
    assert_raises(GpuPool::OverLimitError) { pool.allocate(65 * MIB, stream) }
    refused { pool.malloc(1) }
  end

  def sleepers
    Pool.new(backend: :sim, max_chunk_bytes: 2 * MIB)
  end

  def test_sleeping
    pool = sleepers
    blocks = Array.new(3) { pool.malloc(4 * MIB) }
    pool.set_name("some")
    slept = pool.sleep(GpuPool::SLEEP_MODE_SAVE, 0, 5 * MIB)
    assert_equal [8 * MIB, 0], [slept.released_bytes, slept.pools]
    assert_equal GpuPool::SLEEP_STATE_AWAKE, pool.sleep_state
    assert_equal [GpuPool::BLOCK_ASLEEP, GpuPool::BLOCK_LIVE], blocks.last(2).map { |at| pool.block_info(at).state }
    assert_equal 4 * MIB, GpuPool.sleep_tag("some", GpuPool::SLEEP_MODE_DROP, 0, 1 << 40).dropped_bytes
    assert_equal 8 * MIB, pool.wake.saved_bytes
    assert_raises(RangeError) { pool.sleep(GpuPool::SLEEP_MODE_SAVE, 0, -1) }
    blocks.each { |at| pool.free(at) }
    pool.close
  end

  def test_backups
    pool = sleepers
    kept, lost = Array.new(2) { pool.allocate(4 * MIB) }
    bytes = Random.new(1).bytes(4 * MIB)
    kept.write(bytes)
    at = kept.address
    assert_raises(GpuPool::UnavailableError) { pool.read_backup(at) }
    pool.set_keep(at, true)
    assert_raises(GpuPool::UnknownPointerError) { pool.set_keep(at + 512, true) }
    pool.prepare_backup(6 * MIB)
    assert_operator pool.stats.backup_bytes, :>=, 6 * MIB
    assert_raises(RangeError) { pool.prepare_backup(-1) }
    assert_raises(GpuPool::HostOutOfMemoryError) { pool.prepare_backup(1 << 60) }
    slept = pool.sleep(GpuPool::SLEEP_MODE_DROP)
    assert_equal [4 * MIB, 4 * MIB], [slept.saved_bytes, slept.dropped_bytes]
    assert_equal bytes, pool.read_backup(at)
    assert_equal Encoding::BINARY, pool.read_backup(at).encoding
    assert_equal [bytes[100, 10], ""], [pool.read_backup(at + 100, 10), pool.read_backup(at, 0)]
    refused { pool.read_backup(at + 1, 4 * MIB) }
    refused { pool.read_backup(at, (1 << 64) - 1) }
    assert_raises(RangeError) { pool.read_backup(at, -1) }
    assert_raises(GpuPool::UnavailableError) { pool.read_backup(lost.address) }
    assert_raises(GpuPool::UnknownPointerError) { pool.read_backup(4096) }
    pool.wake
    assert_equal bytes, kept.read
    assert_raises(GpuPool::UnavailableError) { pool.read_backup(at) }
    pool.set_keep(at, false)
    assert_equal 0, pool.sleep(GpuPool::SLEEP_MODE_DROP).saved_bytes
    pool.wake
    pool.prepare_backup(0)
    assert_equal 0, pool.stats.backup_bytes
    [kept, lost].each(&:free)
    pool.close
    refused { pool.prepare_backup(1) }
    refused { pool.read_backup(4096) }
  end

  def test_sleep_tags
    pools = Array.new(2) { sleepers }
    pools.each { |pool| pool.set_name("pair") }
    assert_equal 2, GpuPool.sleep_tag("pair").pools
    assert_equal [2, 0], [GpuPool.wake_tag("pair", 1000).pools, GpuPool.wake_tag("pair").pools]
    assert_equal 0, GpuPool.wake_tag("nobody's").pools
    refused { GpuPool.wake_tag("pair", 0, 1 << 30) }
    assert_equal GpuPool::SLEEP_STATE_AWAKE, pools[0].sleep_state
    pools.each(&:close)
  end

  # A pool that another one needs the memory of, on a device that has room for one of them.
  def test_allowed_sleep
    small = GpuPool::SimConfig.new
    small.capacity_bytes = 64 * MIB
    GpuPool.sim_configure(4, small)
    idle, busy = Array.new(2) { Pool.new("sim:4") }
    block = idle.allocate(40 * MIB)
    block.write("123")
    assert_raises(GpuPool::OutOfMemoryError) { busy.malloc(40 * MIB) }
    refused { idle.allow_sleep(GpuPool::SLEEP_MODE_SAVE, 1 << 30) }
    assert_raises(GpuPool::OutOfMemoryError) { busy.malloc(40 * MIB) }
    idle.allow_sleep
    idle.set_sleep_hooks(proc { raise "from the hook" })
    assert_equal "from the hook", assert_raises(RuntimeError) { busy.malloc(40 * MIB) }.message
    assert_equal GpuPool::SLEEP_STATE_AWAKE, idle.sleep_state
    idle.set_sleep_hooks
    taken = busy.malloc(40 * MIB)
    assert_equal GpuPool::SLEEP_STATE_ASLEEP, idle.sleep_state
    busy.free(taken)
    idle.wake
    assert_equal "123", block.read(0, 3)
    assert_equal 0, busy.stats.all.allocated_bytes.current
    block.free
    [idle, busy].each(&:close)
  end

  def test_sleep_hooks_are_called
    pool = sleepers
    block = pool.malloc(4 * MIB)
    calls = []
    before = lambda do |address|
      assert_raises(GpuPool::UnavailableError) { pool.wake }
      pool.allocate(MIB).close
      calls << [:before, address == block]
    end
    pool.set_sleep_hooks(before, ->(address) { calls << [:after, address == block] })
    GC.start
    pool.sleep
    pool.wake
    pool.sleep_block(block)
    pool.wake_block(block)
    assert_equal [[:before, false], [:after, false], [:before, true], [:after, true]], calls
    pool.set_sleep_hooks
    pool.sleep
    pool.wake
    assert_equal 4, calls.size
    assert_raises(TypeError) { pool.set_sleep_hooks(5) }
    pool.free(block)
    pool.close
  end

  # What they throw is the call's, even if the call succeeds without the block.
  def test_sleep_hooks_refuse_and_throw
    pool = sleepers
    block = pool.malloc(4 * MIB)
    pool.set_sleep_hooks(->(_) { false })
    assert_raises(GpuPool::UnavailableError) { pool.sleep }
    assert_equal 0, pool.sleep(GpuPool::SLEEP_MODE_SAVE, 0, 8 * MIB).saved_bytes
    pool.set_sleep_hooks(->(_) { raise IOError, "from the hook" })
    assert_equal "from the hook", assert_raises(IOError) { pool.sleep }.message
    assert_raises(IOError) { pool.sleep(GpuPool::SLEEP_MODE_SAVE, 0, 8 * MIB) }
    pool.set_sleep_hooks(->(_) { throw :out, 5 })
    assert_equal(5, catch(:out) { pool.sleep })
    assert_equal GpuPool::SLEEP_STATE_AWAKE, pool.sleep_state
    pool.set_sleep_hooks(nil, ->(_) { raise IOError, "from the hook" })
    pool.sleep
    assert_raises(IOError) { pool.wake }
    pool.set_sleep_hooks
    pool.wake
    pool.free(block)
    pool.close
  end

  def test_a_sleep_hook_may_close_its_pool
    pool = sleepers
    pool.set_sleep_hooks(->(_) { pool.close || true })
    pool.sleep
    refused { pool.set_sleep_hooks }
  end

  def test_watching
    Pool.open do |pool|
      pool.allocate(3 * MIB) do |block|
        snapshot = pool.snapshot
        live = snapshot.blocks.select { |each| each.state == GpuPool::BLOCK_LIVE }
        assert_equal [block.address], live.map(&:address)
        assert_operator snapshot.segments.first.size_bytes, :>, 0
        refused { snapshot.segment(snapshot.segment_count) }
        assert_includes pool.report, "1 live block"
        assert_equal 1, pool.stats.large.allocated_blocks.current
        assert_operator pool.stats.driver.create.count, :>, 0
      end
    end
  end

  def test_closing
    pool = Pool.new("sim:6")
    stream = pool.create_stream
    block = pool.allocate(MIB)
    on_stream = pool.allocate(MIB, stream)
    on_stream.fill(7)
    address = pool.malloc(MIB)
    2.times { pool.close }
    assert_predicate pool, :closed?
    calls = [-> { pool.malloc(1) }, -> { pool.stats }, -> { pool.allocate(1) }, -> { pool.create_stream },
             -> { pool.snapshot }, -> { pool.on_out_of_memory { nil } }]
    calls.each { |call| assert_equal "the pool is closed", refused(&call).message }
    # Its streams are closed with it.
    assert_predicate stream, :closed?
    assert_equal "the stream is closed", refused { stream.synchronize }.message
    stream.close
    # Its blocks are as they were.
    block.write("ab")
    assert_equal ["b", "\x07"], [block.read(1, 1), on_stream.read(0, 1)]
    on_stream.fill(8)
    assert_equal "\x08", on_stream.read(9, 1)
    block.free
    on_stream.close
    # The pool is there until the last address is freed.
    refused { GpuPool.configure_sim(6) }
    assert_raises(GpuPool::UnknownPointerError) { pool.free(address + 1) }
    pool.free(address)
    assert_equal "the pool is closed", refused { pool.free(address) }.message
    GpuPool.configure_sim(6)
    assert_equal 0, GpuPool.sim_faults(6)
  end

  # The interpreter switches threads only between calls, so this shows that nobody crashes, and who is refused.
  def test_closing_under_threads
    stop = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 1.5
    while Process.clock_gettime(Process::CLOCK_MONOTONIC) < stop
      pool = Pool.new("sim:3")
      block = pool.allocate(4096, pool.create_stream)
      work = [-> { pool.free(pool.malloc(512)) }, -> { pool.create_stream.close }, -> { pool.allocate(512).close }]
      threads = work.map do |each|
        Thread.new { loop { each.call } }.tap { |thread| thread.report_on_exception = false }
      end
      writer = Thread.new { loop { block.write("a" * 4096) } }.tap { |thread| thread.report_on_exception = false }
      Thread.pass
      pool.close
      threads.each { |thread| assert_equal "the pool is closed", refused { thread.join }.message }
      block.close
      assert_equal "the block has been freed", assert_raises(GpuPool::UnknownPointerError) { writer.join }.message
    end
    assert_equal 0, GpuPool.sim_faults(3)
  end

  def test_a_pool_is_closed_when_its_block_of_code_raises
    pool = nil
    assert_raises(IOError) do
      Pool.open do |opened|
        pool = opened
        raise IOError
      end
    end
    assert_predicate pool, :closed?
  end

  def test_tags
    Pool.open("sim") do |pool|
      GpuPool.tag_push("weights")
      GpuPool.tag_push("kv cache")
      address = pool.malloc(512 * MIB)
      GpuPool.tag_pop
      block = pool.allocate(256 * MIB)
      GpuPool.tag_pop
      refused { GpuPool.tag_pop }
      holders = pool.holders
      assert_equal ["kv cache", "weights"], Array.new(holders.count) { |index| holders.holder(index).tag }
      block.free
      pool.free(address)
      assert_equal 0, pool.holders.count
      refused { GpuPool.tag_push("") }
    end
  end

  def test_recording
    Dir.mktmpdir do |folder|
      path = File.join(folder, "ruby.gpt")
      GpuPool.record_start(path, 0)
      refused { GpuPool.record_start("#{path}2", 0) }
      GpuPool.mark("step 12")
      GpuPool.record_stop
      refused { GpuPool.record_stop }
      GpuPool.mark("nobody listens")
      assert_includes File.binread(path), "step 12"
      refused { GpuPool.record_start(path, 0) }
    end
  end

  def test_collecting
    Pool.open do |pool|
      # The collector looks at the stack without knowing types, so a few may stay.
      100.times { pool.allocate(1000, pool.create_stream) }
      GC.start
      assert_operator live(pool), :<=, 10 * 1024
    end
    # Pools and streams are dropped before their blocks.
    blocks = Array.new(20) { Pool.new.then { |pool| pool.allocate(100, pool.create_stream) } }
    GC.start
    blocks.each { |block| block.write("a") }
    blocks.each(&:free)
  end

  def forget_blocks(pool, count)
    count.times { pool.allocate(MIB) }
  end

  # How often the collector runs while the block of code does, when it does not run by itself.
  def collections
    GC.start
    GC.disable
    count = GC.count
    yield
    GC.count - count
  ensure
    GC.enable
  end

  def test_collecting_before_out_of_memory
    Pool.open("sim", limit: 64 * MIB) do |pool|
      # The collector runs only when a malloc would fail, and often enough for ten times what fits.
      assert_equal(0, collections { forget_blocks(pool, 64) })
      forget_blocks(pool, 9 * 64)
      pool.free(pool.malloc(48 * MIB))
      pool.free(pool.malloc_aligned(48 * MIB, 2 * MIB))
    end
  end

  # What is reachable stays. The collector finds nothing, so the failure is the first one.
  def test_collecting_that_finds_nothing
    Pool.open("sim", limit: 64 * MIB) do |pool|
      kept = pool.allocate(32 * MIB)
      attempts = []
      pool.on_out_of_memory { |_, attempt| attempts.push(attempt) && attempt < 2 }
      failed = pool.stats.failed_mallocs
      failure = nil
      ran = collections { failure = assert_raises(GpuPool::OverLimitError) { pool.allocate(33 * MIB) } }
      assert_match(/\Amalloc of 34603008 bytes/, failure.message)
      assert_equal [1, [1, 2], failed + 1], [ran, attempts, pool.stats.failed_mallocs]
      refute_predicate kept, :freed?

      # Nor does it run when the handler helps, or raises.
      pool.on_out_of_memory { kept.close || true }
      assert_equal(0, collections { pool.malloc(33 * MIB) })
      pool.on_out_of_memory { raise IOError, "from the handler" }
      assert_equal(0, collections { assert_raises(IOError) { pool.malloc(65 * MIB) } })
    end
  end

  def forget_child(pool)
    child = pool.create_child
    child.free(child.malloc(48 * MIB))
  end

  # A child keeps what it has mapped, even while that is free.
  def test_collecting_children_before_out_of_memory
    Pool.open("sim", limit: 512 * MIB) do |pool|
      50.times { forget_child(pool) }
      pool.free(pool.malloc(48 * MIB))
    end
  end

  def test_a_copied_statistic_outlives_what_it_came_from
    Pool.open do |pool|
      pool.malloc(512)
      stats = Array.new(100) { pool.stats.all.allocated_bytes }
      GC.start
      assert_equal [512], stats.map(&:current).uniq
    end
  end

  def test_threads
    Pool.open do |pool|
      threads = Array.new(4) { Thread.new { 500.times { |i| pool.allocate(1000 + i).close } } }
      elsewhere = pool.allocate(5)
      threads << Thread.new { elsewhere.free }
      threads.each(&:join)
      assert_equal 0, live(pool)
      pool.validate
    end
  end

  def test_shared_pool
    first = Pool.shared
    second = Pool.shared(0)
    address = first.malloc(512)
    first.close
    refused { first.malloc(1) }
    second.free(address)
    refused { Pool.shared(99) }
  end

  def test_configs
    Pool.open(backend: :sim, device: 2, capture_aware: true, peers: [3, 4], mode: :vmm, kind: :device) do |pool|
      assert_equal 2, pool.stats.device
    end
    refused { Pool.new(backend: :sim, peers: [99]) }
    refused { Pool.new(fraction: 2.0) }
    assert_raises(ArgumentError) { Pool.new(limits: 5) }
    error = assert_raises(ArgumentError) { Pool.new(backend: :gpu) }
    assert_equal "backend is :gpu: one of :auto, :cuda, :host, :sim is wanted", error.message
    assert_raises(ArgumentError) { Pool.new(slack: :none) }
    Pool.open(GpuPool::Config.new(limit_bytes: MIB)) { |pool| assert_equal MIB, pool.stats.limit_bytes }
  end

  def test_blocks_between_processes
    Pool.open(backend: :sim) do |pool|
      Pool.open(backend: :sim) do |other|
        address = pool.malloc(3 * MIB)
        handle = pool.export_block(address)
        block = other.import_block(handle)
        assert_equal 3 * MIB, block.allocated_bytes
        pool.free(address)
        assert_equal 3 * MIB, pool.stats.all.active_bytes.current
        other.close_import(block.address)
        assert_equal 0, pool.stats.all.active_bytes.current
        assert_raises(GpuPool::UnavailableError) { other.import_block(handle) }
        refused { other.import_block("gpupool") }
      end
    end
  end

  def test_simulated_device
    device = 5
    GpuPool.configure_sim(device, capacity_bytes: 64 * MIB)
    Pool.open(backend: :sim, device:) do |pool|
      refused { GpuPool.configure_sim(device) }
      assert_raises(GpuPool::OutOfMemoryError) { pool.malloc(65 * MIB) }
      pool.empty
      GpuPool.sim_script(device, "create:*=error")
      assert_raises(GpuPool::DriverError) { pool.malloc(MIB) }
      GpuPool.sim_script(device, "")
      refused { GpuPool.sim_script(device, "nonsense") }
      stream = pool.create_stream
      GpuPool.sim_capture(device, stream, true)
      GpuPool.sim_capture(device, stream, false)
      assert_equal 0, GpuPool.sim_faults(device)
      GpuPool.sim_advance(device, 1000)
      assert_raises(GpuPool::DriverError) { GpuPool.sim_work(device, stream, 512, 512, 1000) }
      assert_equal 1, GpuPool.sim_faults(device)
      refute_empty GpuPool.sim_last_fault(device)
    end
  end
end
