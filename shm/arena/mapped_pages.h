// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// MappedPages: the mapping of one segment of an arena of the CPU in this
// process, and the pin that a library of devices has put on it.
//
//   std::shared_ptr<MappedPages> pages = MappedPages::Find(block.data());
//   const MappedPages::Pin& pin = pages->PinOnce(make_pin);
//
// For libraries of devices (page_pinner.h); users of arenas never see it. An
// arena that is not pinned pays one lock and one entry of a map for each
// segment, when it is mapped and when it is unmapped.

#ifndef TENON_SHM_ARENA_MAPPED_PAGES_H_
#define TENON_SHM_ARENA_MAPPED_PAGES_H_

#include <atomic>
#include <cstddef>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/pages/mapping.h"

namespace tenon {

// Ownership: held by shared_ptr, by the segment and by what Find() has
//   returned; owns the mapping and the pin, and destroys the pin first.
// Threads: thread-safe.
// Processes: of the process that mapped the pages. A forked child inherits the
//   range and finds nothing by Find().
class MappedPages : public std::enable_shared_from_this<MappedPages> {
 public:
  // What a library keeps for pages that it has pinned, or the reason why it
  // could not. Immutable.
  class Pin {
   public:
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;
    // Unpins the pages, which are still mapped. Also called in a forked child,
    // where the pin is the parent's.
    virtual ~Pin() = default;

    // OK if the pages are pinned.
    virtual const absl::Status& status() const = 0;

    // Called when the arena needs the pages no more; the last reference to
    // `pages` unpins and unmaps them. Called in the thread that drops the last
    // tensor of a closed arena, among others: an implementation whose unpinning
    // may block passes `pages` on to a thread of its own.
    virtual void Retire(std::shared_ptr<MappedPages> pages) = 0;

   protected:
    Pin() = default;
  };

  // Of a mapping that is not empty.
  static std::shared_ptr<MappedPages> Of(ReadOnlyMapping mapping);
  static std::shared_ptr<MappedPages> Of(WritableMapping mapping);

  MappedPages(const MappedPages&) = delete;
  MappedPages& operator=(const MappedPages&) = delete;
  ~MappedPages();

  // The pages of an arena in this process that have this address; null if there
  // are none. To keep them mapped, keep a block of the segment.
  static std::shared_ptr<MappedPages> Find(const void* address);

  std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }
  bool writable() const { return writable_.data() != nullptr; }

  // Allocates all pages and enters them into the page table.
  // Errors: those of madvise(), naming it; kResourceExhausted if there is no
  // memory. OK on kernels that cannot do it (before 5.14): the caller's pinning
  // does it then.
  absl::Status Populate() const;

  // The pin; the first call makes it, and other threads wait for that call.
  // `make` returns no null.
  const Pin& PinOnce(absl::FunctionRef<std::unique_ptr<Pin>()> make);
  // The pin, or null.
  const Pin* pin() const { return current_.load(std::memory_order_acquire); }

  // Of a segment that needs the pages no more: Pin::Retire(), or without a pin
  // unmaps them here.
  static void Retire(std::shared_ptr<MappedPages> pages);

 private:
  MappedPages(ReadOnlyMapping readable, WritableMapping writable);

  const ReadOnlyMapping readable_;
  const WritableMapping writable_;  // Empty if they are read-only here.
  std::byte* const data_;
  const size_t size_bytes_;
  ThreadMutex mutex_;  // Held while the pin is made.
  std::unique_ptr<Pin> pin_;
  std::atomic<Pin*> current_ = nullptr;
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_MAPPED_PAGES_H_
