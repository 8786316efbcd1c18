// SPDX-License-Identifier: Apache-2.0
#include "types.hpp"
