// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.InteropServices;
using System.Threading;

namespace GpuPool {

/// <summary>Called before a malloc fails, on the thread of the malloc: frees something, if it can, and says whether the
/// malloc should be tried again. It may call anything but the pool's Dispose. The malloc throws what it
/// throws.</summary>
/// <param name="size">Bytes that are wanted.</param>
/// <param name="attempt">Counts from 1.</param>
public delegate bool OomHandler(ulong size, uint attempt);

/// <summary>Called before memory goes, or once it is there again, on the thread of the sleep or the wake; on a thread
/// of the library if another process asks. It may use any pool; only calls that sleep, wake or prepare the same pool
/// are refused. What it throws counts as false, and the sleep or the wake throws it. Since 0.2.</summary>
/// <param name="address">The block that sleeps or wakes alone; 0: all of the pool.</param>
/// <returns>Whether the memory may go, or whether all is well again.</returns>
public delegate bool SleepHook(ulong address);

/// <summary>Receives a line of the log, on whatever thread it comes from. It must not call gpupool. What it throws is
/// printed.</summary>
public delegate void LogReceiver(LogLevel level, string message);

/// <summary>What the native code calls back.</summary>
internal static class Callbacks {
  [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
  private delegate void RaiseFunction(int status, int driverCode, IntPtr message);
  [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
  private delegate void TakeBytesFunction(IntPtr data, ulong length);
  [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
  private delegate int AskFunction(IntPtr handler, ulong size, uint attempt);
  [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
  private delegate void LogFunction(IntPtr receiver, int level, IntPtr message);
  [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
  private delegate void ReleaseFunction(IntPtr handle);
  [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
  private delegate int CollectFunction();
  [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
  private delegate int HookFunction(IntPtr hook, ulong address, int isInside);

  [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
  private delegate int UpstreamMallocFunction(IntPtr upstream, ulong size, ulong stream, out ulong address,
                                              int isInside);
  [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
  private delegate void UpstreamFreeFunction(IntPtr upstream, ulong address, ulong size, ulong stream);

  [StructLayout(LayoutKind.Sequential)]
  private struct Table {
    public RaiseFunction Raise;
    public TakeBytesFunction TakeBytes;
    public AskFunction Ask;
    public LogFunction Log;
    public ReleaseFunction Release;
    public CollectFunction Collect;
    public HookFunction Hook;
    public UpstreamMallocFunction UpstreamMalloc;
    public UpstreamFreeFunction UpstreamFree;
  }

  [DllImport("gpupool_csharp")]
  private static extern void gpupool_csharp_set_callbacks(ref Table table);

  // Holds the delegates for as long as the native code may call them.
  private static Table table;

  private static readonly TimeSpan LongestWait = TimeSpan.FromSeconds(1);

  [ThreadStatic]
  private static Exception thrownByHandler;
  [ThreadStatic]
  private static byte[] bytes;

  static Callbacks() {
    table = new Table { Raise = Raise, TakeBytes = TakeBytes, Ask = Ask, Log = Log, Release = Release,
                        Collect = Collect, Hook = Hook, UpstreamMalloc = UpstreamMalloc,
                        UpstreamFree = UpstreamFree };
    gpupool_csharp_set_callbacks(ref table);
  }

  /// <summary>Runs the static constructor.</summary>
  internal static bool Register() {
    return true;
  }

  /// <summary>The argument, which must be there.</summary>
  internal static T NotNull<T>(T argument, string name) where T : class {
    if (argument == null) throw new ArgumentNullException(name);
    return argument;
  }

  /// <summary>The bytes that a native function has left here to be returned.</summary>
  internal static byte[] TakenBytes() {
    byte[] taken = bytes;
    bytes = null;
    return taken;
  }

  /// <summary>A delegate, or an object, as the native code holds it until it calls Release.</summary>
  internal static IntPtr Hold(object function) {
    return function == null ? IntPtr.Zero : GCHandle.ToIntPtr(GCHandle.Alloc(function));
  }

  private static void Raise(int status, int driverCode, IntPtr message) {
    Exception exception = thrownByHandler ??
        GpuPoolException.Of((Status)status, driverCode, Marshal.PtrToStringAnsi(message));
    thrownByHandler = null;
    LibraryPINVOKE.SWIGPendingException.Set(exception);
  }

  private static void TakeBytes(IntPtr data, ulong length) {
    try {
      bytes = new byte[length];
      Marshal.Copy(data, bytes, 0, bytes.Length);
    } catch (Exception exception) {
      LibraryPINVOKE.SWIGPendingException.Set(exception);
    }
  }

  // An exception must not cross the native code: it waits until the malloc has failed.
  private static int Ask(IntPtr handler, ulong size, uint attempt) {
    try {
      return ((OomHandler)GCHandle.FromIntPtr(handler).Target)(size, attempt) ? 1 : 0;
    } catch (Exception exception) {
      thrownByHandler = exception;
      return 0;
    }
  }

  // The same. Nobody is asked any more once there is something to throw; on a thread of the library nobody would.
  private static int Hook(IntPtr hook, ulong address, int isInside) {
    if (thrownByHandler != null) return 0;
    try {
      return ((SleepHook)GCHandle.FromIntPtr(hook).Target)(address) ? 1 : 0;
    } catch (Exception exception) {
      return Keep(exception, isInside);
    }
  }

  private static int UpstreamMalloc(IntPtr upstream, ulong size, ulong stream, out ulong address, int isInside) {
    address = 0;
    if (thrownByHandler != null) return 0;
    try {
      address = ((IUpstream)GCHandle.FromIntPtr(upstream).Target).Malloc(size, stream);
      return address == 0 ? 0 : 1;
    } catch (Exception exception) {
      return Keep(exception, isInside);
    }
  }

  private static int Keep(Exception exception, int isInside) {
    if (isInside == 0) {
      Console.Error.WriteLine(exception);
      return 0;
    }
    thrownByHandler = exception;
    return -1;
  }

  private static void UpstreamFree(IntPtr upstream, ulong address, ulong size, ulong stream) {
    try {
      ((IUpstream)GCHandle.FromIntPtr(upstream).Target).Free(address, size, stream);
    } catch (Exception exception) {
      Console.Error.WriteLine(exception);
    }
  }

  private static void Log(IntPtr receiver, int level, IntPtr message) {
    try {
      ((LogReceiver)GCHandle.FromIntPtr(receiver).Target)((LogLevel)level, Marshal.PtrToStringAnsi(message));
    } catch (Exception exception) {
      Console.Error.WriteLine(exception);
    }
  }

  // A finalizer of the program may want a lock that this thread holds, so the wait for all of them has an end.
  private static int Collect() {
    if (thrownByHandler != null) return 0;
    try {
      GC.Collect();
      var waiter = new Thread(GC.WaitForPendingFinalizers) { IsBackground = true };
      waiter.Start();
      waiter.Join(LongestWait);
      return 1;
    } catch (Exception) {
      return 0;  // the malloc fails as it would without a collector
    }
  }

  private static void Release(IntPtr handle) {
    GCHandle.FromIntPtr(handle).Free();
  }
}

}
