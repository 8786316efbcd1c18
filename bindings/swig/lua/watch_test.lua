-- SPDX-License-Identifier: Apache-2.0
-- Tests of tags in Lua, and of groups of processes seen from outside. GPUPOOL_SHARE_DIR must lead to an empty folder.
local gpupool = require "gpupool"

local MIB <const> = 1 << 20

local function same(found, expected)
  if found ~= expected then error(("expected %s, found %s"):format(expected, found), 2) end
end

local function fails(status, call, ...)
  local done, failure = pcall(call, ...)
  if done then error("nothing was refused", 2) end
  same(failure.status, "GPUPOOL_ERROR_" .. status)
end

-- What the holders of each tag hold, in quarters of a GiB.
local function held(pool)
  local holders, tags, list = pool:holders(), {}, {}
  for i = 0, holders:count() - 1 do
    local holder = holders:holder(i)
    tags[holder.tag] = (tags[holder.tag] or 0) + math.floor(holder.live_bytes / (256 * MIB) + 0.5)
  end
  for tag, quarters in pairs(tags) do list[#list + 1] = ("%s %d"):format(tag, quarters) end
  table.sort(list)
  return table.concat(list, ", ")
end

local function tags()
  local pool <close> = gpupool.open("sim")
  local inner, outer
  do
    local weights <close> = gpupool.tag("weights")
    inner = gpupool.tag("kv cache", pool.malloc, pool, 256 * MIB)
    local done, failure = pcall(gpupool.tag, "lost", error, { "thrown inside" })
    same(done, false)
    same(failure[1], "thrown inside")
    done = pcall(function()
      local lost <close> = gpupool.tag("lost")
      error(lost)
    end)
    same(done, false)
    outer = pool:malloc(512 * MIB)
    same(getmetatable(weights).__name, "gpupool.Tag")
  end
  same(held(pool), "kv cache 1, weights 2")
  same(select("#", gpupool.tag("some", function(...) return ... end, nil, nil)), 2)
  fails("INVALID_ARGUMENT", gpupool.tag_pop) -- nothing was left behind
  fails("INVALID_ARGUMENT", gpupool.tag, "")
  fails("INVALID_ARGUMENT", gpupool.tag_pop)
  pool:free(inner)
  pool:free(outer)
end

local function groups()
  local pool <close> = gpupool.open { device = "sim", share = "seen", guaranteed_bytes = 8 << 30, priority = 1 }
  same(pool:stats().share_state, gpupool.SHARE_STATE_SHARED)
  local group = gpupool.share_info("seen", gpupool.BACKEND_SIM, 0)
  same(group:share().members, 1)
  same(group:share().used_bytes, 8 << 30)
  same(group:member_count(), 1)
  local member = group:member(0)
  same(member.state, gpupool.SHARE_MEMBER_STATE_LIVE)
  same(member.guaranteed_bytes, 8 << 30)
  same(member.priority, 1)
  gpupool.share_set(gpupool.SHARE_FIGURE_MEMBER_PRIORITY, -3, member.slot, "seen", gpupool.BACKEND_SIM)
  gpupool.share_set(gpupool.SHARE_FIGURE_MEMBER_LIMIT, 32 << 30, member.slot, "seen", gpupool.BACKEND_SIM, 0)
  local set = gpupool.share_info("seen", gpupool.BACKEND_SIM):member(0)
  same(set.priority, -3)
  same(set.limit_bytes, 32 << 30)
  same(gpupool.share_repair("seen", gpupool.BACKEND_SIM), 0)
  fails("INVALID_ARGUMENT", gpupool.share_set, gpupool.SHARE_FIGURE_MEMBER_PRIORITY, 9, member.slot, "seen",
    gpupool.BACKEND_SIM)
  fails("INVALID_ARGUMENT", group.member, group, 1)
  fails("UNAVAILABLE", gpupool.share_info, "nobodys", gpupool.BACKEND_SIM)
  fails("INVALID_ARGUMENT", gpupool.share_info, "a/b", gpupool.BACKEND_SIM)
  fails("INVALID_ARGUMENT", gpupool.share_info) -- the environment names none
end

tags()
groups()
collectgarbage()
same(gpupool.sim_faults(0), 0)
print("Lua: tags and groups passed")
