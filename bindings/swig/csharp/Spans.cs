// SPDX-License-Identifier: Apache-2.0
// Spans for Block and Slice. A program that uses them compiles this source file itself, so the library runs where there
// are no spans, and needs no package for them.
using System;
using System.Runtime.InteropServices;

namespace GpuPool {

/// <summary>Copies to and from spans of numbers. Since 0.2.</summary>
internal static class Spans {
  /// <summary>Copies into the block, from offset (in bytes) on, behind the work on its stream, and waits.</summary>
  public static void Write<T>(this Block block, ReadOnlySpan<T> source, ulong offset = 0) where T : struct {
    ReadOnlySpan<byte> bytes = MemoryMarshal.AsBytes(source);
    block.Write(ref MemoryMarshal.GetReference(bytes), (ulong)bytes.Length, offset);
  }

  /// <summary>Fills the span from offset (in bytes) on, behind the work on the block's stream, and waits.</summary>
  public static void Read<T>(this Block block, Span<T> target, ulong offset = 0) where T : struct {
    Span<byte> bytes = MemoryMarshal.AsBytes(target);
    block.Read(ref MemoryMarshal.GetReference(bytes), (ulong)bytes.Length, offset);
  }

  /// <summary>Fills the span with what was saved of the sleeping block at an address, which may point anywhere inside
  /// it.</summary>
  public static void ReadBackup<T>(this Pool pool, ulong address, Span<T> target) where T : struct {
    Span<byte> bytes = MemoryMarshal.AsBytes(target);
    pool.ReadBackup(ref MemoryMarshal.GetReference(bytes), (ulong)bytes.Length, address);
  }

  /// <summary>The same with a part of a block.</summary>
  public static void Write<T>(this Slice slice, ReadOnlySpan<T> source, ulong offset = 0) where T : struct {
    ReadOnlySpan<byte> bytes = MemoryMarshal.AsBytes(source);
    slice.Write(ref MemoryMarshal.GetReference(bytes), (ulong)bytes.Length, offset);
  }

  /// <summary>The same with a part of a block.</summary>
  public static void Read<T>(this Slice slice, Span<T> target, ulong offset = 0) where T : struct {
    Span<byte> bytes = MemoryMarshal.AsBytes(target);
    slice.Read(ref MemoryMarshal.GetReference(bytes), (ulong)bytes.Length, offset);
  }
}

}  // namespace GpuPool
