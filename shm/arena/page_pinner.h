// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PagePinner: how a library of devices pins the memory of arenas of the CPU, so
// that a device copies it without the CPU. It registers its pinner, and then
// code that knows no devices, such as a loader, can ask for pinned memory.
//
//   if (absl::Status pinned = PinPagesOf(bytes.data()); !pinned.ok()) Warn();
//
// For libraries; users call the functions of pinned_memory.h of the device's
// library, or set LoaderOptions::pin_memory.

#ifndef TENON_SHM_ARENA_PAGE_PINNER_H_
#define TENON_SHM_ARENA_PAGE_PINNER_H_

#include <memory>

#include "absl/status/status.h"
#include "tenon/shm/arena/mapped_pages.h"

namespace tenon {

// Ownership: a constant of the program.
// Threads: thread-safe.
class PagePinner {
 public:
  PagePinner(const PagePinner&) = delete;
  PagePinner& operator=(const PagePinner&) = delete;

  // OK if this process can pin pages at all.
  // Errors: those of the device's driver.
  virtual absl::Status Check() const = 0;

  // Pins all of `pages`, for as long as they are mapped; blocks for as long as
  // the driver takes. A refusal is in the status of the pin, and final.
  virtual std::unique_ptr<MappedPages::Pin> Make(
      const MappedPages& pages) const = 0;

 protected:
  constexpr PagePinner() = default;
  ~PagePinner() = default;
};

// From now on this process pins pages by `pinner`, which lives until the
// process ends. No effect if it was registered before. Thread-safe.
// Errors: kAlreadyExists if another one is registered.
absl::Status RegisterPagePinner(const PagePinner& pinner);

// Whether this process can pin pages. Thread-safe.
// Errors: kFailedPrecondition naming the target to link, if this program has no
// pinner; PagePinner::Check()'s.
absl::Status CheckPagePinner();

// Pins the segment that has `address`, which is in a block of an arena of the
// CPU that the caller holds. The first call for a segment blocks for as long as
// the driver takes, some 50 to 250 ms for each GiB; further ones cost a lock
// and a look into a map. Segments stay pinned until they are unmapped.
// Thread-safe.
// Errors: kInvalidArgument if no arena has this address; kFailedPrecondition as
// CheckPagePinner(); the pinner's, the same in each call for a segment.
absl::Status PinPagesOf(const void* address);

// Whether the segment that has `address` is pinned. Thread-safe.
bool ArePagesPinned(const void* address);

}  // namespace tenon

#endif  // TENON_SHM_ARENA_PAGE_PINNER_H_
