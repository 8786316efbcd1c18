// SPDX-License-Identifier: Apache-2.0
using System;
using System.Text;
using GpuPool;

/// <summary>Allocate, use, free, and see what the pool did. Runs on a GPU or, without one, on the simulated
/// device.</summary>
public static class Basic {
  public static void Main() {
    Console.WriteLine("on " + Library.DeviceInfo(Backend.Auto, 0).Name);
    using (var pool = new Pool(new Config { LimitBytes = 1UL << 30 }))
    using (Stream stream = pool.CreateStream()) {
      byte[] sent = Encoding.UTF8.GetBytes("there and back");
      using (Block here = pool.Allocate(1 << 20, stream), there = pool.Allocate(1 << 20, stream)) {
        here.Write(sent);
        pool.Copy(there.Address, here.Address, here.Size, stream);
        Console.WriteLine(Encoding.UTF8.GetString(there.Read(0, (ulong)sent.Length)));
      }
      try {
        pool.Malloc(2UL << 30);
      } catch (GpuPoolOutOfMemoryException full) {
        Console.WriteLine("no room: " + full.Message);
      }
      Console.WriteLine("live peak " + pool.Stats().All.AllocatedBytes.Peak);
    }
  }
}
