// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/mapped_pages.h"

#include <errno.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/pages/mapping.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14.
#define MADV_POPULATE_WRITE 23
#endif

namespace tenon {
namespace {

// All of this process, by their first address.
struct Registry {
  ThreadMutex mutex;
  std::map<uintptr_t, MappedPages*> pages ABSL_GUARDED_BY(mutex);
};

constinit PerProcess<Registry> registry;

uintptr_t Number(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

// Find() sees whole objects only.
std::shared_ptr<MappedPages> Register(std::shared_ptr<MappedPages> pages) {
  Registry& mine = registry.Get();
  const ThreadLock lock(&mine.mutex);
  mine.pages[Number(pages->data())] = pages.get();
  return pages;
}

}  // namespace

MappedPages::MappedPages(ReadOnlyMapping readable, WritableMapping writable)
    : readable_(std::move(readable)),
      writable_(std::move(writable)),
      data_(writable_.data() != nullptr
                ? writable_.data()
                : const_cast<std::byte*>(readable_.data())),
      size_bytes_(writable_.size_bytes() + readable_.size_bytes()) {}

std::shared_ptr<MappedPages> MappedPages::Of(ReadOnlyMapping mapping) {
  return Register(std::shared_ptr<MappedPages>(
      new MappedPages(std::move(mapping), WritableMapping())));
}

std::shared_ptr<MappedPages> MappedPages::Of(WritableMapping mapping) {
  return Register(std::shared_ptr<MappedPages>(
      new MappedPages(ReadOnlyMapping(), std::move(mapping))));
}

MappedPages::~MappedPages() {
  Registry& mine = registry.Get();
  const ThreadLock lock(&mine.mutex);
  mine.pages.erase(Number(data_));
}

std::shared_ptr<MappedPages> MappedPages::Find(const void* address) {
  Registry& mine = registry.Get();
  const ThreadLock lock(&mine.mutex);
  const auto after = mine.pages.upper_bound(Number(address));
  if (after == mine.pages.begin()) return nullptr;
  MappedPages& found = *std::prev(after)->second;
  if (Number(address) - Number(found.data_) >= found.size_bytes_) {
    return nullptr;
  }
  return found.weak_from_this().lock();  // Null if its destructor waits.
}

absl::Status MappedPages::Populate() const {
  const int advice = writable() ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  if (RetryOnEintr([&] { return madvise(data_, size_bytes_, advice); }) == 0 ||
      errno == EINVAL) {
    return absl::OkStatus();
  }
  const int error = errno;
  return PosixError(
      error, "madvise(MADV_POPULATE)",
      absl::StrCat("a segment of an arena, ", size_bytes_, " bytes"));
}

const MappedPages::Pin& MappedPages::PinOnce(
    absl::FunctionRef<std::unique_ptr<Pin>()> make) {
  if (const Pin* const made = pin(); made != nullptr) return *made;
  const ThreadLock lock(&mutex_);
  if (pin_ == nullptr) {
    pin_ = make();
    current_.store(pin_.get(), std::memory_order_release);
  }
  return *pin_;
}

void MappedPages::Retire(std::shared_ptr<MappedPages> pages) {
  Pin* const pin = pages->current_.load(std::memory_order_acquire);
  if (pin != nullptr) pin->Retire(std::move(pages));
}

}  // namespace tenon
