// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/sync/internal/robust_mutex.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

// glibc's PTHREAD_MUTEX_NOTRECOVERABLE: the owner of a mutex that cannot be
// locked any more.
constexpr int kUnrecoverable = INT_MAX - 1;

// The number of mutexes that this thread holds, as in the kernel's list.
constinit thread_local size_t held = 0;

// fork() gives the child's thread an empty list.
[[maybe_unused]] const int kRegistered =
    pthread_atfork(nullptr, nullptr, [] { held = 0; });

[[maybe_unused]] timespec OnMonotonicClock(Deadline deadline) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::ToTimespec(absl::DurationFromTimespec(now) +
                          deadline.Remaining());
}

// The thread in a lock word, dead or alive, or 0.
pid_t ThreadOf(uint32_t word) {
  return static_cast<pid_t>(word & FUTEX_TID_MASK);
}

// EBUSY if another thread, according to `word`, holds it. glibc 2.36's
// pthread_mutex_trylock() does not unlock a mutex for which it returns
// ENOTRECOVERABLE; pthread_mutex_timedlock() does, but makes the holder of a
// locked mutex wake it: so it is not called for a locked one.
int LockOnce(pthread_mutex_t* mutex, [[maybe_unused]] uint32_t word) {
#if defined(__SANITIZE_THREAD__)
  // gcc 12's ThreadSanitizer does not see EOWNERDEAD of the other function.
  return pthread_mutex_trylock(mutex);
#else
  const bool is_held = ThreadOf(word) != 0 && (word & FUTEX_OWNER_DIED) == 0;
  if (is_held && ThreadOf(word) != gettid()) return EBUSY;
  constexpr timespec kPast = {.tv_sec = 0, .tv_nsec = 0};
  const int error = pthread_mutex_timedlock(mutex, &kPast);
  return error == ETIMEDOUT ? EBUSY : error;
#endif
}

int LockUntil(pthread_mutex_t* mutex, Deadline deadline) {
#if defined(__SANITIZE_THREAD__)
  // gcc 12's ThreadSanitizer does not know pthread_mutex_clocklock().
  while (!deadline.has_passed()) {
    const int error = pthread_mutex_trylock(mutex);
    if (error != EBUSY) return error;
    const timespec pause = {.tv_sec = 0, .tv_nsec = 200'000};
    nanosleep(&pause, nullptr);
  }
  return ETIMEDOUT;
#else
  const timespec until = OnMonotonicClock(deadline);
  return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until);
#endif
}

}  // namespace

absl::Status RobustMutex::Init(Kind kind) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutexattr_settype(&attributes, kind == Kind::kRecursive
                                             ? PTHREAD_MUTEX_RECURSIVE
                                             : PTHREAD_MUTEX_ERRORCHECK);
  const int error = pthread_mutex_init(&mutex_, &attributes);
  pthread_mutexattr_destroy(&attributes);
  if (error != 0) return PosixError(error, "pthread_mutex_init", "robust");
  return absl::OkStatus();
}

int RobustMutex::Lock(Deadline deadline) {
  if (const int error = CheckMayLock(); error != 0) [[unlikely]]
    return error;
  if (deadline.is_never()) return Count(pthread_mutex_lock(&mutex_));
  const int error = LockOnce(&mutex_, LockWord());
  if (error != EBUSY) return Count(error);
  if (deadline.has_passed()) return ETIMEDOUT;
  return Count(LockUntil(&mutex_, deadline));
}

int RobustMutex::TryLock() {
  if (const int error = CheckMayLock(); error != 0) [[unlikely]]
    return error;
  return Count(LockOnce(&mutex_, LockWord()));
}

int RobustMutex::Unlock() {
  // Read before another thread can own it. If one owns it now, the call fails.
  const uint32_t depth = Depth();
  const int error = pthread_mutex_unlock(&mutex_);
  if (error == 0 && depth == 1 && held > 0) --held;
  // glibc's answer for all but the last unlock of a recursive, inconsistent
  // mutex: this thread still holds it.
  return error == ENOTRECOVERABLE && depth > 1 ? 0 : error;
}

// The error of Lock() if it may not be tried; else 0.
int RobustMutex::CheckMayLock() const {
  if (IsUnrecoverable()) [[unlikely]]
    return ENOTRECOVERABLE;
  if (held < kMaxHeld) [[likely]]
    return 0;
  // A mutex that this thread holds takes no further entry of the list.
  return ThreadOf(LockWord()) == gettid() ? 0 : ENOLCK;
}

// Counts this mutex, unless `error`, the result of a locking call, or its depth
// shows that this thread has not acquired it just now.
int RobustMutex::Count(int error) {
  if ((error == 0 || error == EOWNERDEAD) && Depth() == 1) ++held;
  return error;
}

size_t RobustMutex::CountHeld() { return held; }

absl::Status RobustMutex::TooManyHeld(absl::string_view call) {
  return absl::ResourceExhaustedError(absl::StrCat(
      call, ": this thread holds ", held,
      " robust locks (mutexes, slots of conditions and barriers); the limit "
      "is ",
      kMaxHeld,
      ", the number that the kernel releases when a thread dies "
      "(ROBUST_LIST_LIMIT); release some of them first, or hold them in "
      "several threads"));
}

// How often its holder has locked it: glibc stores 1 for every robust mutex.
uint32_t RobustMutex::Depth() const {
  return __atomic_load_n(&mutex_.__data.__count, __ATOMIC_RELAXED);
}

// The mark is set just before the lock word is freed. If that thread dies in
// between, one more holder gets the mutex.
bool RobustMutex::IsUnrecoverable() const {
  return __atomic_load_n(&mutex_.__data.__owner, __ATOMIC_ACQUIRE) ==
             kUnrecoverable &&
         LockWord() == 0;
}

// The kernel's robust futex, the first member of glibc's mutex.
uint32_t RobustMutex::LockWord() const {
  return static_cast<uint32_t>(
      __atomic_load_n(&mutex_.__data.__lock, __ATOMIC_ACQUIRE));
}

pid_t RobustMutex::Owner() const {
  const uint32_t word = LockWord();
  if (word & FUTEX_OWNER_DIED) return 0;
  return ThreadOf(word);
}

bool RobustMutex::OwnerDied() const {
  const uint32_t word = LockWord();
  // The next holder leaves the bit set until the mutex is consistent.
  return (word & FUTEX_OWNER_DIED) != 0 && ThreadOf(word) == 0;
}

absl::StatusOr<uint64_t> PidNamespace() {
  struct stat stat;
  if (::stat("/proc/self/ns/pid", &stat) != 0) {
    const int error = errno;
    return absl::FailedPreconditionError(
        absl::StrCat("the pid namespace of this process is unknown: ",
                     PosixError(error, "stat", "/proc/self/ns/pid").message()));
  }
  return stat.st_ino;
}

absl::Status CheckPidNamespace(uint64_t creator, absl::string_view what) {
  TENON_ASSIGN_OR_RETURN(const uint64_t own, PidNamespace());
  if (own == creator) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      what, " was made in another pid namespace (", creator, "; this is ", own,
      "), where thread numbers identify other threads: the death of its holder "
      "could not be detected reliably; run the processes in one pid "
      "namespace"));
}

}  // namespace tenon
