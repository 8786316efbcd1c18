// SPDX-License-Identifier: Apache-2.0
// A round trip through arrays.
using System;
using System.Text;
using GpuPool;

public static class Plain {
  public static void Main() {
    using (var pool = new Pool("sim", "64MiB"))
    using (Block block = pool.Allocate(1 << 20)) {
      pool.SetOomHandler((size, attempt) => false);
      block.Write(Encoding.ASCII.GetBytes("there and back"));
      try {
        pool.Allocate(1 << 30);
      } catch (GpuPoolOverLimitException) {
        Console.WriteLine(Encoding.ASCII.GetString(block.Read(0, 14)) + " on .NET");
      }
    }
  }
}
