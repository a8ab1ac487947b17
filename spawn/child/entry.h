// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Entry points: functions of this program that a child process may run.

#ifndef TENON_SPAWN_CHILD_ENTRY_H_
#define TENON_SPAWN_CHILD_ENTRY_H_

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"

namespace tenon::spawn {

// The argument of an entry point.
// Ownership: owns the descriptors until they are taken.
// Threads: used by the thread that runs the entry point.
class Child {
 public:
  Child(int index, std::string argument, std::vector<UniqueFd> fds)
      : index_(index), argument_(std::move(argument)), fds_(std::move(fds)) {}
  Child(int index, ReadOnlyMapping argument, std::vector<UniqueFd> fds)
      : index_(index), mapped_(std::move(argument)), fds_(std::move(fds)) {}

  // ProcessOptions::index.
  int index() const { return index_; }
  // ProcessOptions::argument.
  const std::string& argument();
  // The argument without a copy: a long one is memory that all children of one
  // start share.
  absl::string_view argument_view() const;

  // Takes ProcessOptions::fds[i]; the caller owns it from then on. Each may be
  // taken once. On a programming error (bad index, taken twice): an invalid
  // UniqueFd.
  UniqueFd TakeFd(size_t i);
  size_t fd_count() const { return fds_.size(); }

 private:
  int index_;
  std::string argument_;
  ReadOnlyMapping mapped_;
  std::vector<UniqueFd> fds_;
};

// Runs in the child, on its main thread. The parent's Join() reports its return
// value; an exception it throws becomes kInternal.
using EntryFunction = absl::Status (*)(Child& child);

// Registers an entry point; called before main() by TENON_SPAWN_ENTRY. A second
// entry point of the same name ends the program with a message.
bool RegisterEntry(absl::string_view name, EntryFunction function);

// For anything else: does not compile, and says what an entry point looks like.
template <typename F>
bool RegisterEntry(absl::string_view,
                   F) requires(!std::is_convertible_v<F, EntryFunction>) {
  static_assert(std::is_convertible_v<F, EntryFunction>,
                "TENON_SPAWN_ENTRY(name, f): f is a function of the form "
                "absl::Status f(tenon::spawn::Child& child). "
                "TENON_SPAWN_FUNCTION (function.h) takes functions with "
                "parameters of their own");
  return false;
}

// Registers an entry point with other parameters; called by
// TENON_SPAWN_FUNCTION (function.h): `signature` lists the parameters, `key` is
// the function itself.
bool RegisterTypedEntry(absl::string_view name, EntryFunction function,
                        std::string signature, void (*key)());

// The signature of the typed entry point of that name; empty if there is none.
std::optional<std::string> EntrySignature(absl::string_view name);

// The name under which this function is registered; empty if it is not.
std::optional<std::string> EntryNameOf(void (*key)());

// The entry point of that name; null if there is none.
EntryFunction FindEntry(absl::string_view name);

// The names of all entry points, sorted.
std::vector<std::string> EntryNames();

}  // namespace tenon::spawn

// At namespace scope in a .cc file. In a library, the target needs
// `alwayslink = True`, or the linker may drop the file.
#define TENON_SPAWN_ENTRY(name, function) \
  TENON_SPAWN_ENTRY_(name, function, __COUNTER__)
#define TENON_SPAWN_ENTRY_(name, function, n) \
  TENON_SPAWN_ENTRY_INNER_(name, function, n)
#define TENON_SPAWN_ENTRY_INNER_(name, function, n)          \
  [[maybe_unused]] static const bool tenon_spawn_entry_##n = \
      ::tenon::spawn::RegisterEntry(name, function)

#endif  // TENON_SPAWN_CHILD_ENTRY_H_
