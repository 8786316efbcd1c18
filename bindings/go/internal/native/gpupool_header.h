// SPDX-License-Identifier: Apache-2.0
// The C library's header. Written by packaging/go/amalgamate.py.
#include "../../../../include/gpupool/gpupool.h"
