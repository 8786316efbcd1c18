// SPDX-License-Identifier: Apache-2.0
namespace GpuPool {

/// <summary>Where the memory of a pool comes from, instead of the driver: new Pool(config, upstream). Called on any
/// thread, also on the finalizer's, and may not call the pool. Since 0.2.</summary>
public interface IUpstream {
  /// <summary>Gives memory. The call of the pool that asked throws what it throws.</summary>
  /// <param name="size">Bytes that are wanted.</param>
  /// <param name="stream">The stream that uses them first.</param>
  /// <returns>Their address, a multiple of 512; 0: there is no more.</returns>
  ulong Malloc(ulong size, ulong stream);

  /// <summary>Takes back what Malloc gave; no GPU work uses it any more. What it throws is printed.</summary>
  /// <param name="address">What Malloc returned.</param>
  /// <param name="size">As for Malloc.</param>
  /// <param name="stream">As for Malloc.</param>
  void Free(ulong address, ulong size, ulong stream);
}

}
