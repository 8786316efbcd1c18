// SPDX-License-Identifier: Apache-2.0
#include "frameworks/audit/arrays.hpp"

#include <algorithm>
#include <bit>

namespace gpupool::audit {
namespace {

/// Of one channel. Images of video but NV12 are taken for one byte.
unsigned bytes_of(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X4: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4;
    default: return 1;
  }
}

/// Compressed, in blocks of 4 by 4 elements of all channels; 0: it is not.
unsigned bytes_of_block(CUarray_format format) {
  if (format < CU_AD_FORMAT_BC1_UNORM || format > CU_AD_FORMAT_BC7_UNORM_SRGB) return 0;
  const bool is_half = format <= CU_AD_FORMAT_BC1_UNORM_SRGB || format == CU_AD_FORMAT_BC4_UNORM ||
                       format == CU_AD_FORMAT_BC4_SNORM;
  return is_half ? 8 : 16;
}

uint64_t bytes_of_plane(const CUDA_ARRAY3D_DESCRIPTOR& array) {
  const uint64_t height = std::max<uint64_t>(array.Height, 1);
  if (const unsigned block = bytes_of_block(array.Format); block != 0)
    return product(product(array.Width / 4 + (array.Width % 4 != 0), height / 4 + (height % 4 != 0)), block);
  const uint64_t elements = product(array.Width, height);
  if (array.Format != CU_AD_FORMAT_NV12)
    return product(elements, uint64_t{bytes_of(array.Format)} * array.NumChannels);
  return product(elements, 3) == kTooMuch ? kTooMuch : elements * 3 / 2;  // two colours for each 2 by 2
}

}  // namespace

uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR& array) noexcept {
  if ((array.Flags & (kArraySparse | kArrayDeferred)) != 0) return 0;
  return product(bytes_of_plane(array), std::max<uint64_t>(array.Depth, 1));
}

uint64_t bytes_of(CUDA_ARRAY3D_DESCRIPTOR array, unsigned levels) noexcept {
  const bool has_layers = (array.Flags & (kArrayLayered | kArrayCubemap)) != 0;  // as its depth
  const auto most = static_cast<unsigned>(
      std::bit_width(std::max({array.Width, array.Height, has_layers ? 0 : array.Depth})));
  uint64_t bytes = 0;
  for (unsigned level = 0; level < std::min(levels, most); ++level) {
    if (__builtin_add_overflow(bytes, bytes_of(array), &bytes)) return kTooMuch;
    array.Width = std::max<size_t>(array.Width / 2, 1);
    array.Height /= 2;
    if (!has_layers) array.Depth /= 2;
  }
  return bytes;
}

}  // namespace gpupool::audit
