# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# What waits lets other threads of Ruby run, and ends if Ruby wants its thread.
require "gpupool"
require "minitest/autorun"
require "timeout"

class InterruptsTest < Minitest::Test
  MIB = 1 << 20
  FAR = 60 # seconds; no wait that is ended takes so long

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  # What the code took, which must be far from FAR.
  def took
    start = now
    yield
    (now - start).tap { |seconds| assert_operator seconds, :<, FAR / 3 }
  end

  # A pool that holds mallocs.
  def asleep
    GpuPool::Pool.open("sim") do |pool|
      pool.malloc(4 * MIB)
      pool.sleep(GpuPool::SLEEP_MODE_SAVE, GpuPool::SLEEP_FLAG_HOLD_MALLOCS)
      yield pool
    end
  end

  # A pool of a full device that would wait for room; yields the pool and what takes it.
  def crowded
    GpuPool.configure_sim(3, capacity_bytes: 64 * MIB)
    GpuPool::Pool.open("sim:3") do |pool|
      block = pool.allocate(16 * MIB)
      block.fill(7)
      pool.sleep
      GpuPool::Pool.open("sim:3") do |other|
        taken = other.malloc(60 * MIB)
        yield pool, -> { other.free(taken) }
      end
      assert_equal "\x07".b, block.read(0, 1)
      block.close
    end
  end

  def test_another_thread_wakes_the_pool_meanwhile
    asleep do |pool|
      ticks = 0
      ticker = Thread.new { loop { sleep(0.01) && ticks += 1 } }
      waker = Thread.new { sleep(0.5) && pool.wake }
      took { pool.malloc(MIB) }
      assert_operator ticks, :>, 15
      [ticker.kill, waker].each(&:join)
    end
  end

  def test_a_thread_that_is_killed_waits_no_longer
    asleep do |pool|
      ensured = false
      thread = Thread.new do
        pool.allocate(MIB)
      ensure
        ensured = true
      end
      sleep(0.2)
      took { thread.kill.join }
      assert ensured
      assert_equal GpuPool::SLEEP_STATE_ASLEEP, pool.sleep_state
      pool.wake
      assert_equal 4 * MIB, pool.stats.all.allocated_bytes.current
    end
  end

  def test_what_is_raised_in_a_thread_ends_its_wait
    asleep do |pool|
      took { assert_raises(Timeout::Error) { Timeout.timeout(0.3) { pool.malloc(MIB) } } }
      took { assert_raises(Timeout::Error) { Timeout.timeout(0.3) { pool.reserve(64 * MIB) } } }
      assert_equal GpuPool::SLEEP_STATE_ASLEEP, pool.sleep_state
    end
  end

  def test_ctrl_c_ends_a_wait
    before = trap(:INT, "DEFAULT") # what a shell runs in the background ignores it
    asleep do |pool|
      Thread.new { sleep(0.3) && Process.kill(:INT, Process.pid) }
      took { assert_raises(Interrupt) { pool.malloc(MIB) } }
    end
  ensure
    trap(:INT, before)
  end

  def test_a_trap_that_raises_nothing_runs_and_the_wait_goes_on
    asleep do |pool|
      trapped = 0
      before = trap(:USR1) { trapped += 1 }
      Thread.new do
        2.times { sleep(0.2) && Process.kill(:USR1, Process.pid) }
        sleep(0.2)
        pool.wake
      end
      took { pool.malloc(MIB) }
      assert_equal 2, trapped
    ensure
      trap(:USR1, before)
    end
  end

  def test_a_wake_lets_others_run_and_can_be_ended
    crowded do |pool, leave|
      took { assert_raises(Timeout::Error) { Timeout.timeout(0.3) { pool.wake(FAR * 1_000_000_000) } } }
      Thread.new { sleep(0.3) && leave.call }
      took { assert_equal 16 * MIB, pool.wake(FAR * 1_000_000_000).saved_bytes }
    end
  end

  # They run on a thread that has given Ruby's lock up.
  def test_hooks_handlers_and_the_log_have_rubys_lock
    crowded do |pool, leave|
      seen = []
      lines = []
      GpuPool.set_log(GpuPool::LOG_DEBUG, ->(_, message) { lines << message })
      pool.set_sleep_hooks(nil, ->(address) { seen << "after #{address}" })
      pool.on_out_of_memory { |_, attempt| seen << "short #{attempt}" && attempt == 1 && leave.call && true }
      pool.wake(FAR * 1_000_000_000)
      assert_equal ["short 1", "after 0"], seen
      pool.set_sleep_hooks(->(_) { raise ArgumentError, "not now" }, nil)
      assert_equal "not now", assert_raises(ArgumentError) { pool.sleep }.message
      pool.set_sleep_hooks(nil, nil)
    ensure
      GpuPool.set_log(GpuPool::LOG_OFF)
    end
  end
end
