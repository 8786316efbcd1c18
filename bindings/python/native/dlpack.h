/* SPDX-License-Identifier: Apache-2.0 */
/* The structs of DLPack 1.x, as its specification lays them out, and the functions that make tensors of
 * blocks. cffi reads this file as it is, so it has no preprocessor lines. Include gpupool.h and glue.h
 * first. */

typedef struct dlpack_device_t {
  int32_t type;
  int32_t number;
} dlpack_device_t;

typedef struct dlpack_type_t {
  /* 0 signed, 1 unsigned, 2 float, 4 bfloat, 5 complex, 6 bool */
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} dlpack_type_t;

typedef struct dlpack_tensor_t {
  void* data;
  dlpack_device_t device;
  int32_t dimensions;
  dlpack_type_t type;
  int64_t* shape;
  /* In elements. NULL, in old versions: C order. */
  int64_t* strides;
  uint64_t byte_offset;
} dlpack_tensor_t;

/* Without a version, as capsule "dltensor". */
typedef struct dlpack_legacy_t {
  dlpack_tensor_t tensor;
  void* context;
  void (*deleter)(struct dlpack_legacy_t* self);
} dlpack_legacy_t;

/* From version 1.0 on, as capsule "dltensor_versioned". With another major version, only the first two fields
 * and the deleter can be relied on. */
typedef struct dlpack_versioned_t {
  uint32_t major;
  uint32_t minor;
  void* context;
  void (*deleter)(struct dlpack_versioned_t* self);
  /* Bit 0: read only. Bit 1: a copy. */
  uint64_t flags;
  dlpack_tensor_t tensor;
} dlpack_versioned_t;

/* A copy of a tensor with elements in C order in a block. It holds the block until its deleter is called.
 * NULL: the block is freed already, or the host has no memory. */
dlpack_legacy_t* gpupool_py_export_legacy(gpupool_py_block_t* block, const dlpack_tensor_t* tensor);
dlpack_versioned_t* gpupool_py_export_versioned(gpupool_py_block_t* block, const dlpack_tensor_t* tensor);

/* For PyCapsule_New: calls the deleter of a tensor that nobody took. */
void gpupool_py_drop_capsule(void* capsule);

/* Calls the deleter of a tensor that was taken. */
void gpupool_py_delete_legacy(dlpack_legacy_t* taken);
void gpupool_py_delete_versioned(dlpack_versioned_t* taken);
