/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of blocks: see dlpack.h. Deleters are called by any thread, with or without Python's lock, also
 * after the interpreter has gone; they touch nothing of Python. */
#include <Python.h>
#include <gpupool/gpupool.h>
#include <stdlib.h>

#include "glue.h"

#include "dlpack.h"

/* A tensor with the arrays that it points to. */
typedef struct exported_legacy_t {
  dlpack_legacy_t managed;
  int64_t shape;
  int64_t stride;
} exported_legacy_t;

typedef struct exported_versioned_t {
  dlpack_versioned_t managed;
  int64_t shape;
  int64_t stride;
} exported_versioned_t;

static void delete_legacy(dlpack_legacy_t* self) {
  gpupool_py_block_release(self->context);
  free(self);
}

static void delete_versioned(dlpack_versioned_t* self) {
  gpupool_py_block_release(self->context);
  free(self);
}

/* One dimension of bytes. */
static dlpack_tensor_t bytes_tensor(const gpupool_py_block_t* block, dlpack_device_t device, int64_t* shape,
                                    int64_t* stride) {
  return (dlpack_tensor_t){.data = (void*)(uintptr_t)block->address,
                           .device = device,
                           .dimensions = 1,
                           .type = {.code = 1, .bits = 8, .lanes = 1},
                           .shape = shape,
                           .strides = stride};
}

dlpack_legacy_t* gpupool_py_export_legacy(gpupool_py_block_t* block, uint64_t size, dlpack_device_t device) {
  exported_legacy_t* tensor = malloc(sizeof *tensor);
  if (tensor == NULL || !gpupool_py_block_hold(block)) {
    free(tensor);
    return NULL;
  }
  tensor->shape = (int64_t)size;
  tensor->stride = 1;
  tensor->managed = (dlpack_legacy_t){.tensor = bytes_tensor(block, device, &tensor->shape, &tensor->stride),
                                      .context = block,
                                      .deleter = delete_legacy};
  return &tensor->managed;
}

dlpack_versioned_t* gpupool_py_export_versioned(gpupool_py_block_t* block, uint64_t size,
                                                dlpack_device_t device) {
  exported_versioned_t* tensor = malloc(sizeof *tensor);
  if (tensor == NULL || !gpupool_py_block_hold(block)) {
    free(tensor);
    return NULL;
  }
  tensor->shape = (int64_t)size;
  tensor->stride = 1;
  tensor->managed =
      (dlpack_versioned_t){.major = 1,
                           .minor = 0,
                           .tensor = bytes_tensor(block, device, &tensor->shape, &tensor->stride),
                           .context = block,
                           .deleter = delete_versioned};
  return &tensor->managed;
}

void gpupool_py_delete_legacy(dlpack_legacy_t* taken) {
  if (taken->deleter != NULL) taken->deleter(taken);
}

void gpupool_py_delete_versioned(dlpack_versioned_t* taken) {
  if (taken->deleter != NULL) taken->deleter(taken);
}

/* Who takes the tensor renames the capsule. */
void gpupool_py_drop_capsule(void* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    gpupool_py_delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    gpupool_py_delete_legacy(PyCapsule_GetPointer(capsule, "dltensor"));
  }
}
