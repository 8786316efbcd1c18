// SPDX-License-Identifier: Apache-2.0
// Tests of tags, and of groups of processes seen from outside. GPUPOOL_SHARE_DIR must lead to an empty folder.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Threading;
using System.Threading.Tasks;
using GpuPool;

public static class WatchTest {
  private const ulong MiB = 1 << 20;

  private static void Same<T>(T found, T expected) {
    if (!Equals(found, expected)) throw new Exception("expected " + expected + ", found " + found);
  }

  private static void Refused<T>(Action call) where T : Exception {
    try {
      call();
    } catch (T) {
      return;
    }
    throw new Exception("expected " + typeof(T));
  }

  // What the holders of each tag hold, in quarters of a GiB.
  private static string Held(Pool pool) {
    Holders holders = pool.Holders();
    var held = new SortedDictionary<string, double>();
    for (uint i = 0; i < holders.Count(); ++i) {
      Holder holder = holders.Holder(i);
      held.TryGetValue(holder.Tag, out double sum);
      held[holder.Tag] = sum + Math.Round(holder.LiveBytes / (256.0 * MiB));
    }
    return string.Join(", ", held);
  }

  private static void TestTags() {
    using (var pool = new Pool("sim")) {
      ulong inner, outer;
      using (new Tag("weights")) {
        using (var cache = new Tag("kv cache")) {
          inner = pool.Malloc(256 * MiB);
          cache.Dispose();
          pool.Free(pool.Malloc(MiB));
        }
        Refused<InvalidOperationException>(() => {
          using (new Tag("lost")) throw new InvalidOperationException();
        });
        outer = pool.Malloc(512 * MiB);
      }
      Same(Held(pool), "[kv cache, 1], [weights, 2]");
      pool.Free(inner);
      pool.Free(outer);
      Refused<GpuPoolInvalidArgumentException>(Library.TagPop);  // nothing was left behind
      Refused<GpuPoolInvalidArgumentException>(() => new Tag(""));
      Refused<ArgumentNullException>(() => new Tag(null));
      // Whoever pops what is not theirs loses a tag, and nothing else.
      using (new Tag("popped")) {
        Library.TagPop();
        Task.Run(() => pool.Free(pool.Malloc(MiB))).Wait();
      }
      // One that is ended ends those inside it.
      var first = new Tag("first");
      new Tag("second");
      first.Dispose();
      Refused<GpuPoolInvalidArgumentException>(Library.TagPop);
    }
  }

  private static async Task<ulong> Load(Pool pool, string tag, ulong quarters) {
    using (new Tag(tag)) {
      await Task.Delay(1);  // goes on on any thread
      ulong address = pool.Malloc(quarters * 256 * MiB);
      await Task.Yield();
      return address;
    }
  }

  // Threads of the pool do one's work and then another's.
  private static void TestTagsFollowAwaits() {
    using (var pool = new Pool("sim")) {
      for (int round = 0; round < 50; ++round) {
        Task<ulong>[] loads = { Load(pool, "one", 1), Load(pool, "two", 2), Load(pool, "four", 4) };
        ulong mine = pool.Malloc(768 * MiB);
        Task.WaitAll(loads);
        Same(Held(pool), "[, 3], [four, 4], [one, 1], [two, 2]");
        pool.Free(mine);
        foreach (Task<ulong> load in loads) pool.Free(load.Result);
      }
      using (new Tag("begun inside")) {
        ulong address = Task.Run(() => pool.Malloc(256 * MiB)).Result;
        Same(Held(pool), "[begun inside, 1]");
        pool.Free(address);
      }
      Task.Run(() => Refused<GpuPoolInvalidArgumentException>(Library.TagPop)).Wait();
    }
  }

  private static void TestGroups() {
    var config = new Config();
    config.SetDevice("sim");
    config.SetShare("seen");
    config.GuaranteedBytes = 8ul << 30;
    using (var pool = new Pool(config)) {
      ShareGroup group = Library.ShareInfo("seen", Backend.Sim, 0);
      Same(group.Share.Members, 1u);
      Same(group.Share.UsedBytes, 8ul << 30);
      Same(group.Members.Length, 1);
      ShareMember member = group.Members[0];
      Same(member.State, ShareMemberState.Live);
      Same(member.Pid, (ulong)Process.GetCurrentProcess().Id);
      Same(member.GuaranteedBytes, 8ul << 30);
      Library.ShareSet(ShareFigure.MemberPriority, -3, member.Slot, "seen", Backend.Sim);
      Library.ShareSet(ShareFigure.MemberLimit, 32L << 30, member.Slot, "seen", Backend.Sim, 0);
      ShareMember set = Library.ShareInfo("seen", Backend.Sim).Members[0];
      Same(set.Priority, -3);
      Same(set.LimitBytes, 32ul << 30);
      Same(Library.ShareRepair("seen", Backend.Sim), 0L);
      Refused<GpuPoolInvalidArgumentException>(
          () => Library.ShareSet(ShareFigure.MemberPriority, 9, member.Slot, "seen", Backend.Sim));
      Refused<GpuPoolUnavailableException>(() => Library.ShareInfo("nobodys", Backend.Sim));
      Refused<GpuPoolInvalidArgumentException>(() => Library.ShareInfo("a/b", Backend.Sim));
      Refused<GpuPoolInvalidArgumentException>(() => Library.ShareInfo());  // the environment names none
    }
  }

  public static void Main() {
    TestTags();
    TestTagsFollowAwaits();
    TestGroups();
    Same(Library.SimFaults(0), 0ul);
    Console.WriteLine("C#: tags and groups passed");
  }
}
