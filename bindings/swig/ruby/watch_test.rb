# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# Tests of tags in Ruby, and of groups of processes seen from outside. GPUPOOL_SHARE_DIR must lead to an empty folder.
require "gpupool"
require "minitest/autorun"

class WatchTest < Minitest::Test
  MIB = 1 << 20
  SIM = GpuPool::BACKEND_SIM

  # What the holders of each tag hold, in quarters of a GiB.
  def held(pool)
    holders = pool.holders
    list = Array.new(holders.count) { |index| holders.holder(index) }
    list.group_by(&:tag).transform_values { |all| all.sum { |holder| (holder.live_bytes / (256.0 * MIB)).round } }
  end

  def refused(&code)
    assert_raises(GpuPool::InvalidArgumentError, &code)
  end

  def test_tags
    GpuPool::Pool.open("sim") do |pool|
      inner = outer = nil
      result = GpuPool.tag("weights") do
        GpuPool.tag("kv cache") { inner = pool.malloc(256 * MIB) }
        assert_raises(IndexError) { GpuPool.tag("lost") { raise IndexError, "raised inside" } }
        catch(:done) { GpuPool.tag("lost") { throw :done } }
        outer = pool.malloc(512 * MIB)
        :result
      end
      assert_equal [:result, { "kv cache" => 1, "weights" => 2 }], [result, held(pool)]
      refused { GpuPool.tag_pop } # nothing was left behind
      refused { GpuPool.tag("") { flunk } }
      assert_raises(TypeError) { GpuPool.tag(5) { flunk } }
      refused { GpuPool.tag_pop }
      # It is its thread's.
      pool.free(inner)
      inner = GpuPool.tag("mine") { Thread.new { pool.malloc(256 * MIB) }.value }
      assert_equal ["", "weights"], held(pool).keys.sort
      [inner, outer].each { |address| pool.free(address) }
    end
  end

  def test_groups
    GpuPool::Pool.open("sim", share: "seen", guaranteed_bytes: 8 << 30) do |pool|
      assert_equal GpuPool::SHARE_STATE_SHARED, pool.stats.share_state
      group = GpuPool.share_info("seen", SIM, 0)
      assert_equal [1, 8 << 30], [group.share.members, group.share.used_bytes]
      assert_equal 1, group.members.size
      member = group.members.first
      assert_equal [GpuPool::SHARE_MEMBER_STATE_LIVE, Process.pid, 8 << 30],
                   [member.state, member.pid, member.guaranteed_bytes]
      GpuPool.share_set(GpuPool::SHARE_FIGURE_MEMBER_PRIORITY, -3, member.slot, "seen", SIM)
      GpuPool.share_set(GpuPool::SHARE_FIGURE_MEMBER_LIMIT, 32 << 30, member.slot, "seen", SIM, 0)
      set = GpuPool.share_info("seen", SIM).members.first
      assert_equal [-3, 32 << 30], set.to_h.values_at(:priority, :limit_bytes)
      assert_equal 0, GpuPool.share_repair("seen", SIM)
      refused { GpuPool.share_set(GpuPool::SHARE_FIGURE_MEMBER_PRIORITY, 9, member.slot, "seen", SIM) }
      refused { group.member(1) }
      assert_raises(GpuPool::UnavailableError) { GpuPool.share_info("nobodys", SIM) }
      refused { GpuPool.share_info("a/b", SIM) }
      refused { GpuPool.share_info } # the environment names none
    end
  end
end
