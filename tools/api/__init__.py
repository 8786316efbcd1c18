# SPDX-License-Identifier: Apache-2.0
"""The public header as data: a parser, a model, and writers of the derived files."""
