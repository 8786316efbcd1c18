# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# Tests of everything that moves bytes in Ruby: slices, and copies that nobody waits for.
require "gpupool"
require "English"
require "minitest/autorun"

class BytesTest < Minitest::Test
  def live(pool)
    pool.stats.all.allocated_blocks.current
  end

  def refused(words, &code)
    assert_equal words, assert_raises(GpuPool::InvalidArgumentError, &code).message
  end

  def test_slices
    GpuPool::Pool.open do |pool|
      block = pool.allocate(100)
      block.fill(1)
      middle = block.slice(10, 20)
      assert_equal [block.address + 10, 20, 10], [middle.address, middle.size, middle.offset]
      middle.fill(2)
      middle.slice(5, 5) do |inner|
        inner.write("ab")
        assert_equal "\2\2ab\2".b, block.read(13, 5)
        refused("6 bytes at offset 15 are not inside a block of 20 bytes") { middle.slice(15, 6) }
        # Slices keep a block that is freed.
        block.free
        middle.close
        assert_equal [1, "a"], [live(pool), inner.read(0, 1)]
      end
      assert_equal 0, live(pool)
      assert_predicate middle, :closed?
      refused("the slice is closed") { middle.read }
      assert_equal "slice of 20 bytes: closed", middle.to_s
    end
  end

  def test_transfers
    GpuPool::Pool.open do |pool|
      stream = pool.create_stream
      block = pool.allocate(1000, stream)
      sent = block.write_async("bytes", 500)
      got = block.read_async(501, 3)
      block.free
      assert_equal 1, live(pool)
      refute_predicate got, :done?
      assert_equal "yte", got.read
      refused("this transfer brings no bytes to the host") { sent.read }
      assert_equal 0, live(pool)
    end
  end

  def test_copies_between_blocks
    GpuPool::Pool.open do |pool|
      one = pool.allocate(8)
      other = pool.allocate(8)
      one.fill(3)
      other.fill(0)
      other.copy_from(one.slice(0, 2), 4).finish
      other.copy_from(one.slice(2, 1)).close
      assert_equal "\3\0\0\0\3\3\0\0".b, other.read
      refused("8 bytes at offset 1 are not inside a block of 8 bytes") { other.copy_from(one, 1) }
    end
    assert_equal 0, GpuPool.sim_faults(0)
  end

  GIB = 1 << 30
  BIG = 4 * GIB + 5

  # Memory that nobody touches takes none of the host's.
  def test_big
    GpuPool::Pool.open("sim") do |pool|
      block = pool.allocate(BIG)
      assert_equal BIG, block.size
      assert_equal BIG, pool.block_info(block.address + BIG - 1).requested_bytes
      assert_equal BIG, pool.stats.all.requested_bytes.current
      block.write("end", BIG - 3)
      block.write_async("ND", BIG - 2).finish
      assert_equal %w[eND eND], [block.read(BIG - 3), block.read_async(BIG - 3).read]
      pool.fill(block.address + 4 * GIB, 65, 3)
      assert_equal "AAAND", block.read(4 * GIB)
      tail = block.slice(5, 4 * GIB)
      assert_equal [4 * GIB, "ND"], [tail.size, tail.slice(4 * GIB - 2, 2).read]
      other = pool.allocate(BIG)
      refused("4294967301 bytes at offset 1 are not inside a block of 4294967301 bytes") { other.copy_from(block, 1) }
      refused("4294967302 bytes at offset 0 are not inside a block of 4294967301 bytes") { block.read(0, BIG + 1) }
      assert_raises(RangeError) { block.read(1 << 64) }
      assert_raises(RangeError) { block.read(-1) }
    end
  end

  # A String could hold it; the host's memory, or what this process may have of it, need not.
  def test_more_than_the_host_has
    pool = GpuPool::Pool.new("sim")
    block = pool.allocate(BIG)
    slice = block.slice(0, 4 * GIB)
    child = fork do
      have = File.read("/proc/self/status")[/VmSize:\s*(\d+)/, 1].to_i * 1024
      Process.setrlimit(:AS, have + GIB)
      [-> { block.read }, -> { slice.read }, -> { slice.read_async }].each do |read|
        read.call
        exit!(1)
      rescue GpuPool::HostOutOfMemoryError => e
        exit!(2) unless e.message == "the host has no memory for this call: copy less at a time"
      end
      exit!(0)
    end
    Process.wait(child)
    assert_equal 0, $CHILD_STATUS.exitstatus
  end
end
