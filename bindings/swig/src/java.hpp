// SPDX-License-Identifier: Apache-2.0
// For Java only: handlers, exceptions and byte arrays.
#pragma once

#include <jni.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "log.hpp"
#include "staging.hpp"
#include "upstream.hpp"

namespace binding {

/// Set when Java loads this code.
inline JavaVM* java_machine = nullptr;

/// The machine hands what it finds to the cleaner's thread, so afterwards this waits for a moment in which
/// nothing has ended.
inline bool run_collector() noexcept {
  constexpr std::chrono::milliseconds kMoment(10);
  constexpr int kMostMoments = 100;
  void* environment = nullptr;
  if (java_machine->GetEnv(&environment, JNI_VERSION_1_8) != JNI_OK) return false;
  auto* const jenv = static_cast<JNIEnv*>(environment);
  if (jenv->ExceptionCheck() != 0) return false;
  const jclass type = jenv->FindClass("org/gpupool/Collector");
  const jmethodID collect = type == nullptr ? nullptr : jenv->GetStaticMethodID(type, "collect", "()V");
  if (collect != nullptr) jenv->CallStaticVoidMethod(type, collect);
  if (jenv->ExceptionCheck() != 0) {
    jenv->ExceptionClear();  // the malloc fails as it would without a collector
    return false;
  }
  uint64_t ended = 0;
  int moments = 0;
  do {
    ended = Keepers::count_ended();
    std::this_thread::sleep_for(kMoment);
  } while (Keepers::count_ended() != ended && ++moments < kMostMoments);
  return true;
}

/// An org.gpupool.OomHandler. Its exception stays pending, so it is thrown when the malloc returns.
class JavaHandler : public OomHandler {
 public:
  JavaHandler(JNIEnv* jenv, jobject handler) : handler_(jenv->NewGlobalRef(handler)) {
    jenv->GetJavaVM(&machine_);
    method_ = jenv->GetMethodID(jenv->GetObjectClass(handler), "freeSome", "(JI)Z");
  }
  // Only a Java thread can give the reference back. The handler of a default pool goes only when a Java
  // thread replaces it; the handler of any other pool goes on a Java thread.
  ~JavaHandler() override {
    if (JNIEnv* const jenv = environment()) jenv->DeleteGlobalRef(handler_);
  }

  bool ask(uint64_t size, uint32_t attempt) noexcept override {
    JNIEnv* const jenv = environment();
    if (jenv == nullptr || jenv->ExceptionCheck() != 0) return false;
    const jboolean answer = jenv->CallBooleanMethod(handler_, method_, static_cast<jlong>(size), attempt);
    return jenv->ExceptionCheck() == 0 && answer != 0;
  }

 private:
  /// The environment of this thread; null if it is no Java thread.
  JNIEnv* environment() const {
    void* jenv = nullptr;
    return machine_->GetEnv(&jenv, JNI_VERSION_1_8) == JNI_OK ? static_cast<JNIEnv*>(jenv) : nullptr;
  }

  JavaVM* machine_ = nullptr;
  jobject handler_;
  jmethodID method_ = nullptr;
};

/// This thread as Java sees it; one that is none of Java's is attached meanwhile.
struct JavaThread {
  JavaThread() {
    void* found = nullptr;
    if (java_machine->GetEnv(&found, JNI_VERSION_1_8) != JNI_OK)
      is_foreign = java_machine->AttachCurrentThreadAsDaemon(&found, nullptr) == JNI_OK;
    jenv = static_cast<JNIEnv*>(found);
  }
  JavaThread(const JavaThread&) = delete;
  JavaThread& operator=(const JavaThread&) = delete;
  ~JavaThread() {
    if (is_foreign) (void)java_machine->DetachCurrentThread();
  }

  /// Prints what was thrown, where no call is there to throw it. Returns whether anything was.
  bool print_thrown() const {
    if (jenv->ExceptionCheck() == 0) return false;
    jenv->ExceptionDescribe();
    jenv->ExceptionClear();
    return true;
  }

  JNIEnv* jenv = nullptr;
  bool is_foreign = false;
};

/// An org.gpupool.SleepHook, called on any thread. Its exception stays pending, as a handler's; on a thread
/// that is none of Java's it is printed.
class JavaHook : public SleepHook {
 public:
  JavaHook(JNIEnv* jenv, jobject hook) : hook_(jenv->NewGlobalRef(hook)) {
    method_ = jenv->GetMethodID(jenv->GetObjectClass(hook), "call", "(J)Z");
  }
  ~JavaHook() override {
    const JavaThread thread;
    if (thread.jenv != nullptr) thread.jenv->DeleteGlobalRef(hook_);
  }

  bool call(uint64_t address) noexcept override {
    const JavaThread thread;
    JNIEnv* const jenv = thread.jenv;
    if (jenv == nullptr || jenv->ExceptionCheck() != 0) return false;
    const jboolean answer = jenv->CallBooleanMethod(hook_, method_, static_cast<jlong>(address));
    const bool has_thrown = jenv->ExceptionCheck() != 0;
    if (thread.is_foreign) (void)thread.print_thrown();
    return !has_thrown && answer != 0;
  }

 private:
  jobject hook_;
  jmethodID method_ = nullptr;
};

/// An org.gpupool.Upstream. What malloc throws stays pending, as a handler's.
class JavaUpstream : public Upstream {
 public:
  JavaUpstream(JNIEnv* jenv, jobject upstream) : upstream_(jenv->NewGlobalRef(upstream)) {
    const jclass type = jenv->GetObjectClass(upstream);
    malloc_ = jenv->GetMethodID(type, "malloc", "(JJ)J");
    free_ = jenv->GetMethodID(type, "free", "(JJJ)V");
  }
  ~JavaUpstream() override {
    const JavaThread thread;
    if (thread.jenv != nullptr) thread.jenv->DeleteGlobalRef(upstream_);
  }

  gpupool_ptr_t malloc(uint64_t size, uint64_t stream) noexcept override {
    const JavaThread thread;
    JNIEnv* const jenv = thread.jenv;
    if (jenv == nullptr || jenv->ExceptionCheck() != 0) return 0;
    const jlong address =
        jenv->CallLongMethod(upstream_, malloc_, static_cast<jlong>(size), static_cast<jlong>(stream));
    const bool has_thrown = jenv->ExceptionCheck() != 0;
    if (thread.is_foreign) (void)thread.print_thrown();
    return has_thrown ? 0 : static_cast<gpupool_ptr_t>(address);
  }

  void free(gpupool_ptr_t address, uint64_t size, uint64_t stream) noexcept override {
    const JavaThread thread;
    JNIEnv* const jenv = thread.jenv;
    if (jenv == nullptr) return;
    // What a handler has thrown waits for the end of its call.
    const jthrowable pending = jenv->ExceptionOccurred();
    jenv->ExceptionClear();
    jenv->CallVoidMethod(upstream_, free_, static_cast<jlong>(address), static_cast<jlong>(size),
                         static_cast<jlong>(stream));
    (void)thread.print_thrown();
    if (pending == nullptr) return;
    jenv->Throw(pending);
    jenv->DeleteLocalRef(pending);
  }

 private:
  jobject upstream_;
  jmethodID malloc_ = nullptr;
  jmethodID free_ = nullptr;
};

inline bool has_thrown() noexcept {
  void* jenv = nullptr;
  return java_machine->GetEnv(&jenv, JNI_VERSION_1_8) == JNI_OK &&
         static_cast<JNIEnv*>(jenv)->ExceptionCheck() != 0;
}

/// An org.gpupool.LogReceiver, called on any thread.
class JavaReceiver : public LogReceiver {
 public:
  JavaReceiver(JNIEnv* jenv, jobject receiver) : receiver_(jenv->NewGlobalRef(receiver)) {
    jenv->GetJavaVM(&machine_);
    method_ = jenv->GetMethodID(jenv->GetObjectClass(receiver), "take", "(ILjava/lang/String;)V");
  }
  ~JavaReceiver() override {
    if (JNIEnv* const jenv = environment()) jenv->DeleteGlobalRef(receiver_);
  }

  bool take(int32_t level, const char* message) noexcept override {
    JNIEnv* const jenv = environment();
    if (jenv == nullptr) return false;
    // The exception of an out-of-memory handler waits for the end of its malloc.
    const jthrowable pending = jenv->ExceptionOccurred();
    jenv->ExceptionClear();
    if (jenv->PushLocalFrame(4) == 0) {
      if (const jstring text = jenv->NewStringUTF(message))
        jenv->CallVoidMethod(receiver_, method_, level, text);
      if (jenv->ExceptionCheck() != 0) jenv->ExceptionDescribe();
      jenv->ExceptionClear();
      (void)jenv->PopLocalFrame(nullptr);
    }
    if (pending != nullptr) {
      jenv->Throw(pending);
      jenv->DeleteLocalRef(pending);
    }
    return true;
  }

 private:
  /// The environment of this thread; attaches the thread if it is no Java thread. Null if Java has gone.
  JNIEnv* environment() const {
    void* jenv = nullptr;
    return machine_->AttachCurrentThreadAsDaemon(&jenv, nullptr) == JNI_OK ? static_cast<JNIEnv*>(jenv)
                                                                           : nullptr;
  }

  JavaVM* machine_ = nullptr;
  jobject receiver_;
  jmethodID method_ = nullptr;
};

/// Leaves a GpuPoolException pending, or what the out-of-memory handler has thrown.
inline void raise_in_java(JNIEnv* jenv, const gpupool_error_t& error) {
  if (jenv->ExceptionCheck() != 0) return;
  const jclass type = jenv->FindClass("org/gpupool/GpuPoolException");
  if (type == nullptr) return;
  const jmethodID make =
      jenv->GetStaticMethodID(type, "of", "(IILjava/lang/String;)Lorg/gpupool/GpuPoolException;");
  const jstring message = jenv->NewStringUTF(error.message);
  if (make == nullptr || message == nullptr) return;
  const jobject exception =
      jenv->CallStaticObjectMethod(type, make, error.status, error.driver_code, message);
  if (jenv->ExceptionCheck() == 0) jenv->Throw(static_cast<jthrowable>(exception));
}

/// In modified UTF-8, which is near enough.
inline std::string java_text(JNIEnv* jenv, jstring string) {
  const char* const characters = jenv->GetStringUTFChars(string, nullptr);
  if (characters == nullptr) return {};
  std::string text = characters;
  jenv->ReleaseStringUTFChars(string, characters);
  return text;
}

/// The bytes of a byte[] for the time of a call.
class JavaBytes {
 public:
  JavaBytes() = default;
  JavaBytes(const JavaBytes&) = delete;
  JavaBytes& operator=(const JavaBytes&) = delete;
  ~JavaBytes() {
    if (bytes_ != nullptr) jenv_->ReleaseByteArrayElements(array_, bytes_, JNI_ABORT);
  }

  char* open(JNIEnv* jenv, jbyteArray array) {
    jenv_ = jenv;
    array_ = array;
    bytes_ = jenv->GetByteArrayElements(array, nullptr);
    return reinterpret_cast<char*>(bytes_);
  }

 private:
  JNIEnv* jenv_ = nullptr;
  jbyteArray array_ = nullptr;
  jbyte* bytes_ = nullptr;
};

/// The length that Java's own library takes for the largest on every machine.
inline ByteType byte_type() noexcept {
  return {"a byte[]", 2147483639};
}

/// Null, with an exception pending, if Java has no memory for it. byte_type() has seen to the length.
inline jbyteArray new_byte_array(JNIEnv* jenv, const std::string& bytes) {
  const auto length = static_cast<jsize>(bytes.size());
  const jbyteArray array = jenv->NewByteArray(length);
  if (array != nullptr) {
    jenv->SetByteArrayRegion(array, 0, length, reinterpret_cast<const jbyte*>(bytes.data()));
  }
  return array;
}

/// Global, so that a malloc need not look for it.
inline jclass java_frames = nullptr;
inline jmethodID java_tell_frames = nullptr;

/// A gpupool_stack_fn_t: Java's frames, on a thread of Java's. An exception that is pending stays so.
inline size_t write_java_stack(void* /*user*/, char* text, size_t capacity) {
  void* found = nullptr;
  if (java_machine->GetEnv(&found, JNI_VERSION_1_8) != JNI_OK) return 0;
  auto* const jenv = static_cast<JNIEnv*>(found);
  if (jenv->ExceptionCheck() != 0 || jenv->PushLocalFrame(4) != 0) return 0;
  const auto bytes = static_cast<jbyteArray>(
      jenv->CallStaticObjectMethod(java_frames, java_tell_frames, static_cast<jint>(capacity)));
  size_t length = 0;
  if (jenv->ExceptionCheck() != 0) {
    jenv->ExceptionClear();  // no memory, or the stack is full: the malloc has no stack
  } else {
    length = std::min<size_t>(capacity, static_cast<size_t>(jenv->GetArrayLength(bytes)));
    jenv->GetByteArrayRegion(bytes, 0, static_cast<jsize>(length), reinterpret_cast<jbyte*>(text));
  }
  (void)jenv->PopLocalFrame(nullptr);
  return length;
}

inline jclass java_threads = nullptr;
inline jmethodID java_current_thread = nullptr;
inline jmethodID java_is_interrupted = nullptr;

/// A gpupool_interrupt_fn_t: ends waits of a thread that Thread.interrupt() was called for. Its mark stays.
inline int32_t is_java_interrupted(void* /*user*/, int32_t /*wait*/) {
  void* found = nullptr;
  if (ToTheEnd::is_here() || java_machine->GetEnv(&found, JNI_VERSION_1_8) != JNI_OK) return 0;
  auto* const jenv = static_cast<JNIEnv*>(found);
  if (jenv->ExceptionCheck() != 0) return 0;  // it is thrown when the call ends
  const jobject thread = jenv->CallStaticObjectMethod(java_threads, java_current_thread);
  bool is_interrupted = jenv->ExceptionCheck() == 0 && thread != nullptr &&
                        jenv->CallBooleanMethod(thread, java_is_interrupted) != 0;
  if (jenv->ExceptionCheck() != 0) {
    jenv->ExceptionClear();
    is_interrupted = false;
  }
  jenv->DeleteLocalRef(thread);
  return is_interrupted ? 1 : 0;
}

inline void watch_java_interrupts(JNIEnv* jenv) {
  const jclass type = jenv->FindClass("java/lang/Thread");
  if (type == nullptr) return jenv->ExceptionClear();
  java_threads = static_cast<jclass>(jenv->NewGlobalRef(type));
  java_current_thread = jenv->GetStaticMethodID(type, "currentThread", "()Ljava/lang/Thread;");
  java_is_interrupted = jenv->GetMethodID(type, "isInterrupted", "()Z");
  (void)gpupool_set_interrupt_check(is_java_interrupted, nullptr, 1);
}

/// Where that fails, native frames are all there is.
inline void name_java_frames(JNIEnv* jenv) {
  const jclass type = jenv->FindClass("org/gpupool/Frames");
  java_frames = type == nullptr ? nullptr : static_cast<jclass>(jenv->NewGlobalRef(type));
  java_tell_frames = java_frames == nullptr ? nullptr : jenv->GetStaticMethodID(java_frames, "tell", "(I)[B");
  if (java_tell_frames != nullptr) (void)gpupool_set_stack_fn(write_java_stack, nullptr);
  jenv->ExceptionClear();
}

}  // namespace binding

extern "C" __attribute__((used)) JNIEXPORT inline jint JNI_OnLoad(JavaVM* machine, void* /*reserved*/) {
  binding::java_machine = machine;
  void* jenv = nullptr;
  if (machine->GetEnv(&jenv, JNI_VERSION_1_8) == JNI_OK) {
    binding::name_java_frames(static_cast<JNIEnv*>(jenv));
    binding::watch_java_interrupts(static_cast<JNIEnv*>(jenv));
  }
  return JNI_VERSION_1_8;
}
