// SPDX-License-Identifier: Apache-2.0

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import org.gpupool.*;
import org.gpupool.GpuPoolException.InvalidArgumentException;
import org.gpupool.GpuPoolException.UnavailableException;

/**
 * Tests of tags, and of groups of processes seen from outside. GPUPOOL_SHARE_DIR must lead to an empty
 * folder.
 */
public final class WatchTest {
  private static final long MIB = 1 << 20;

  private static void same(Object found, Object expected) {
    if (!found.equals(expected)) throw new AssertionError("expected " + expected + ", found " + found);
  }

  private static Exception refused(Class<? extends Exception> type, Runnable call) {
    try {
      call.run();
    } catch (RuntimeException failure) {
      if (type.isInstance(failure)) return failure;
      throw failure;
    }
    throw new AssertionError("expected " + type);
  }

  /** What the holders of each tag hold, in quarters of a GiB. */
  private static Map<String, Long> held(Pool pool) {
    Holders holders = pool.holders();
    Map<String, Long> held = new TreeMap<>();
    for (int i = 0; i < holders.count(); ++i) {
      Holder holder = holders.holder(i);
      held.merge(holder.getTag(), Math.round(holder.getLiveBytes() / (256.0 * MIB)), Long::sum);
    }
    return held;
  }

  @SuppressWarnings("try") // a tag is not used, only closed
  private static void tags() {
    try (Pool pool = new Pool("sim")) {
      long inner;
      long outer;
      try (Tag weights = new Tag("weights")) {
        try (Tag cache = new Tag("kv cache")) {
          inner = pool.malloc(256 * MIB);
          cache.close();
          pool.free(pool.malloc(MIB));
        }
        refused(IllegalStateException.class, () -> {
          try (Tag lost = new Tag("lost")) {
            throw new IllegalStateException("thrown inside");
          }
        });
        outer = pool.malloc(512 * MIB);
      }
      same(held(pool).toString(), "{kv cache=1, weights=2}");
      refused(InvalidArgumentException.class, GpuPool::tagPop); // nothing was left behind
      refused(InvalidArgumentException.class, () -> new Tag(""));
      // It is its thread's.
      try (Tag mine = new Tag("mine")) {
        long others = CompletableFuture.supplyAsync(() -> pool.malloc(256 * MIB)).join();
        same(held(pool).keySet().toString(), "[, kv cache, weights]");
        pool.free(others);
        CompletableFuture.runAsync(() -> refused(IllegalStateException.class, mine::close)).join();
      }
      refused(InvalidArgumentException.class, GpuPool::tagPop);
      pool.free(inner);
      pool.free(outer);
    }
  }

  private static void groups() {
    Config config = new Config();
    config.setDevice("sim");
    config.setShare("seen");
    config.setGuaranteedBytes(8L << 30);
    try (Pool pool = new Pool(config)) {
      same(pool.stats().getShareState(), ShareState.SHARED.swigValue());
      ShareGroup group = GpuPool.shareInfo("seen", Backend.SIM, 0);
      same(group.share().getMembers(), 1);
      same(group.share().getUsedBytes(), 8L << 30);
      List<ShareMember> members = group.members();
      same(members.size(), 1);
      same(members.get(0).getState(), ShareMemberState.LIVE);
      same(members.get(0).getPid(), ProcessHandle.current().pid());
      same(members.get(0).getGuaranteedBytes(), 8L << 30);
      int slot = members.get(0).getSlot();
      GpuPool.shareSet(ShareFigure.MEMBER_PRIORITY, -3, slot, "seen", Backend.SIM);
      GpuPool.shareSet(ShareFigure.MEMBER_LIMIT, 32L << 30, slot, "seen", Backend.SIM, 0);
      ShareMember set = GpuPool.shareInfo("seen", Backend.SIM).member(0);
      same(set.getPriority(), -3);
      same(set.getLimitBytes(), 32L << 30);
      same(GpuPool.shareRepair("seen", Backend.SIM), 0L);
      refused(InvalidArgumentException.class,
          () -> GpuPool.shareSet(ShareFigure.MEMBER_PRIORITY, 9, slot, "seen", Backend.SIM));
      refused(InvalidArgumentException.class, () -> group.member(1));
      refused(UnavailableException.class, () -> GpuPool.shareInfo("nobodys", Backend.SIM));
      refused(InvalidArgumentException.class, () -> GpuPool.shareInfo("a/b", Backend.SIM));
      refused(InvalidArgumentException.class, GpuPool::shareInfo); // the environment names none
    }
  }

  public static void main(String[] arguments) {
    tags();
    groups();
    same(GpuPool.simFaults(0), 0L);
    System.out.println("Java: tags and groups passed");
  }
}
