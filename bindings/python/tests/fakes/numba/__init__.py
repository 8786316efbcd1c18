# SPDX-License-Identifier: Apache-2.0
"""Numba: see numba.cuda."""
