// SPDX-License-Identifier: Apache-2.0

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.gpupool.Backend;
import org.gpupool.Block;
import org.gpupool.BlockState;
import org.gpupool.Config;
import org.gpupool.Feature;
import org.gpupool.GpuPool;
import org.gpupool.GpuPoolException;
import org.gpupool.GpuPoolException.HostOutOfMemoryException;
import org.gpupool.GpuPoolException.InvalidArgumentException;
import org.gpupool.GpuPoolException.OutOfMemoryException;
import org.gpupool.GpuPoolException.OverLimitException;
import org.gpupool.GpuPoolException.UnavailableException;
import org.gpupool.GpuPoolException.UnknownPointerException;
import org.gpupool.LogLevel;
import org.gpupool.Pool;
import org.gpupool.SimConfig;
import org.gpupool.SleepMode;
import org.gpupool.SleepState;
import org.gpupool.Status;
import org.gpupool.Stream;

/** Tests of the Java binding on the simulated device. */
public final class PoolTest {
  private static final long MIB = 1 << 20;

  private interface Code {
    void run() throws Exception;
  }

  private static void same(Object found, Object expected) {
    if (!expected.equals(found)) throw new AssertionError("expected " + expected + ", found " + found);
  }

  private static void isTrue(boolean condition) { same(condition, true); }

  private static <E extends Throwable> E thrown(Class<E> type, Code code) {
    try {
      code.run();
    } catch (Throwable problem) {
      if (type.isInstance(problem)) return type.cast(problem);
      throw new AssertionError("expected " + type + ", caught " + problem, problem);
    }
    throw new AssertionError("expected " + type + ", nothing was thrown");
  }

  private static Pool limited(long bytes) {
    Config config = new Config();
    config.setBackend(Backend.SIM);
    config.setLimitBytes(bytes);
    return new Pool(config);
  }

  private static long live(Pool pool) { return pool.stats().getAll().getAllocatedBytes().getCurrent(); }

  private static void library() {
    isTrue(GpuPool.version() >= 100 && GpuPool.versionString().startsWith("0."));
    isTrue((GpuPool.features() & Feature.SIM.swigValue()) != 0);
    same(GpuPool.deviceCount(Backend.SIM), 8);
    same(GpuPool.deviceInfo(Backend.SIM, 1).getTotalBytes(), 150754820096L);
    same(GpuPool.deviceInfo(Backend.SIM, 1).getBackend(), Backend.SIM);
    same(GpuPool.statusName(Status.OVER_LIMIT), "GPUPOOL_ERROR_OVER_LIMIT");
    thrown(InvalidArgumentException.class, () -> GpuPool.deviceInfo(Backend.SIM, 8));
    if ((GpuPool.features() & Feature.CUDA.swigValue()) == 0) {
      thrown(UnavailableException.class, () -> GpuPool.deviceCount(Backend.CUDA));
    }
    GpuPool.setLog(LogLevel.OFF);
  }

  private static void logging() throws Exception {
    List<String> lines = java.util.Collections.synchronizedList(new ArrayList<>());
    GpuPool.setLog(LogLevel.INFO, (level, message) -> lines.add(level + " " + message));
    try (Pool pool = limited(MIB * 64)) {
      isTrue(lines.get(0).startsWith("INFO pool "));
      Thread elsewhere = new Thread(() -> thrown(OverLimitException.class, () -> pool.malloc(65 * MIB)));
      elsewhere.start();
      elsewhere.join();
      isTrue(lines.get(1).startsWith("WARNING GPUPOOL_ERROR_OVER_LIMIT: malloc of 68157440 bytes"));
      // The malloc still throws what a handler throws, after its line.
      pool.setOomHandler((size, attempt) -> { throw new IllegalStateException("from the handler"); });
      thrown(IllegalStateException.class, () -> pool.malloc(65 * MIB));
      same(lines.size(), 3);
    }
    GpuPool.setLog(LogLevel.OFF);
    int count = lines.size();
    new Pool().close();
    same(lines.size(), count);
  }

  private static void addresses() {
    try (Pool pool = new Pool()) {
      long address = pool.malloc(1000);
      same(pool.blockInfo(address + 999).getAddress(), address);
      same(pool.blockInfo(address).getRequestedBytes(), 1000L);
      same(pool.blockInfo(address).getState(), BlockState.LIVE);
      same(live(pool), 1024L);
      pool.free(address);
      same(pool.malloc(0), 0L);
      pool.free(0);
      long aligned = pool.mallocAligned(512, 2 * MIB);
      same(aligned % (2 * MIB), 0L);
      pool.free(aligned, GpuPool.STREAM_UNKNOWN);
      same(live(pool), 0L);
      GpuPoolException failure = thrown(UnknownPointerException.class, () -> pool.free(aligned));
      same(failure.getStatus(), Status.UNKNOWN_POINTER);
      same(failure.getDriverCode(), 0);
      isTrue(thrown(UnknownPointerException.class, () -> pool.free(-512))
                 .getMessage()
                 .contains("0xfffffffffffffe00"));
      same(thrown(InvalidArgumentException.class, () -> pool.malloc(-1)).getMessage(),
          "size is -1: it must not be negative");
      // An int that overflows.
      int gigabyte = 1 << 30;
      isTrue(thrown(InvalidArgumentException.class, () -> pool.malloc(3 * gigabyte))
                 .getMessage()
                 .contains("-1073741824"));
      for (int shift = 46; shift < 63; ++shift) {
        long size = 1L << shift;
        thrown(OutOfMemoryException.class, () -> pool.malloc(size));
        thrown(OutOfMemoryException.class, () -> pool.allocate(size));
      }
      thrown(InvalidArgumentException.class, () -> pool.mallocAligned(1, 3));
    }
  }

  private static void blocks() {
    try (Pool pool = new Pool()) {
      byte[] sent = {1, 2, 3, -4};
      try (Block block = pool.allocate(1000)) {
        block.fill(9);
        block.write(sent, 100);
        isTrue(Arrays.equals(block.read(100, 4), sent));
        same(block.read().length, 1000);
        same(block.read(999)[0], (byte) 9);
        same(block.read(1000).length, 0);
        thrown(InvalidArgumentException.class, () -> block.write(sent, 997));
        thrown(InvalidArgumentException.class, () -> block.read(0, 1001));
        thrown(InvalidArgumentException.class, () -> block.read(-1, 2));
        isTrue(thrown(NullPointerException.class, () -> block.write((byte[]) null))
                   .getMessage()
                   .contains("data is null"));
        same(thrown(InvalidArgumentException.class, () -> block.fill(300)).getMessage(),
            "value is 300: a byte is 0 to 255");
        thrown(InvalidArgumentException.class, () -> pool.fill(block.address(), -1, 1));
        same(block.read(0, 1)[0], (byte) 9);
        Block copy = pool.allocate(1000);
        pool.copy(copy.address(), block.address(), 1000);
        pool.fill(copy.address(), 7, 10);
        same(copy.read(9, 1)[0], (byte) 7);
        same(copy.read(103, 1)[0], (byte) -4);
        copy.free();
        isTrue(copy.isFreed());
        thrown(UnknownPointerException.class, copy::free);
        thrown(UnknownPointerException.class, copy::address);
        same(thrown(UnknownPointerException.class, copy::read).getMessage(), "the block has been freed");
        thrown(UnknownPointerException.class, () -> copy.fill(1));
        thrown(UnknownPointerException.class, () -> copy.recordStream(0));
        copy.close();
      }
      same(live(pool), 0L);
      Block given = pool.allocate(1);
      pool.free(given.release());
      thrown(UnknownPointerException.class, given::release);
      given.close();
      pool.validate();
    }
  }

  private static void streams() {
    try (Pool pool = new Pool()) {
      Stream stream = pool.createStream();
      Stream other = pool.createStream();
      pool.free(pool.malloc(512, stream), stream);
      pool.free(pool.mallocAligned(512, 1024, stream), other);
      pool.reserve(MIB, stream);
      pool.parkStream(stream);
      pool.synchronizeStream(stream);
      same(pool.captureId(stream), 0L);
      thrown(NullPointerException.class, () -> pool.malloc(1, null));
      try (Block block = pool.allocate(512, stream)) {
        pool.fill(block.address(), 5, 512, stream);
        pool.copy(block.address(), block.address() + 256, 256, stream);
        block.recordStream(other);
        // A stream that is refused leaves the block as it was.
        thrown(InvalidArgumentException.class, () -> block.free(2));
        isTrue(!block.isFreed());
        block.free(other);
      }
      other.close();
      thrown(InvalidArgumentException.class, () -> pool.malloc(1, other));
      try (Block block = pool.allocate(MIB, stream.id(), 4096)) {
        same(block.stream(), stream.id());
        block.recordStream(0);
        pool.recordStream(block.address(), 0);
        block.free(GpuPool.STREAM_UNKNOWN);
      }
      stream.synchronize();
      pool.synchronizeStream(stream.id());
      pool.synchronize();
      pool.parkStream(stream.id());
      pool.releaseStream(stream.id());
      stream.close();
      stream.close();
      isTrue(stream.isClosed());
      same(thrown(InvalidArgumentException.class, stream::id).getMessage(), "the stream is closed");
      thrown(InvalidArgumentException.class, stream::synchronize);
      Stream closed = pool.createStream();
      Block left = pool.allocate(512, closed.id());
      closed.close();
      thrown(InvalidArgumentException.class, left::read);
      thrown(InvalidArgumentException.class, () -> left.fill(1));
      left.free();
      thrown(InvalidArgumentException.class, () -> pool.releaseStream(GpuPool.STREAM_UNKNOWN));
    }
  }

  private static void limits() {
    try (Pool pool = limited(64 * MIB)) {
      GpuPoolException failure = thrown(OverLimitException.class, () -> pool.malloc(65 * MIB));
      isTrue(failure instanceof OutOfMemoryException && failure.getMessage().contains("limit"));
      pool.reserve(16 * MIB);
      isTrue(pool.stats().getAll().getReservedBytes().getCurrent() >= 16 * MIB);
      isTrue(pool.trim(2 * MIB) > 0);
      pool.empty();
      same(pool.stats().getAll().getReservedBytes().getCurrent(), 0L);
      pool.setLimit(128 * MIB);
      same(pool.stats().getLimitBytes(), 128 * MIB);
      pool.setFraction(0.5);
      same(pool.stats().getLimitBytes(), 150754820096L / 2);
      thrown(InvalidArgumentException.class, () -> pool.setFraction(Double.NaN));
      pool.resetPeaks();
      same(pool.stats().getAll().getReservedBytes().getPeak(), 0L);
    }
  }

  private static void handlers() {
    try (Pool pool = limited(64 * MIB)) {
      List<Block> cache = new ArrayList<>(List.of(pool.allocate(60 * MIB)));
      List<Integer> attempts = new ArrayList<>();
      pool.setOomHandler((size, attempt) -> {
        same(size, 32 * MIB);
        attempts.add(attempt);
        cache.forEach(Block::close);
        return attempt < 2;
      });
      pool.allocate(32 * MIB).free();
      same(attempts, List.of(1));
      pool.setOomHandler((size, attempt) -> { throw new IllegalStateException("from the handler"); });
      same(thrown(IllegalStateException.class, () -> pool.malloc(65 * MIB)).getMessage(), "from the handler");
      pool.setOomHandler(null);
      thrown(OverLimitException.class, () -> pool.malloc(65 * MIB));
    }
    // It may close even the pool that asks it. The pool then ends with the malloc.
    Pool pool = limited(64 * MIB);
    pool.setOomHandler((size, attempt) -> {
      pool.close();
      return false;
    });
    thrown(OverLimitException.class, () -> pool.malloc(65 * MIB));
    thrown(InvalidArgumentException.class, () -> pool.malloc(1));
  }

  private static Pool sleepers() {
    Config config = new Config();
    config.setBackend(Backend.SIM);
    config.setMaxChunkBytes(2 * MIB);
    return new Pool(config);
  }

  private static void sleeping() {
    try (Pool pool = sleepers()) {
      List<Block> blocks = List.of(pool.allocate(4 * MIB), pool.allocate(4 * MIB), pool.allocate(4 * MIB));
      pool.setName("some");
      var slept = pool.sleep(SleepMode.SAVE, 0, 5 * MIB);
      same(slept.getReleasedBytes(), 8 * MIB);
      same(slept.getPools(), 0);
      same(pool.sleepState(), SleepState.AWAKE);
      same(pool.blockInfo(blocks.get(1).address()).getState(), BlockState.ASLEEP);
      same(pool.blockInfo(blocks.get(2).address()).getState(), BlockState.LIVE);
      same(GpuPool.sleepTag("some", SleepMode.DROP, 0, 1L << 40).getDroppedBytes(), 4 * MIB);
      same(pool.wake().getSavedBytes(), 8 * MIB);
      thrown(InvalidArgumentException.class, () -> pool.sleep(SleepMode.SAVE, 0, -1));
    }
  }

  private static void backups() {
    try (Pool pool = sleepers()) {
      Block kept = pool.allocate(4 * MIB);
      Block lost = pool.allocate(4 * MIB);
      byte[] bytes = new byte[(int) (4 * MIB)];
      for (int i = 0; i < bytes.length; ++i) bytes[i] = (byte) (i * 7);
      kept.write(bytes);
      thrown(UnavailableException.class, () -> pool.readBackup(kept.address()));
      pool.setKeep(kept.address(), true);
      thrown(UnknownPointerException.class, () -> pool.setKeep(kept.address() + 512, true));
      pool.prepareBackup(6 * MIB);
      isTrue(pool.stats().getBackupBytes() >= 6 * MIB);
      thrown(InvalidArgumentException.class, () -> pool.prepareBackup(-1));
      thrown(HostOutOfMemoryException.class, () -> pool.prepareBackup(1L << 60));
      var slept = pool.sleep(SleepMode.DROP);
      same(slept.getSavedBytes(), 4 * MIB);
      same(slept.getDroppedBytes(), 4 * MIB);
      isTrue(Arrays.equals(pool.readBackup(kept.address()), bytes));
      isTrue(Arrays.equals(pool.readBackup(kept.address() + 100, 10), Arrays.copyOfRange(bytes, 100, 110)));
      same(pool.readBackup(kept.address(), 0).length, 0);
      for (ByteBuffer buffer : List.of(ByteBuffer.allocateDirect(40), ByteBuffer.allocate(40))) {
        pool.readBackup(kept.address() + 7, buffer.position(10).limit(30));
        same(buffer.position(), 30);
        for (int i = 0; i < 20; ++i) same(buffer.get(10 + i), bytes[7 + i]);
        same(buffer.get(5), (byte) 0);
      }
      thrown(java.nio.ReadOnlyBufferException.class,
          () -> pool.readBackup(kept.address(), ByteBuffer.allocate(1).asReadOnlyBuffer()));
      thrown(InvalidArgumentException.class, () -> pool.readBackup(kept.address() + 1, 4 * MIB));
      thrown(InvalidArgumentException.class, () -> pool.readBackup(kept.address(), Long.MAX_VALUE));
      thrown(InvalidArgumentException.class, () -> pool.readBackup(kept.address(), -1));
      thrown(UnavailableException.class, () -> pool.readBackup(lost.address()));
      thrown(UnavailableException.class, () -> pool.readBackup(lost.address(), ByteBuffer.allocateDirect(4)));
      thrown(UnknownPointerException.class, () -> pool.readBackup(4096));
      pool.wake();
      isTrue(Arrays.equals(kept.read(), bytes));
      thrown(UnavailableException.class, () -> pool.readBackup(kept.address()));
      pool.setKeep(kept.address(), false);
      same(pool.sleep(SleepMode.DROP).getSavedBytes(), 0L);
      pool.wake();
      pool.prepareBackup(0);
      same(pool.stats().getBackupBytes(), 0L);
    }
    Pool closed = sleepers();
    closed.close();
    thrown(InvalidArgumentException.class, () -> closed.prepareBackup(1));
    thrown(InvalidArgumentException.class, () -> closed.readBackup(4096));
  }

  private static void sleepTags() {
    try (Pool one = sleepers(); Pool two = sleepers()) {
      one.setName("pair");
      two.setName("pair");
      same(GpuPool.sleepTag("pair").getPools(), 2);
      same(GpuPool.wakeTag("pair", 1000).getPools(), 2);
      same(GpuPool.wakeTag("pair").getPools(), 0);
      same(GpuPool.wakeTag("nobody's").getPools(), 0);
      thrown(InvalidArgumentException.class, () -> GpuPool.wakeTag("pair", 0, 1 << 30));
      same(one.sleepState(), SleepState.AWAKE);
    }
  }

  /** A pool that another one needs the memory of, on a device that has room for one of them. */
  private static void allowedSleep() {
    SimConfig small = new SimConfig();
    small.setCapacityBytes(64 * MIB);
    GpuPool.simConfigure(4, small);
    try (Pool idle = new Pool("sim:4"); Pool busy = new Pool("sim:4")) {
      Block block = idle.allocate(40 * MIB);
      block.write(new byte[] {1, 2, 3});
      thrown(OutOfMemoryException.class, () -> busy.malloc(40 * MIB));
      thrown(InvalidArgumentException.class, () -> idle.allowSleep(SleepMode.SAVE, 1 << 30));
      thrown(OutOfMemoryException.class, () -> busy.malloc(40 * MIB));
      idle.allowSleep();
      idle.setSleepHooks(address -> { throw new IllegalStateException("from the hook"); }, null);
      same(thrown(IllegalStateException.class, () -> busy.malloc(40 * MIB)).getMessage(), "from the hook");
      same(idle.sleepState(), SleepState.AWAKE);
      idle.setSleepHooks(null, null);
      long taken = busy.malloc(40 * MIB);
      same(idle.sleepState(), SleepState.ASLEEP);
      busy.free(taken);
      idle.wake();
      isTrue(Arrays.equals(block.read(0, 3), new byte[] {1, 2, 3}));
      same(busy.stats().getAll().getAllocatedBytes().getCurrent(), 0L);
      block.free();
    }
  }

  private static void sleepHooks() {
    List<String> calls = new ArrayList<>();
    try (Pool pool = sleepers()) {
      long block = pool.malloc(4 * MIB);
      pool.setSleepHooks(address -> {
        thrown(UnavailableException.class, () -> pool.wake());
        pool.allocate(MIB).close();
        return calls.add("before " + (address == block));
      }, address -> calls.add("after " + (address == block)));
      System.gc();
      pool.sleep();
      pool.wake();
      pool.sleepBlock(block);
      pool.wakeBlock(block);
      same(calls, List.of("before false", "after false", "before true", "after true"));
      pool.setSleepHooks(address -> false, null);
      thrown(UnavailableException.class, () -> pool.sleep());
      same(pool.sleep(SleepMode.SAVE, 0, 8 * MIB).getSavedBytes(), 0L);
      same(pool.sleepState(), SleepState.AWAKE);
      // What a hook throws is the call's, even if the call succeeds without the block.
      pool.setSleepHooks(address -> { throw new IllegalStateException("from the hook"); }, null);
      same(thrown(IllegalStateException.class, () -> pool.sleep()).getMessage(), "from the hook");
      thrown(IllegalStateException.class, () -> pool.sleep(SleepMode.SAVE, 0, 8 * MIB));
      same(pool.sleepState(), SleepState.AWAKE);
      pool.setSleepHooks(null, address -> { throw new IllegalStateException("from the hook"); });
      pool.sleep();
      thrown(IllegalStateException.class, () -> pool.wake());
      pool.setSleepHooks(null, null);
      pool.wake();
      pool.sleep();
      pool.wake();
      same(calls.size(), 4);
      // On another thread of Java's.
      pool.setSleepHooks(address -> calls.add(Thread.currentThread().getName()), null);
      Thread other = new Thread(pool::sleep, "other");
      other.start();
      other.join();
      same(calls.get(4), "other");
      pool.wake();
      pool.free(block);
    } catch (InterruptedException exception) {
      throw new IllegalStateException(exception);
    }
    Pool closing = sleepers();
    closing.setSleepHooks(address -> {
      closing.close();
      return true;
    }, address -> true);
    closing.sleep();
    thrown(InvalidArgumentException.class, () -> closing.setSleepHooks(null, null));
  }

  private static void watching() {
    try (Pool pool = new Pool()) {
      Block block = pool.allocate(3 * MIB);
      var snapshot = pool.snapshot();
      var live = snapshot.blocks().stream().filter(b -> b.getState() == BlockState.LIVE).toList();
      same(live.size(), 1);
      same(live.get(0).getAddress(), block.address());
      isTrue(snapshot.segments().get(0).getSizeBytes() > 0);
      thrown(InvalidArgumentException.class, () -> snapshot.segment(snapshot.segmentCount()));
      thrown(UnsupportedOperationException.class, () -> snapshot.blocks().clear());
      isTrue(pool.report().contains("1 live block"));
      same(pool.stats().getLarge().getAllocatedBlocks().getCurrent(), 1L);
      isTrue(pool.stats().getDriver().getCreate().getCount() > 0);
    }
  }

  private static Pool simulated(int device) {
    Config config = new Config();
    config.setDevice("sim:" + device);
    return new Pool(config);
  }

  private static void closing() {
    Pool pool = simulated(6);
    Stream stream = pool.createStream();
    Block block = pool.allocate(MIB);
    Block onStream = pool.allocate(MIB, stream);
    onStream.fill(7);
    long address = pool.malloc(MIB);
    pool.close();
    pool.close();
    isTrue(pool.isClosed());
    List<Code> calls = List.of(()
                                   -> pool.malloc(1),
        pool::stats,
        ()
            -> pool.allocate(1),
        pool::createStream, pool::empty, pool::report, pool::snapshot, pool::validate, pool::synchronize,
        () -> pool.setLimit(0), () -> pool.enablePeer(0), () -> pool.setOomHandler((size, attempt) -> false));
    for (Code call : calls)
      same(thrown(InvalidArgumentException.class, call).getMessage(), "the pool is closed");
    // Its streams are closed with it.
    isTrue(stream.isClosed());
    same(thrown(InvalidArgumentException.class, stream::synchronize).getMessage(), "the stream is closed");
    stream.close();
    // Its blocks are as they were.
    block.write(new byte[] {1, 2});
    same(block.read(1, 1)[0], (byte) 2);
    same(onStream.read(0, 1)[0], (byte) 7);
    onStream.fill(8);
    same(onStream.read(9, 1)[0], (byte) 8);
    block.free();
    onStream.close();
    // The pool is there until the last address is freed.
    thrown(InvalidArgumentException.class, () -> GpuPool.simConfigure(6, new SimConfig()));
    thrown(UnknownPointerException.class, () -> pool.free(address + 1));
    pool.free(address);
    same(thrown(InvalidArgumentException.class, () -> pool.free(address)).getMessage(), "the pool is closed");
    GpuPool.simConfigure(6, new SimConfig());
    same(GpuPool.simFaults(6), 0L);
  }

  private static void words() {
    same(GpuPool.parseSize("1.5 KiB"), 1536L);
    thrown(InvalidArgumentException.class, () -> GpuPool.parseSize("a lot"));
    thrown(InvalidArgumentException.class, () -> GpuPool.parseSize("40%"));
    same(GpuPool.parseDevice("sim:3").getBackend(), Backend.SIM);
    same(GpuPool.parseDevice("sim:3").getDevice(), 3);
    thrown(InvalidArgumentException.class, () -> GpuPool.parseDevice("gpu"));
    thrown(InvalidArgumentException.class, () -> new Pool("gpu"));
    thrown(InvalidArgumentException.class, () -> new Pool("sim", "lots"));
    Pool pool = new Pool("sim:1", "64MiB");
    Stream stream = pool.createStream();
    Block block = pool.allocate(1000, stream);
    same(pool.toString(), "pool on sim:1: 2 MiB of 64 MiB reserved, 1 block live");
    same(pool.stats().toString(), "2 MiB of 64 MiB reserved, 1 block live");
    same(block.toString(),
        String.format("block of 1000 bytes at %#x on stream %#x", block.address(), stream.id()));
    block.free();
    same(block.toString(), "block of 1000 bytes: freed");
    same(stream.toString(), String.format("stream %#x", stream.id()));
    stream.close();
    same(stream.toString(), "stream: closed");
    pool.setLimit("50%");
    same(pool.stats().getLimitBytes(), 150754820096L / 2);
    pool.setLimit("1GiB");
    same(pool.stats().getLimitBytes(), 1024 * MIB);
    pool.close();
    same(pool.toString(), "pool: closed");
    Config config = new Config();
    config.setDevice("sim:2");
    config.setLimit("25%");
    try (Pool quarter = new Pool(config)) {
      same(quarter.stats().getDevice(), 2);
      same(quarter.stats().getLimitBytes(), 150754820096L / 4);
    }
  }

  private static void launches() {
    SimConfig sim = new SimConfig();
    sim.setStreams(2);
    GpuPool.simConfigure(7, sim);
    Config config = new Config();
    config.setDevice("sim:7");
    config.setCaptureAware(true);
    try (Pool pool = new Pool(config); Stream stream = pool.createStream();
         Stream other = pool.createStream(); Block block = pool.allocate(4, stream)) {
      block.write(new byte[] {1, 1, 1, 1});
      GpuPool.simCapture(7, stream.id(), true);
      long capture = pool.captureId(stream);
      GpuPool.simWork(7, stream.id(), block.address(), 4, 1_000_000);
      block.fill(9);
      thrown(InvalidArgumentException.class, () -> GpuPool.simLaunch(7, capture, other.id()));
      GpuPool.simCapture(7, stream.id(), false);
      isTrue(Arrays.equals(block.read(), new byte[] {1, 1, 1, 1}));
      GpuPool.simLaunch(7, capture, other.id());
      other.synchronize();
      isTrue(Arrays.equals(block.read(), new byte[] {9, 9, 9, 9}));
      thrown(InvalidArgumentException.class, () -> GpuPool.simLaunch(7, capture + 1, other.id()));
      same(GpuPool.simFaults(7), 0L);
      thrown(GpuPoolException.DriverException.class, () -> GpuPool.simLaunch(7, capture, 12345));
    }
  }

  private static void captures() {
    Config config = new Config();
    config.setDevice("sim:4");
    config.setCaptureAware(true);
    try (Pool pool = new Pool(config); Stream stream = pool.createStream()) {
      GpuPool.simCapture(4, stream.id(), true);
      long capture = pool.captureId(stream);
      isTrue(capture != 0);
      same(pool.captureId(stream.id()), capture);
      pool.free(pool.malloc(MIB, stream), stream);
      thrown(InvalidArgumentException.class, () -> pool.releaseCapture(capture));
      GpuPool.simCapture(4, stream.id(), false);
      pool.releaseCapture(capture);
      thrown(InvalidArgumentException.class, () -> pool.releaseCapture(0));
      pool.announceCapture(true);
      pool.announceCapture(false);
      thrown(InvalidArgumentException.class, () -> pool.announceCapture(false));
      pool.enablePeer(5);
      pool.enablePeer(5);
      thrown(InvalidArgumentException.class, () -> pool.enablePeer(99));
      try (Pool child = pool.createChild()) {
        thrown(InvalidArgumentException.class, () -> child.setLimit(64 * MIB));
      }
    }
  }

  private static void tags() {
    try (Pool pool = limited(1024 * MIB)) {
      GpuPool.tagPush("weights");
      GpuPool.tagPush("kv cache");
      long address = pool.malloc(512 * MIB);
      GpuPool.tagPop();
      Block block = pool.allocate(256 * MIB);
      GpuPool.tagPop();
      thrown(InvalidArgumentException.class, GpuPool::tagPop);
      same(pool.holders().count(), 2);
      same(pool.holders().holder(0).getTag(), "kv cache");
      same(pool.holders().holder(1).getTag(), "weights");
      block.free();
      pool.free(address);
      same(pool.holders().count(), 0);
      thrown(InvalidArgumentException.class, () -> GpuPool.tagPush(""));
    }
  }

  private static long loadWeights(Pool pool) { return pool.malloc(512 * MIB); }

  private static void isFromHere(String stack) {
    String[] lines = stack.split("\n");
    isTrue(lines[0].matches("PoolTest\\.loadWeights \\(PoolTest\\.java:\\d+\\)"));
    isTrue(lines[1].matches("PoolTest\\.frames \\(PoolTest\\.java:\\d+\\)"));
  }

  private static void frames() throws Exception {
    Path folder = Files.createTempDirectory("gpupool");
    Path file = folder.resolve("frames.gpt");
    GpuPool.recordStart(file.toString(), 2);
    try (Pool pool = limited(1024 * MIB)) {
      long address = loadWeights(pool);
      isFromHere(pool.holders().holder(0).getStack());
      isTrue(pool.report().contains("from PoolTest.loadWeights (PoolTest.java:"));
      String refused = thrown(OverLimitException.class, () -> pool.malloc(768 * MIB)).getMessage();
      isTrue(refused.contains("512.00 MiB from PoolTest.loadWeights (PoolTest.java:"));
      pool.free(address);
    }
    GpuPool.recordStop();
    String recorded = new String(Files.readAllBytes(file), StandardCharsets.ISO_8859_1);
    isFromHere(recorded.substring(recorded.indexOf("PoolTest.loadWeights")));
    Files.delete(file);
    Files.delete(folder);
  }

  private static void recording() throws Exception {
    Path folder = Files.createTempDirectory("gpupool");
    Path file = folder.resolve("java.gpt");
    GpuPool.recordStart(file.toString(), 0);
    thrown(InvalidArgumentException.class, () -> GpuPool.recordStart(file + "2", 0));
    GpuPool.mark("step 12");
    GpuPool.recordStop();
    thrown(InvalidArgumentException.class, GpuPool::recordStop);
    GpuPool.mark("nobody listens");
    isTrue(new String(Files.readAllBytes(file), StandardCharsets.ISO_8859_1).contains("step 12"));
    thrown(InvalidArgumentException.class, () -> GpuPool.recordStart(file.toString(), 0));
    Files.delete(file);
    Files.delete(folder);
  }

  /** Collects until the expectation holds, because a collector has no exact moment. */
  private static void untilCollected(Pool pool, long expectedLive) throws InterruptedException {
    for (int i = 0; i < 500 && live(pool) != expectedLive; ++i) {
      System.gc();
      Thread.sleep(10);
    }
    same(live(pool), expectedLive);
  }

  private static void collecting() throws Exception {
    try (Pool pool = new Pool()) {
      for (int i = 0; i < 100; ++i) pool.allocate(1000, pool.createStream().id());
      untilCollected(pool, 0);
    }
    // A pool and a stream are dropped before their block.
    Pool dropped = new Pool();
    Block block = dropped.allocate(100, dropped.createStream().id());
    dropped = null;
    for (int i = 0; i < 3; ++i) System.gc();
    block.write(new byte[] {1});
    block.free();
  }

  /** How often this process has run a full collection. */
  private static long collections() {
    return java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
        .stream()
        .mapToLong(java.lang.management.GarbageCollectorMXBean::getCollectionCount)
        .sum();
  }

  private static void collectingBeforeOutOfMemory() {
    try (Pool pool = limited(64 * MIB)) {
      // The collector runs only when a malloc would fail, and often enough for ten times what fits.
      for (int i = 0; i < 64; ++i) pool.allocate(MIB);
      same(pool.stats().getFailedMallocs(), 0L);
      for (int i = 0; i < 9 * 64; ++i) pool.allocate(MIB);
      pool.free(pool.malloc(48 * MIB));
      pool.free(pool.mallocAligned(48 * MIB, 2 * MIB));

      // What is reachable stays. The collector finds nothing, so the failure is the first one.
      try (Block kept = pool.allocate(32 * MIB)) {
        thrown(OverLimitException.class, () -> pool.malloc(33 * MIB)); // the last of what the loops left
        long failed = pool.stats().getFailedMallocs();
        List<Integer> attempts = new ArrayList<>();
        pool.setOomHandler((size, attempt) -> attempts.add(attempt) && attempt < 2);
        OverLimitException failure = thrown(OverLimitException.class, () -> pool.allocate(33 * MIB));
        isTrue(failure.getMessage().startsWith("malloc of 34603008 bytes"));
        same(attempts, List.of(1, 2));
        same(pool.stats().getFailedMallocs(), failed + 1);
        same(kept.isFreed(), false);
      }

      // What a handler throws is thrown at once.
      pool.setOomHandler((size, attempt) -> { throw new IllegalStateException("from the handler"); });
      long before = collections();
      thrown(IllegalStateException.class, () -> pool.malloc(65 * MIB));
      same(collections(), before);
    }
    // A child keeps what it has mapped, even while that is free.
    try (Pool pool = limited(64 * MIB)) {
      forgetChild(pool);
      pool.free(pool.malloc(48 * MIB));
    }
  }

  private static void forgetChild(Pool pool) {
    Pool child = pool.createChild();
    child.free(child.malloc(48 * MIB));
  }

  private static void threads() throws Exception {
    try (Pool pool = new Pool()) {
      List<Thread> threads = new ArrayList<>();
      for (int t = 0; t < 4; ++t) {
        threads.add(new Thread(() -> {
          for (int i = 0; i < 1000; ++i) pool.allocate(1000 + i).close();
        }));
      }
      Block elsewhere = pool.allocate(5);
      threads.add(new Thread(elsewhere::free));
      for (Thread thread : threads) thread.start();
      for (Thread thread : threads) thread.join();
      same(live(pool), 0L);
      pool.validate();
    }
  }

  private static void sharedPool() {
    Pool first = Pool.shared();
    Pool second = Pool.shared(0);
    long address = first.malloc(512);
    first.close();
    thrown(InvalidArgumentException.class, () -> first.malloc(1));
    second.free(address);
    thrown(InvalidArgumentException.class, () -> Pool.shared(99));
  }

  private static void configs() {
    Config config = new Config();
    config.setBackend(Backend.SIM);
    config.setDevice(2);
    config.setCaptureAware(true);
    config.addPeer(3);
    config.addPeer(4);
    try (Pool pool = new Pool(config)) {
      same(pool.stats().getDevice(), 2);
    }
    config.addPeer(99);
    thrown(InvalidArgumentException.class, () -> new Pool(config));
    config.setFraction(2);
    thrown(InvalidArgumentException.class, () -> new Pool(config));
    same(thrown(NullPointerException.class, () -> new Pool((Config) null)).getMessage(),
        "config is null: a Config is wanted");
    same(thrown(NullPointerException.class, () -> new Pool((String) null)).getMessage(),
        "device is null: a String is wanted");
  }

  private static void handoffs() {
    try (Pool pool = new Pool(); Pool other = new Pool()) {
      long address = pool.malloc(3 * MIB);
      String handle = pool.exportBlock(address);
      var block = other.importBlock(handle);
      same(block.getAllocatedBytes(), 3 * MIB);
      pool.free(address);
      same(pool.stats().getAll().getActiveBytes().getCurrent(), 3 * MIB);
      other.closeImport(block.getAddress());
      same(pool.stats().getAll().getActiveBytes().getCurrent(), 0L);
      thrown(UnknownPointerException.class, () -> other.closeImport(block.getAddress()));
      thrown(UnavailableException.class, () -> other.importBlock(handle));
      thrown(InvalidArgumentException.class, () -> other.importBlock("gpupool"));
    }
  }

  private static void simulatedDevice() {
    int device = 5;
    SimConfig sim = new SimConfig();
    sim.setCapacityBytes(64 * MIB);
    GpuPool.simConfigure(device, sim);
    Config config = new Config();
    config.setBackend(Backend.SIM);
    config.setDevice(device);
    try (Pool pool = new Pool(config)) {
      thrown(InvalidArgumentException.class, () -> GpuPool.simConfigure(device, sim));
      thrown(OutOfMemoryException.class, () -> pool.malloc(65 * MIB));
      GpuPool.simScript(device, "create:*=error");
      thrown(GpuPoolException.DriverException.class, () -> pool.malloc(MIB));
      GpuPool.simScript(device, "");
      thrown(InvalidArgumentException.class, () -> GpuPool.simScript(device, "nonsense"));
      Stream stream = pool.createStream();
      GpuPool.simCapture(device, stream.id(), true);
      GpuPool.simCapture(device, stream.id(), false);
      same(GpuPool.simFaults(device), 0L);
      GpuPool.simAdvance(device, 1000);
      thrown(
          GpuPoolException.DriverException.class, () -> GpuPool.simWork(device, stream.id(), 512, 512, 1000));
      same(GpuPool.simFaults(device), 1L);
      isTrue(!GpuPool.simLastFault(device).isEmpty());
    }
  }

  public static void main(String[] arguments) throws Exception {
    Code[] tests = {
        PoolTest::library,
        PoolTest::logging,
        PoolTest::addresses,
        PoolTest::blocks,
        PoolTest::streams,
        PoolTest::limits,
        PoolTest::handlers,
        PoolTest::sleeping,
        PoolTest::backups,
        PoolTest::sleepTags,
        PoolTest::allowedSleep,
        PoolTest::sleepHooks,
        PoolTest::watching,
        PoolTest::tags,
        PoolTest::recording,
        PoolTest::frames,
        PoolTest::closing,
        PoolTest::words,
        PoolTest::captures,
        PoolTest::launches,
        PoolTest::collecting,
        PoolTest::collectingBeforeOutOfMemory,
        PoolTest::threads,
        PoolTest::sharedPool,
        PoolTest::configs,
        PoolTest::handoffs,
        PoolTest::simulatedDevice,
    };
    for (Code test : tests) test.run();
    System.out.println("Java: " + tests.length + " tests passed");
  }
}
