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
    block.Write(ref FirstByte(source, out ulong length), length, offset);
  }

  /// <summary>Fills the span from offset (in bytes) on, behind the work on the block's stream, and waits.</summary>
  public static void Read<T>(this Block block, Span<T> target, ulong offset = 0) where T : struct {
    block.Read(ref FirstByte<T>(target, out ulong length), length, offset);
  }

  /// <summary>Fills the span with what was saved of the sleeping block at an address, which may point anywhere inside
  /// it.</summary>
  public static void ReadBackup<T>(this Pool pool, ulong address, Span<T> target) where T : struct {
    pool.ReadBackup(ref FirstByte<T>(target, out ulong length), length, address);
  }

  /// <summary>The same with a part of a block.</summary>
  public static void Write<T>(this Slice slice, ReadOnlySpan<T> source, ulong offset = 0) where T : struct {
    slice.Write(ref FirstByte(source, out ulong length), length, offset);
  }

  /// <summary>The same with a part of a block.</summary>
  public static void Read<T>(this Slice slice, Span<T> target, ulong offset = 0) where T : struct {
    slice.Read(ref FirstByte<T>(target, out ulong length), length, offset);
  }

  // Where the span begins, and how many bytes it has: a span of them all would have room for 2 GiB only.
  private static ref byte FirstByte<T>(ReadOnlySpan<T> span, out ulong length) where T : struct {
    ReadOnlySpan<byte> first = MemoryMarshal.AsBytes(span.Slice(0, Math.Min(span.Length, 1)));
    length = (ulong)first.Length * (ulong)span.Length;
    return ref MemoryMarshal.GetReference(first);
  }
}

}  // namespace GpuPool
