// SPDX-License-Identifier: Apache-2.0
import java.util.concurrent.atomic.AtomicReference;
import org.gpupool.*;

/** Thread.interrupt() ends what waits. */
public final class InterruptsTest {
  private static final int MIB = 1 << 20;
  private static final long MINUTE = 60_000_000_000L;

  public static void main(String[] arguments) throws Exception {
    endsAMallocThatIsHeld();
    endsAWakeThatWaits();
    doesNotEndOthers();
    System.out.println("interrupts: passed");
  }

  private interface Call {
    void run() throws Exception;
  }

  /** Runs a call on a thread of its own, which is interrupted, and gives what it threw. */
  private static Throwable interrupted(Call call) throws Exception {
    AtomicReference<Throwable> thrown = new AtomicReference<>();
    Thread thread = new Thread(() -> {
      try {
        call.run();
      } catch (Throwable failure) {
        check(Thread.interrupted(), "the thread's mark is gone");
        thrown.set(failure);
      }
    });
    thread.setDaemon(true);
    thread.start();
    Thread.sleep(300);
    thread.interrupt();
    thread.join(20_000);
    check(!thread.isAlive(), "the call still waits");
    return thrown.get();
  }

  private static void endsAMallocThatIsHeld() throws Exception {
    try (Pool pool = new Pool("sim")) {
      long block = pool.malloc(4 * MIB);
      pool.sleep(SleepMode.SAVE, SleepFlag.HOLD_MALLOCS.swigValue());
      Throwable thrown = interrupted(() -> pool.malloc(MIB));
      check(thrown instanceof GpuPoolException.InterruptedException, "thrown was " + thrown);
      thrown = interrupted(() -> pool.allocate(MIB).close());
      check(thrown instanceof GpuPoolException.InterruptedException, "thrown was " + thrown);
      check(pool.sleepState() == SleepState.ASLEEP, "the pool woke");
      pool.wake();
      pool.free(block);
    }
  }

  private static void endsAWakeThatWaits() throws Exception {
    SimConfig config = new SimConfig();
    config.setCapacityBytes(64 * MIB);
    GpuPool.simConfigure(3, config);
    try (Pool pool = new Pool("sim:3"); Pool other = new Pool("sim:3");
         Block block = pool.allocate(16 * MIB)) {
      block.write(new byte[] {7});
      pool.sleep();
      long taken = other.malloc(60 * MIB);
      Throwable thrown = interrupted(() -> pool.wake(MINUTE));
      check(thrown instanceof GpuPoolException.InterruptedException, "thrown was " + thrown);
      other.free(taken);
      pool.wake();
      check(block.read(0, 1)[0] == 7, "the contents are lost");
    }
  }

  private static void doesNotEndOthers() throws Exception {
    try (Pool pool = new Pool("sim")) {
      long block = pool.malloc(4 * MIB);
      pool.sleep(SleepMode.SAVE, SleepFlag.HOLD_MALLOCS.swigValue());
      long[] got = {0};
      Thread waits = new Thread(() -> got[0] = pool.malloc(MIB));
      waits.start();
      interrupted(() -> pool.malloc(MIB));
      Thread.sleep(200);
      check(waits.isAlive(), "another thread's wait was ended");
      pool.wake();
      waits.join();
      check(got[0] != 0, "no memory came");
      pool.free(got[0]);
      pool.free(block);
    }
  }

  private static void check(boolean holds, String otherwise) {
    if (!holds) throw new AssertionError(otherwise);
  }
}
