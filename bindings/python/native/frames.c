/* SPDX-License-Identifier: Apache-2.0 */
/* Python's frames as text, for samples and recordings. The library calls this in the middle of a malloc, on
 * the thread of the malloc, with no lock of its own held. */
#ifndef _WIN32
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#endif
#include <Python.h>
#include <gpupool/gpupool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glue.h"

enum { MOST_FRAMES = 40, MOST_CODE_TEXT = 640 };

/* Both tables below are of sets of WAYS entries, the latest found first. Entries that share a set push out
 * one another only when it is full: with one entry for each hash, a tenth of a model's stacks were written
 * anew at each malloc, which takes ten times as long as all else. */
enum { WAYS = 4, CODE_SETS = 512, STACK_SETS = 2048 };

/* What is written of a code object, but for the line. A stack is taken at each malloc of a recording, and
 * most of it is of the same functions each time: asking Python for names takes ten times as long as copying
 * them. The table is guarded by the interpreter's lock, and keeps its code objects alive, so that an address
 * means one of them. */
typedef struct known_code_t {
  PyCodeObject* code;
  uint64_t number; /* unlike that of any other code object before it */
  /* "name (file:"; length 0: this package's own code, which stands between every caller and the library. */
  char* text;
  size_t length;
} known_code_t;

static known_code_t known_codes[CODE_SETS][WAYS];

/* Puts an entry, of `size` bytes, first in its set. */
static void put_first(void* set, size_t size, int at) {
  char found[64];
  memcpy(found, (char*)set + (size_t)at * size, size);
  memmove((char*)set + size, set, (size_t)at * size);
  memcpy(set, found, size);
}

/* So that the upper half depends on each bit of a value. */
static uint64_t spread(uint64_t value) {
  return value * 0x9e3779b97f4a7c15;
}

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

/* What is known of a code object, until the next call; NULL if the host has no memory for it. */
static const known_code_t* know_code(PyCodeObject* code) {
  known_code_t* const set = known_codes[(spread((uintptr_t)code) >> 32) % CODE_SETS];
  for (int at = 0; at < WAYS; ++at) {
    if (set[at].code != code) continue;
    put_first(set, sizeof *set, at);
    return set;
  }
  char file[512];
  char name[128];
  read_name((PyObject*)code, "co_filename", file, sizeof file);
  read_name((PyObject*)code, "co_name", name, sizeof name);
  char text[MOST_CODE_TEXT + sizeof " (:"];
  const size_t length = is_own(file) ? 0 : (size_t)snprintf(text, sizeof text, "%s (%s:", name, file);
  char* kept = malloc(length + 1);
  if (kept == NULL) return NULL;
  memcpy(kept, text, length);
  put_first(set, sizeof *set, WAYS - 1);
  known_code_t* const known = set;
  PyCodeObject* before = known->code;
  free(known->text);
  Py_INCREF((PyObject*)code);
  static uint64_t numbers = 0;
  *known = (known_code_t){code, ++numbers, kept, length};
  Py_XDECREF((PyObject*)before);
  return known;
}

/* Appends a frame's line to `text`. Returns the new length, or 0 if there is no room. */
static size_t write_frame(const known_code_t* known, int line, char* text, size_t length, size_t capacity) {
  char number[16];
  size_t digits = 0;
  for (unsigned rest = line < 0 ? 0 : (unsigned)line; digits == 0 || rest != 0; rest /= 10) {
    number[digits++] = (char)('0' + rest % 10);
  }
  if (length + known->length + digits + 2 > capacity) return 0;
  memcpy(text + length, known->text, known->length);
  length += known->length;
  while (digits != 0) text[length++] = number[--digits];
  text[length++] = ')';
  text[length++] = '\n';
  return length;
}

/* Functions of CPython that the stable ABI lacks: f_back and f_lasti without objects for their names and
 * values. PyFrame_GetLasti is there from 3.11 on. NULL: not there, and every stack is written anew. */
static PyFrameObject* (*get_back)(PyFrameObject*) = NULL;
static int (*get_place)(PyFrameObject*) = NULL;

static void find_functions(void) {
  static int is_done = 0;
  if (is_done) return;
  is_done = 1;
#ifndef _WIN32
  void* const back = dlsym(RTLD_DEFAULT, "PyFrame_GetBack");
  void* const place = dlsym(RTLD_DEFAULT, "PyFrame_GetLasti");
  if (back == NULL || place == NULL) return;
  memcpy(&get_back, &back, sizeof back);
  memcpy(&get_place, &place, sizeof place);
#endif
}

/* The caller of a frame, whose reference it takes; NULL: none. */
static PyFrameObject* go_out(PyFrameObject* frame) {
  static PyObject* f_back = NULL;
  if (f_back == NULL) f_back = PyUnicode_InternFromString("f_back");
  PyObject* outer = NULL;
  if (get_back != NULL) {
    outer = (PyObject*)get_back(frame);
  } else if (f_back != NULL) {
    outer = PyObject_GetAttr((PyObject*)frame, f_back);
  }
  Py_DECREF((PyObject*)frame);
  if (outer == NULL) PyErr_Clear();
  if (outer == Py_None) Py_CLEAR(outer);
  return (PyFrameObject*)outer;
}

static size_t write_frames(char* text, size_t capacity) {
  size_t length = 0;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF((PyObject*)frame);
  for (int i = 0; frame != NULL && i < MOST_FRAMES; ++i) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const known_code_t* known = know_code(code);
    Py_DECREF((PyObject*)code);
    if (known == NULL) break;
    if (known->length != 0) {
      const size_t end = write_frame(known, PyFrame_GetLineNumber(frame), text, length, capacity);
      if (end == 0) break;
      length = end;
    }
    frame = go_out(frame);
  }
  Py_XDECREF((PyObject*)frame);
  return length;
}

/* The text of a stack that was taken before, by what its frames are: functions, and places in them. Line
 * numbers take longer to find than all else together. Guarded by the interpreter's lock; stacks with equal
 * 64-bit keys count as equal. */
typedef struct known_stack_t {
  uint64_t key; /* 0: none */
  char* text;
  size_t length;
} known_stack_t;

static known_stack_t known_stacks[STACK_SETS][WAYS];

/* The key of the calling thread's stack; 0: unknown. */
static uint64_t find_key(void) {
  find_functions();
  if (get_place == NULL) return 0;
  uint64_t key = 0xcbf29ce484222325;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF((PyObject*)frame);
  for (int i = 0; frame != NULL && i < MOST_FRAMES; ++i) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const known_code_t* known = know_code(code);
    Py_DECREF((PyObject*)code);
    if (known == NULL) key = 0;
    if (key == 0) break;
    const uint64_t place = known->number << 32 ^ (uint32_t)get_place(frame);
    key = spread(key ^ place) ^ (key >> 29);
    frame = go_out(frame);
  }
  Py_XDECREF((PyObject*)frame);
  return key;
}

static void keep_stack(known_stack_t* set, uint64_t key, const char* text, size_t length) {
  char* kept = malloc(length + 1);
  if (kept == NULL) return;
  memcpy(kept, text, length);
  put_first(set, sizeof *set, WAYS - 1);
  free(set->text);
  *set = (known_stack_t){key, kept, length};
}

static size_t write_stack(char* text, size_t capacity) {
  const uint64_t key = find_key();
  if (key == 0) return write_frames(text, capacity);
  known_stack_t* const set = known_stacks[(key >> 32) % STACK_SETS];
  for (int at = 0; at < WAYS; ++at) {
    if (set[at].key != key || set[at].length > capacity) continue;
    put_first(set, sizeof *set, at);
    memcpy(text, set->text, set->length);
    return set->length;
  }
  const size_t length = write_frames(text, capacity);
  keep_stack(set, key, text, length);
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
  const size_t length = write_stack(text, capacity);
  PyErr_Restore(type, value, trace);
  PyGILState_Release(state);
  return length;
}
