// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// NameRegistry: objects that static initialisers register under a name.
//
//   constinit NameRegistry<Entry> entries("TENON_SPAWN_ENTRY");
//
//   entries.Add("main", entry);
//   std::optional<Entry> entry = entries.Find("main");

#ifndef TENON_SHM_BASE_NAME_REGISTRY_H_
#define TENON_SHM_BASE_NAME_REGISTRY_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon {

// Ownership: never destroys an object, so that it can be used after main().
// Threads: thread-safe: libraries may be loaded while threads run.
template <typename T>
class NameRegistry {
 public:
  using Objects = std::map<std::string, T>;

  // `macro` is the name of the registering macro; it is not copied.
  constexpr explicit NameRegistry(const char* macro) : macro_(macro) {}
  NameRegistry(const NameRegistry&) = delete;
  NameRegistry& operator=(const NameRegistry&) = delete;

  // Ends the program if the name is taken.
  void Add(absl::string_view name, T object) {
    const ThreadLock lock(&mutex_);
    if (objects_ == nullptr) objects_ = new Objects;
    TENON_CHECK(objects_->emplace(std::string(name), std::move(object)).second,
                absl::StrCat(macro_, "(\"", name,
                             "\"): this name is already registered"));
  }

  std::optional<T> Find(absl::string_view name) const {
    const ThreadLock lock(&mutex_);
    if (objects_ == nullptr) return std::nullopt;
    const auto found = objects_->find(std::string(name));
    if (found == objects_->end()) return std::nullopt;
    return found->second;
  }

  // The first name, in their order, whose object matches. `matches` is called
  // with the lock held.
  template <typename Matches>
  std::optional<std::string> FindName(Matches&& matches) const {
    const ThreadLock lock(&mutex_);
    if (objects_ == nullptr) return std::nullopt;
    for (const auto& [name, object] : *objects_) {
      if (matches(object)) return name;
    }
    return std::nullopt;
  }

  // A copy, for calls without the lock.
  Objects All() const {
    const ThreadLock lock(&mutex_);
    return objects_ == nullptr ? Objects() : *objects_;
  }

  // Sorted.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, object] : All()) names.push_back(name);
    return names;
  }

 private:
  const char* const macro_;
  mutable ThreadMutex mutex_;
  Objects* objects_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace tenon

#endif  // TENON_SHM_BASE_NAME_REGISTRY_H_
