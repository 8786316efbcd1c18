// SPDX-License-Identifier: Apache-2.0
module github.com/gpupool/gpupool/bindings/go

go 1.24
