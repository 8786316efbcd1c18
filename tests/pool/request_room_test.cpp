// SPDX-License-Identifier: Apache-2.0
// The room of requests by itself: who is asked when memory is short, and when a pool has been idle.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pool/memory/request.hpp"
#include "pool/request/helpers.hpp"
#include "pool/request/idle.hpp"
#include "pool/request/keeper.hpp"
#include "pool/request/oom_handler.hpp"
#include "pool/request/reclaimer.hpp"
#include "pool/request/shortage.hpp"
#include "pool/rooms.hpp"

namespace gpupool::internal {
namespace {

using RequestRoom = RoomsOfState;

/// A handler of the user's that asks again from inside.
struct Asking {
  OomHandler* handler;
  PoolState* pool;
  int calls = 0;
  bool asked_inside = false;

  static int32_t call(void* user, gpupool_t*, uint64_t, uint32_t) {
    auto& self = *static_cast<Asking*>(user);
    ++self.calls;
    PoolLock lock = self.pool->look();  // it was given up
    self.asked_inside = self.handler->ask(lock, kMiB, 1);
    return 1;
  }
};

TEST_F(RequestRoom, AHandlerIsAskedWithoutTheLockAndNotFromInsideItself) {
  OomHandler handler(*pool);
  PoolLock lock = pool->look();
  EXPECT_FALSE(handler.ask(lock, kMiB, 1)) << "there is none";
  Asking asking{&handler, pool.get()};
  handler.set(Asking::call, &asking);
  EXPECT_TRUE(handler.ask(lock, kMiB, 1));
  EXPECT_EQ(asking.calls, 1);
  EXPECT_FALSE(asking.asked_inside);
  EXPECT_FALSE(handler.ask(lock, kMiB, OomHandler::kMostAttempts + 1)) << "one that always says yes";
  EXPECT_EQ(pool->shortages.handler_calls, 1U);
}

TEST_F(RequestRoom, APoolIsIdleOnceItHasMemoryAndHandsNoneOut) {
  PoolOptions options;
  options.idle_ns = 1'000'000;
  make(options);
  Idle idle(*pool);
  ASSERT_EQ(sim_advance(kOrdinal, 2'000'000), kSuccess);
  EXPECT_FALSE(idle.is_due()) << "it has no memory";
  ASSERT_TRUE(pool->ledger.budget().charge(kMiB));
  EXPECT_TRUE(idle.is_due());
  idle.begin_anew();
  EXPECT_FALSE(idle.is_due());
  ASSERT_EQ(sim_advance(kOrdinal, 1'000'000), kSuccess);
  EXPECT_TRUE(idle.is_due());
  pool->gate.state = GPUPOOL_SLEEP_STATE_ASLEEP;
  EXPECT_FALSE(idle.is_due()) << "its memory is away";
  pool->ledger.budget().refund(kMiB);
}

struct NoKeeper final : Keeper {
  void take(Range&) noexcept override {}
};

/// Notes who was asked, and never helps.
struct Asked final : Helpers {
  void empty(PoolLock&, PoolState&) override { order.emplace_back("empty"); }
  bool ask_parent(PoolLock&, PoolState&, uint64_t) override {
    order.emplace_back("parent");
    return false;
  }
  bool put_to_sleep(PoolLock&, PoolState&, uint64_t, Status) override {
    order.emplace_back("sleep");
    return false;
  }
  std::vector<std::string> order;
};

TEST_F(RequestRoom, WhoIsAskedDependsOnWhatIsShort) {
  Exports exports(*pool);
  Reclaimer reclaimer(*pool, exports);
  NoKeeper sleep;
  reclaimer.set_keepers(nullptr, &sleep);
  OomHandler handler(*pool);
  const auto asked = [&](Status short_of) {
    Asked helpers;
    Shortage shortage(*pool, reclaimer, helpers, handler);
    const Request request{StreamUser::of_own(1), *state, kMiB, kUnit};
    PoolLock lock = pool->enter();
    Range* block = nullptr;
    int tries = 0;
    const auto retry = [&](Range*&) {
      ++tries;
      return short_of;
    };
    EXPECT_EQ(shortage.relieve(lock, request, retry, short_of, block), short_of);
    EXPECT_EQ(block, nullptr);
    EXPECT_EQ(tries != 0, is_shortage(short_of)) << "what was freed is waited for";
    return helpers.order;
  };
  using Order = std::vector<std::string>;
  EXPECT_EQ(asked(GPUPOOL_ERROR_OUT_OF_MEMORY), (Order{"empty", "sleep"}));
  EXPECT_EQ(asked(GPUPOOL_ERROR_OVER_LIMIT), (Order{"parent", "sleep"}));
  EXPECT_EQ(asked(GPUPOOL_ERROR_INVALID_ARGUMENT), Order{}) << "is no shortage";
}

}  // namespace
}  // namespace gpupool::internal
