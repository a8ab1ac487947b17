// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TENON_CRASH_POINT: names a place at which a test can end this process.
//
//   UniqueFd fd(shm_open(path.c_str(), flags, 0400));
//   TENON_CRASH_POINT("segment.named.created");
//   TENON_RETURN_IF_ERROR(Allocate(fd.get(), size_bytes, what));
//
// Place one where state visible to other processes has just changed or is about
// to change: after a death there, other processes must find consistent state.
// The marked code does not know what a test does there; see
// "tenon/shm/testing/kill/crash_watch.h".
//
// Cost: one relaxed load of a global word and one branch that is never taken,
// three instructions on x86-64; before main() some nanoseconds per name. So a
// point may stay in code that takes nanoseconds.

#ifndef TENON_SHM_BASE_CRASH_POINT_H_
#define TENON_SHM_BASE_CRASH_POINT_H_

#include <atomic>
#include <cstddef>

namespace tenon {

// A named point of the program, registered before main() whether execution ever
// passes it or not. The same name in two places is one point.
// Ownership: lives as long as the program; never destroyed.
// Threads: immutable once registered.
// Processes: forked children have the same points under the same indices.
class CrashPoint {
 public:
  explicit CrashPoint(const char* name);
  CrashPoint(const CrashPoint&) = delete;
  CrashPoint& operator=(const CrashPoint&) = delete;

  const char* name() const { return name_; }
  // Counts up from 0 in the order of registration.
  size_t index() const { return index_; }
  // The point registered before this one, or null.
  const CrashPoint* next() const { return next_; }

 private:
  const char* const name_;
  const CrashPoint* next_ = nullptr;
  size_t index_ = 0;
};

// The point registered last, or null; next() leads to all others.
// Async-signal-safe.
const CrashPoint* LastCrashPoint();

// Called at each pass, by the passing thread, which may be inside a signal
// handler or between fork() and exec(): so it must be async-signal-safe and
// preserve errno.
using CrashPointHook = void (*)(const CrashPoint& point);

// For tests: installs `hook`, null for none, and returns the previous one. The
// data that the hook reads must have been written before. A pass in progress in
// another thread may still call the previous hook after this returns. Inherited
// by fork(), gone after exec(). Async-signal-safe.
CrashPointHook SetCrashPointHook(CrashPointHook hook);

namespace internal_crash_point {

inline constinit std::atomic<CrashPointHook> hook{nullptr};

// Calls the hook, if there still is one.
[[gnu::cold, gnu::noinline]] void Pass(const CrashPoint& point);

// A string literal as a template argument.
template <size_t kSize>
struct Name {
  consteval Name(const char (&literal)[kSize]) {  // NOLINT: meant to convert.
    for (size_t i = 0; i < kSize; ++i) text[i] = literal[i];
  }
  consteval bool is_good() const {
    for (size_t i = 0; i + 1 < kSize; ++i) {
      const char c = text[i];
      const bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                        c == '_' || c == '.';
      if (!good) return false;
    }
    return kSize > 1;
  }
  char text[kSize] = {};
};

// One object per name in the whole program, also for points in templates and in
// headers; constructed, and thereby registered, if any code that names it is
// linked.
template <Name kName>
struct Registered {
  static_assert(kName.is_good(), "crash points are named with [a-z0-9_.]");
  static CrashPoint point;
};
template <Name kName>
CrashPoint Registered<kName>::point{kName.text};

}  // namespace internal_crash_point
}  // namespace tenon

// Marks a place. `name` is a literal "<object>.<event>".
#define TENON_CRASH_POINT(name)                                       \
  do {                                                                \
    namespace tenon_point = ::tenon::internal_crash_point;            \
    if (tenon_point::hook.load(std::memory_order_relaxed) != nullptr) \
        [[unlikely]] {                                                \
      tenon_point::Pass(tenon_point::Registered<name>::point);        \
    }                                                                 \
  } while (false)

#endif  // TENON_SHM_BASE_CRASH_POINT_H_
