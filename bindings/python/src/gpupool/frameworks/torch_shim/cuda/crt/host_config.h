// SPDX-License-Identifier: Apache-2.0
// For compilers of the host, CUDA's own only refuses some.
#pragma once
