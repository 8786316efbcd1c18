// SPDX-License-Identifier: Apache-2.0
// What the CUDA runtime's headers need of this one where a compiler for the host reads them. They are
// installed with PyTorch; this one of them comes with CUDA's own compiler, and is used only where that is not
// here.
#pragma once

#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDA_CB

#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __cudart_builtin__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__

#ifndef __forceinline__
#define __forceinline__ __inline__ __attribute__((always_inline))
#endif
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __align__(bytes)
