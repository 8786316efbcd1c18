// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.InteropServices;

namespace GpuPool {

/// <summary>Asked before a malloc fails, on the thread of the malloc: frees something, if it can, and says whether
/// the malloc should be tried again. It may call anything but the pool's Dispose. What it throws is thrown by the
/// malloc.</summary>
/// <param name="size">Bytes that are wanted.</param>
/// <param name="attempt">Counts from 1.</param>
public delegate bool OomHandler(ulong size, uint attempt);

/// <summary>What the native code calls back.</summary>
internal static class Callbacks {
  [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
  private delegate void RaiseFunction(int status, int driverCode, IntPtr message);
  [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
  private delegate void TakeBytesFunction(IntPtr data, ulong length);
  [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
  private delegate int AskFunction(IntPtr handler, ulong size, uint attempt);
  [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
  private delegate void ReleaseFunction(IntPtr handler);

  [StructLayout(LayoutKind.Sequential)]
  private struct Table {
    public RaiseFunction Raise;
    public TakeBytesFunction TakeBytes;
    public AskFunction Ask;
    public ReleaseFunction Release;
  }

  [DllImport("gpupool_csharp")]
  private static extern void gpupool_csharp_set_callbacks(ref Table table);

  // Holds the delegates for as long as the native code may call them.
  private static Table table;

  [ThreadStatic]
  private static Exception thrownByHandler;
  [ThreadStatic]
  private static byte[] bytes;

  static Callbacks() {
    table = new Table { Raise = Raise, TakeBytes = TakeBytes, Ask = Ask, Release = Release };
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

  /// <summary>What a native function that returns bytes has left.</summary>
  internal static byte[] TakenBytes() {
    byte[] taken = bytes;
    bytes = null;
    return taken;
  }

  /// <summary>A handler as the native code holds it, until it calls Release.</summary>
  internal static IntPtr Hold(OomHandler handler) {
    return handler == null ? IntPtr.Zero : GCHandle.ToIntPtr(GCHandle.Alloc(handler));
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

  private static void Release(IntPtr handler) {
    GCHandle.FromIntPtr(handler).Free();
  }
}

}
