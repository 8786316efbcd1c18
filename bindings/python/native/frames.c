/* SPDX-License-Identifier: Apache-2.0 */
/* Python's frames as text, for samples and recordings. The library calls this in the middle of a malloc, on
 * the thread of the malloc, with no lock of its own held. */
#include <Python.h>
#include <gpupool/gpupool.h>
#include <stdio.h>
#include <string.h>

#include "glue.h"

enum { MOST_FRAMES = 40 };

/* This package's own folder. Its frames stand between every caller and the library, so they are left out. */
static int is_own(const char* file) {
  return strstr(file, "/gpupool/_") != NULL || strstr(file, "/gpupool/frameworks/") != NULL;
}

/* An attribute as UTF-8, in `text`; "?" where there is none. */
static void read_name(PyObject* object, const char* attribute, char* text, size_t room) {
  PyObject* value = PyObject_GetAttrString(object, attribute);
  PyObject* bytes =
      value == NULL || !PyUnicode_Check(value) ? NULL : PyUnicode_AsEncodedString(value, "utf-8", "replace");
  const char* found = bytes == NULL ? NULL : PyBytes_AsString(bytes);
  snprintf(text, room, "%s", found == NULL ? "?" : found);
  Py_XDECREF(bytes);
  Py_XDECREF(value);
  PyErr_Clear();
}

static size_t write_frames(char* text, size_t capacity) {
  char file[512];
  char name[128];
  size_t length = 0;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF((PyObject*)frame);
  for (int i = 0; frame != NULL && i < MOST_FRAMES; ++i) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    read_name((PyObject*)code, "co_filename", file, sizeof file);
    read_name((PyObject*)code, "co_name", name, sizeof name);
    Py_DECREF((PyObject*)code);
    if (!is_own(file)) {
      const size_t room = capacity - length;
      const int wanted =
          snprintf(text + length, room, "%s (%s:%d)\n", name, file, PyFrame_GetLineNumber(frame));
      if (wanted < 0 || (size_t)wanted >= room) break;
      length += (size_t)wanted;
    }
    PyObject* outer = PyObject_GetAttrString((PyObject*)frame, "f_back");
    Py_DECREF((PyObject*)frame);
    if (outer == NULL) PyErr_Clear();
    if (outer == Py_None) Py_CLEAR(outer);
    frame = (PyFrameObject*)outer;
  }
  Py_XDECREF((PyObject*)frame);
  return length;
}

/* A thread that Python has never seen has no frames. A thread that has let go of the interpreter takes it
 * again for this; it would take it again after the malloc anyway. */
size_t gpupool_py_call_stack(void* user, char* text, size_t capacity) {
  (void)user;
  if (!Py_IsInitialized() || PyGILState_GetThisThreadState() == NULL) return 0;
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject* type = NULL;
  PyObject* value = NULL;
  PyObject* trace = NULL;
  PyErr_Fetch(&type, &value, &trace);
  const size_t length = write_frames(text, capacity);
  PyErr_Restore(type, value, trace);
  PyGILState_Release(state);
  return length;
}
