/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of blocks: see dlpack.h. Any thread may call a deleter, with or without Python's lock, even after
 * the interpreter has gone; so deleters touch nothing of Python. */
#include <Python.h>
#include <gpupool/gpupool.h>
#include <stdlib.h>

#include "glue.h"

#include "dlpack.h"

static void delete_legacy(dlpack_legacy_t* self) {
  gpupool_py_block_release(self->context);
  free(self);
}

static void delete_versioned(dlpack_versioned_t* self) {
  gpupool_py_block_release(self->context);
  free(self);
}

/* Makes room for a struct of size bytes, and behind it for the arrays that a tensor points to. NULL: the
 * block is freed already, or the host has no memory. */
static void* hold_and_make(gpupool_py_block_t* block, size_t size, const dlpack_tensor_t* tensor) {
  void* made = malloc(size + 2 * sizeof(int64_t) * (size_t)tensor->dimensions);
  if (made == NULL || !gpupool_py_block_hold(block)) {
    free(made);
    return NULL;
  }
  return made;
}

/* The same tensor with arrays of its own; its elements lie in C order. */
static dlpack_tensor_t with_arrays(const dlpack_tensor_t* tensor, int64_t* arrays) {
  dlpack_tensor_t made = *tensor;
  made.shape = arrays;
  made.strides = arrays + tensor->dimensions;
  int64_t stride = 1;
  for (int32_t i = tensor->dimensions - 1; i >= 0; --i) {
    made.shape[i] = tensor->shape[i];
    made.strides[i] = stride;
    stride *= tensor->shape[i];
  }
  return made;
}

dlpack_legacy_t* gpupool_py_export_legacy(gpupool_py_block_t* block, const dlpack_tensor_t* tensor) {
  dlpack_legacy_t* made = hold_and_make(block, sizeof *made, tensor);
  if (made == NULL) return NULL;
  *made = (dlpack_legacy_t){
      .tensor = with_arrays(tensor, (int64_t*)(made + 1)), .context = block, .deleter = delete_legacy};
  return made;
}

dlpack_versioned_t* gpupool_py_export_versioned(gpupool_py_block_t* block, const dlpack_tensor_t* tensor) {
  dlpack_versioned_t* made = hold_and_make(block, sizeof *made, tensor);
  if (made == NULL) return NULL;
  *made = (dlpack_versioned_t){.major = 1,
                               .minor = 0,
                               .context = block,
                               .deleter = delete_versioned,
                               .tensor = with_arrays(tensor, (int64_t*)(made + 1))};
  return made;
}

void gpupool_py_delete_legacy(dlpack_legacy_t* taken) {
  if (taken->deleter != NULL) taken->deleter(taken);
}

void gpupool_py_delete_versioned(dlpack_versioned_t* taken) {
  if (taken->deleter != NULL) taken->deleter(taken);
}

/* Whoever takes the tensor renames the capsule. */
void gpupool_py_drop_capsule(void* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    gpupool_py_delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    gpupool_py_delete_legacy(PyCapsule_GetPointer(capsule, "dltensor"));
  }
}
