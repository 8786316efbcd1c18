/* SPDX-License-Identifier: Apache-2.0 */
/* The extension module gpupool._hot: malloc and free as methods in C, which cost less than methods in Python
 * over cffi, and Python's buffer protocol, which a class in Python can have from 3.12 on only. The rest of a
 * pool and of a buffer is written in Python, in classes derived from these. */
#include <Python.h>
#include <gpupool/gpupool.h>
#include <string.h>

#include "glue.h"

typedef struct hot_t {
  PyObject base;
  /* One of the pool's owners. A call holds on to it while it runs. */
  PyObject* owner;
  /* What owner points to. */
  gpupool_py_pool_t* pool;
  /* 1: refuses everything but frees; owner only keeps the record of the pool. */
  int is_closed;
} hot_t;

/* A call on a pool in which the library may call functions of the user, on this thread. Their exceptions
 * cannot pass through the library, so they wait here until the call returns. */
typedef struct call_t {
  struct call_t* outer;
  const gpupool_t* pool;
  /* A list, or NULL: none. _callbacks.py says what is in it. */
  PyObject* raised;
} call_t;

/* The innermost one. */
static _Thread_local call_t* current_call;

static call_t* begin_call(call_t* call, const gpupool_t* pool) {
  *call = (call_t){.outer = current_call, .pool = pool, .raised = NULL};
  return current_call = call;
}

static void end_call(call_t* call) {
  current_call = call->outer;
}

/* _tags.py: what gives the tags of the context, and what makes the thread's those. NULL: nobody uses tags. */
static PyObject* tags_of_context;
static PyObject* follow;

/* The tags that this thread has told the library; NULL is None. _tags.py keeps the object. */
static _Thread_local PyObject* applied;

/* Before a malloc. Returns 0 with an exception. */
static int follow_context(void) {
  if (tags_of_context == NULL) return 1;
  PyObject* tags = PyObject_CallNoArgs(tags_of_context);
  if (tags == NULL) return 0;
  PyObject* done = Py_None;
  if (tags != (applied == NULL ? Py_None : applied)) {
    done = PyObject_CallFunctionObjArgs(follow, tags, NULL);
    Py_XDECREF(done);
  }
  Py_DECREF(tags);
  return done != NULL;
}

/* Reads a plain number itself; _number(name, object) turns anything else into one, or says what is wrong.
 * Returns 0 with an exception. */
static int to_number(hot_t* self, const char* name, PyObject* object, uint64_t* number) {
  if (PyLong_CheckExact(object)) {
    *number = PyLong_AsUnsignedLongLong(object);
    if (*number != UINT64_MAX || !PyErr_Occurred()) return 1;
    PyErr_Clear();
  }
  PyObject* made = PyObject_CallMethod((PyObject*)self, "_number", "sO", name, object);
  if (made == NULL) return 0;
  *number = PyLong_AsUnsignedLongLong(made);
  Py_DECREF(made);
  return *number != UINT64_MAX || !PyErr_Occurred();
}

/* Both methods take (number, stream=0), by position or by name. */
static int read_arguments(hot_t* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names,
                          const char* first, uint64_t* number, uint64_t* stream) {
  PyObject* given[2] = {NULL, NULL};
  const Py_ssize_t named = names == NULL ? 0 : PyTuple_Size(names);
  if (count + named > 2) {
    PyErr_Format(PyExc_TypeError, "this takes %s and stream, not %zd arguments", first, count + named);
    return 0;
  }
  for (Py_ssize_t i = 0; i < count; ++i) given[i] = arguments[i];
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* name = PyTuple_GetItem(names, i);
    const int at = PyUnicode_CompareWithASCIIString(name, "stream") == 0 ? 1
                   : PyUnicode_CompareWithASCIIString(name, first) == 0  ? 0
                                                                         : -1;
    if (at < 0 || given[at] != NULL) {
      PyErr_Format(PyExc_TypeError, "unexpected argument '%U'", name);
      return 0;
    }
    given[at] = arguments[count + i];
  }
  if (given[0] == NULL) {
    PyErr_Format(PyExc_TypeError, "missing argument '%s'", first);
    return 0;
  }
  *stream = 0;
  return to_number(self, first, given[0], number) &&
         (given[1] == NULL || to_number(self, "stream", given[1], stream));
}

/* Raises an exception as it is, with its own context. Takes the reference. */
static void set_error(PyObject* error) {
  PyObject* type = (PyObject*)Py_TYPE(error);
  Py_INCREF(type);
  PyErr_Restore(type, error, PyException_GetTraceback(error));
}

static PyObject* raise_failure(hot_t* self, int32_t status, PyObject* raised) {
  PyObject* error =
      PyObject_CallMethod((PyObject*)self, "_failure", "iO", (int)status, raised == NULL ? Py_None : raised);
  if (error != NULL) set_error(error);
  return NULL;
}

/* The first interrupt, such as Ctrl-C, in the list of what was raised; borrowed. NULL: none. */
static PyObject* find_interrupt(PyObject* raised) {
  const Py_ssize_t count = raised == NULL ? 0 : PyList_Size(raised);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* error = PyTuple_GetItem(PyList_GetItem(raised, i), 0);
    if (!PyObject_IsInstance(error, PyExc_Exception)) return error;
  }
  return NULL;
}

/* Reports what was raised in a call that succeeded all the same, but for an interrupt, which it returns: no
 * call succeeds in spite of Ctrl-C. */
static PyObject* report(PyObject* raised) {
  PyObject* interrupt = find_interrupt(raised);
  Py_XINCREF(interrupt);
  const Py_ssize_t count = raised == NULL ? 0 : PyList_Size(raised);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* error = PyTuple_GetItem(PyList_GetItem(raised, i), 0);
    if (error == interrupt) continue;
    Py_INCREF(error);
    set_error(error);
    PyErr_WriteUnraisable(PyTuple_GetItem(PyList_GetItem(raised, i), 1));
  }
  return interrupt;
}

/* What a signal's handler raised while this thread's call waited: KeyboardInterrupt, say. The library has
 * ended the wait, and the exception waits here until the call has returned. */
static _Thread_local PyObject* interruption;

static PyObject* take_interruption(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  PyObject* taken = interruption;
  interruption = NULL;
  if (taken != NULL) return taken;
  Py_RETURN_NONE;
}

/* A framework's allocator has called the library, and does not know what to raise. */
static int raise_left(void* unused) {
  (void)unused;
  if (interruption == NULL) return 0;
  set_error(interruption);
  interruption = NULL;
  return -1;
}

/* A gpupool_interrupt_fn_t. Runs the handlers of the signals that came meanwhile, which only the main thread
 * does, and ends the wait if one of them raises. */
static int32_t run_signal_handlers(void* user, int32_t wait) {
  (void)user;
  (void)wait;
  if (!Py_IsInitialized() || PyGILState_GetThisThreadState() == NULL) return 0;
  PyObject *type, *error, *traceback;
  PyObject *type_before, *error_before, *traceback_before;
  const PyGILState_STATE state = PyGILState_Ensure();
  PyErr_Fetch(&type_before, &error_before, &traceback_before);
  const int has_raised = PyErr_CheckSignals() != 0;
  if (has_raised) {
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (traceback != NULL) (void)PyException_SetTraceback(error, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    Py_XDECREF(interruption);
    interruption = error;
    if (current_call == NULL) (void)Py_AddPendingCall(raise_left, NULL);
  }
  PyErr_Restore(type_before, error_before, traceback_before);
  PyGILState_Release(state);
  return has_raised;
}

static PyObject* hot_malloc(PyObject* object, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  hot_t* self = (hot_t*)object;
  uint64_t size = 0;
  uint64_t stream = 0;
  if (!read_arguments(self, arguments, count, names, "size", &size, &stream) || !follow_context())
    return NULL;
  PyObject* owner = self->owner;
  gpupool_t* pool = self->is_closed ? NULL : self->pool->handle;
  gpupool_ptr_t address = 0;
  gpupool_status_t status = GPUPOOL_SUCCESS;
  call_t call;
  Py_INCREF(owner);
  begin_call(&call, pool);
  Py_BEGIN_ALLOW_THREADS status = gpupool_malloc(pool, size, (gpupool_stream_t)stream, &address);
  Py_END_ALLOW_THREADS end_call(&call);
  PyObject* interrupt = status == GPUPOOL_SUCCESS ? report(call.raised) : NULL;
  PyObject* result = NULL;
  if (interrupt != NULL) {
    (void)gpupool_free(pool, address, (gpupool_stream_t)stream);
    set_error(interrupt);
  } else if (status == GPUPOOL_SUCCESS) {
    result = PyLong_FromUnsignedLongLong(address);
  } else {
    /* Explain the failure before anything else can fail on this thread. */
    raise_failure(self, status, call.raised);
  }
  Py_XDECREF(call.raised);
  Py_DECREF(owner);
  return result;
}

/* _ask(function, ...): calls a function of the library on this pool, other than gpupool_malloc: any may call
 * functions of the user. Raises the exception for its status. */
static PyObject* hot_ask(PyObject* object, PyObject* const* arguments, Py_ssize_t count) {
  if (!follow_context()) return NULL;
  hot_t* self = (hot_t*)object;
  PyObject* owner = self->owner;
  PyObject* handle = PyObject_GetAttrString(owner, "handle");
  PyObject* given = handle == NULL ? NULL : PyTuple_New(count);
  if (given == NULL) {
    Py_XDECREF(handle);
    return NULL;
  }
  PyTuple_SetItem(given, 0, handle);
  for (Py_ssize_t i = 1; i < count; ++i) {
    Py_INCREF(arguments[i]);
    PyTuple_SetItem(given, i, arguments[i]);
  }
  call_t call;
  Py_INCREF(owner);
  begin_call(&call, self->pool->handle);
  PyObject* result = PyObject_Call(arguments[0], given, NULL);
  end_call(&call);
  const long status = result == NULL ? -1 : PyLong_AsLong(result);
  PyObject* interrupt = status == GPUPOOL_SUCCESS ? report(call.raised) : NULL;
  if (interrupt != NULL) {
    Py_CLEAR(result);
    set_error(interrupt);
  }
  if (status > 0) {
    Py_CLEAR(result);
    raise_failure(self, (int32_t)status, call.raised);
  }
  Py_XDECREF(call.raised);
  Py_DECREF(given);
  Py_DECREF(owner);
  return result;
}

static PyObject* hot_free(PyObject* object, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  hot_t* self = (hot_t*)object;
  uint64_t address = 0;
  uint64_t stream = 0;
  if (!read_arguments(self, arguments, count, names, "address", &address, &stream)) return NULL;
  PyObject* owner = self->owner;
  gpupool_py_pool_t* pool = self->pool;
  const int is_closed = self->is_closed;
  int32_t status = GPUPOOL_SUCCESS;
  Py_INCREF(owner);
  Py_BEGIN_ALLOW_THREADS status =
      is_closed ? gpupool_py_free_late(pool, address, (gpupool_stream_t)stream)
                : (int32_t)gpupool_free(pool->handle, address, (gpupool_stream_t)stream);
  Py_END_ALLOW_THREADS if (status == GPUPOOL_SUCCESS) {
    Py_DECREF(owner);
    Py_RETURN_NONE;
  }
  raise_failure(self, status, NULL);
  Py_DECREF(owner);
  return NULL;
}

/* _bind(owner, address, is_closed): owner is the object that keeps the gpupool_py_pool_t at address. */
static PyObject* hot_bind(PyObject* object, PyObject* arguments) {
  hot_t* self = (hot_t*)object;
  PyObject* owner = NULL;
  unsigned long long address = 0;
  int is_closed = 0;
  if (!PyArg_ParseTuple(arguments, "OKp", &owner, &address, &is_closed)) return NULL;
  PyObject* old = self->owner;
  Py_INCREF(owner);
  self->owner = owner;
  self->pool = (gpupool_py_pool_t*)(uintptr_t)address;
  self->is_closed = is_closed;
  /* The last owner may destroy the pool. */
  Py_XDECREF(old);
  Py_RETURN_NONE;
}

static PyObject* hot_owner(PyObject* object, void* unused) {
  (void)unused;
  PyObject* owner = ((hot_t*)object)->owner;
  Py_INCREF(owner);
  return owner;
}

static PyObject* hot_is_closed(PyObject* object, void* unused) {
  (void)unused;
  return PyBool_FromLong(((hot_t*)object)->is_closed);
}

/* An object that is not bound yet refuses calls, as a pool that has gone does. */
static gpupool_py_pool_t unbound = {.is_destroyed = 1};

static PyObject* hot_new(PyTypeObject* type, PyObject* arguments, PyObject* names) {
  (void)arguments;
  (void)names;
  hot_t* self = (hot_t*)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self == NULL) return NULL;
  Py_INCREF(Py_None);
  self->owner = Py_None;
  self->pool = &unbound;
  self->is_closed = 1;
  return (PyObject*)self;
}

static void hot_dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  Py_XDECREF(((hot_t*)object)->owner);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

PyDoc_STRVAR(
    malloc_doc,
    "malloc($self, size, stream=0)\n--\n\n"
    "The address of size bytes for work on stream, a multiple of 512; 0 for size 0. alloc() is the same "
    "with\n"
    "an owner. Raises OutOfMemoryError, OverLimitError, InvalidArgumentError, DriverError, ForkedError.");

PyDoc_STRVAR(
    free_doc,
    "free($self, address, stream=0)\n--\n\n"
    "Frees a block by its address. Work queued on stream so far may still use it. A stream other than the\n"
    "block's counts as record_stream; STREAM_UNKNOWN stands for all streams that the pool has seen. Address\n"
    "0 does nothing. Works on a closed pool. Never waits for the GPU. Raises UnknownPointerError, "
    "ForkedError, InvalidArgumentError.");

static PyMethodDef hot_methods[] = {
    {"malloc", (PyCFunction)(void (*)(void))hot_malloc, METH_FASTCALL | METH_KEYWORDS, malloc_doc},
    {"free", (PyCFunction)(void (*)(void))hot_free, METH_FASTCALL | METH_KEYWORDS, free_doc},
    {"_ask", (PyCFunction)(void (*)(void))hot_ask, METH_FASTCALL, NULL},
    {"_bind", hot_bind, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef hot_properties[] = {
    {"_owner", hot_owner, NULL, NULL, NULL},
    {"is_closed", hot_is_closed, NULL, "Whether the pool was closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot hot_slots[] = {
    {Py_tp_new, hot_new},
    {Py_tp_dealloc, hot_dealloc},
    {Py_tp_methods, hot_methods},
    {Py_tp_getset, hot_properties},
    {0, NULL},
};

static PyType_Spec hot_spec = {
    .name = "gpupool._hot.HotCalls",
    .basicsize = sizeof(hot_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = hot_slots,
};

/* The limited API has the buffer protocol from 3.11 on, PyObject_GetBuffer included. CPython 3.10 has the
 * same slots. */
typedef struct view_t {
  void* start;
  PyObject* exporter;
  /* and more, which is not ours to write */
} view_t;

typedef int (*get_buffer_fn)(PyObject* exporter, view_t* view, int flags);
#ifndef Py_bf_getbuffer
#define Py_bf_getbuffer 1
#define Py_bf_releasebuffer 2
#endif

/* Lends the memoryview that _lend() returns. Whoever borrows it keeps that, not this object. */
static int lend(PyObject* self, view_t* view, int flags) {
  PyObject* lent = PyObject_CallMethod(self, "_lend", NULL);
  view->exporter = NULL;
  int status = -1;
  /* A class of the program may lend itself, without end. */
  if (lent != NULL && Py_EnterRecursiveCall(" while a buffer is lent") == 0) {
    const get_buffer_fn get_buffer = (get_buffer_fn)PyType_GetSlot(Py_TYPE(lent), Py_bf_getbuffer);
    if (get_buffer != NULL) {
      status = get_buffer(lent, view, flags);
    } else {
      PyErr_Format(PyExc_TypeError, "_lend() gave no bytes-like object, but %R", lent);
    }
    Py_LeaveRecursiveCall();
  }
  Py_XDECREF(lent);
  return status;
}

/* Never called, because the exporter is the memoryview. That it is there tells numpy.frombuffer to keep the
 * view and not only this object, whose block may be freed. */
static void take_back(PyObject* self, view_t* view) {
  (void)self;
  (void)view;
}

static PyType_Slot lender_slots[] = {
    {Py_bf_getbuffer, lend},
    {Py_bf_releasebuffer, take_back},
    {0, NULL},
};

static PyType_Spec lender_spec = {
    .name = "gpupool._hot.Lender",
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = lender_slots,
};

/* new_bytes(size): uninitialised bytes; the caller must write them before anybody else sees them. */
static PyObject* new_bytes(PyObject* module, PyObject* size) {
  (void)module;
  const Py_ssize_t count = PyLong_AsSsize_t(size);
  return count < 0 ? NULL : PyBytes_FromStringAndSize(NULL, count);
}

/* keep(pool, what): if this thread is inside a call on the pool with this handle, that call raises `what`
 * when it has returned. False: this thread is inside no such call, so nobody would raise it. */
static PyObject* keep(PyObject* module, PyObject* arguments) {
  (void)module;
  unsigned long long pool = 0;
  PyObject* what = NULL;
  if (!PyArg_ParseTuple(arguments, "KO", &pool, &what)) return NULL;
  call_t* call = current_call;
  if (call == NULL || (uintptr_t)call->pool != pool) Py_RETURN_FALSE;
  if (call->raised == NULL && (call->raised = PyList_New(0)) == NULL) return NULL;
  if (PyList_Append(call->raised, what) != 0) return NULL;
  Py_RETURN_TRUE;
}

/* is_interrupted(pool): whether an interrupt waits for this thread's call on the pool to return. */
static PyObject* is_interrupted(PyObject* module, PyObject* pool) {
  (void)module;
  const unsigned long long number = PyLong_AsUnsignedLongLong(pool);
  const call_t* call = current_call;
  return PyBool_FromLong(call != NULL && (uintptr_t)call->pool == number &&
                         find_interrupt(call->raised) != NULL);
}

/* report(raised): reports what was raised where nobody can raise it. */
static PyObject* report_raised(PyObject* module, PyObject* raised) {
  (void)module;
  PyObject* interrupt = report(raised);
  if (interrupt != NULL) {
    set_error(interrupt);
    PyErr_WriteUnraisable(NULL);
  }
  Py_RETURN_NONE;
}

/* follow_tags(current, follow): from now on, mallocs follow the tags that current() gives. */
static PyObject* follow_tags(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* current = NULL;
  PyObject* function = NULL;
  if (!PyArg_ParseTuple(arguments, "OO", &current, &function)) return NULL;
  if (tags_of_context == NULL) {
    Py_INCREF(current);
    Py_INCREF(function);
    follow = function;
    tags_of_context = current;
  }
  Py_RETURN_NONE;
}

/* applied_tags(tags): what this thread has told the library. */
static PyObject* applied_tags(PyObject* module, PyObject* tags) {
  (void)module;
  applied = tags;
  Py_RETURN_NONE;
}

static PyMethodDef hot_functions[] = {
    {"keep", keep, METH_VARARGS, NULL},
    {"is_interrupted", is_interrupted, METH_O, NULL},
    {"report", report_raised, METH_O, NULL},
    {"follow_tags", follow_tags, METH_VARARGS, NULL},
    {"applied_tags", applied_tags, METH_O, NULL},
    {"new_bytes", new_bytes, METH_O, NULL},
    {"take_interruption", take_interruption, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef hot_module = {
    PyModuleDef_HEAD_INIT, "gpupool._hot", NULL, -1, hot_functions, NULL, NULL, NULL, NULL};

static int add_type(PyObject* module, const char* name, PyType_Spec* spec) {
  PyObject* type = PyType_FromSpec(spec);
  if (type != NULL && PyModule_AddObject(module, name, type) == 0) return 0;
  Py_XDECREF(type);
  return -1;
}

PyMODINIT_FUNC PyInit__hot(void) {
  (void)gpupool_set_interrupt_check(run_signal_handlers, NULL, 1);
  PyObject* module = PyModule_Create(&hot_module);
  if (module != NULL &&
      (add_type(module, "HotCalls", &hot_spec) != 0 || add_type(module, "Lender", &lender_spec) != 0)) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
