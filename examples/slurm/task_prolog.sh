#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Slurm's TaskProlog, in slurm.conf. Slurm puts what it prints as "export NAME=value" into the task's environment, so
# each task is limited to its part of the job's GPUs.
shards_per_device=8 # Count= of gres/shard for one GPU, in gres.conf

# Leaves alone jobs without a GPU, and what the job has set itself.
if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
  [ -n "${GPUPOOL_CAP:-}" ] || echo "export GPUPOOL_CAP=auto"
  [ -z "${SLURM_SHARDS_ON_NODE:-}" ] || echo "export GPUPOOL_SHARDS_PER_DEVICE=$shards_per_device"
fi
