// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/page_pinner.h"

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/arena/mapped_pages.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

constinit std::atomic<const PagePinner*> registered = nullptr;

absl::StatusOr<const PagePinner*> Registered() {
  const PagePinner* const pinner = registered.load(std::memory_order_acquire);
  if (pinner != nullptr) return pinner;
  return absl::FailedPreconditionError(
      "this program cannot pin memory; link //cuda_ipc:pinned_memory");
}

}  // namespace

absl::Status RegisterPagePinner(const PagePinner& pinner) {
  const PagePinner* other = nullptr;
  if (registered.compare_exchange_strong(other, &pinner,
                                         std::memory_order_acq_rel) ||
      other == &pinner) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(
      "RegisterPagePinner(): another library of this process has registered "
      "one");
}

absl::Status CheckPagePinner() {
  TENON_ASSIGN_OR_RETURN(const PagePinner* const pinner, Registered());
  return pinner->Check();
}

absl::Status PinPagesOf(const void* address) {
  TENON_ASSIGN_OR_RETURN(const PagePinner* const pinner, Registered());
  const std::shared_ptr<MappedPages> pages = MappedPages::Find(address);
  if (pages == nullptr) {
    return absl::InvalidArgumentError(
        "PinPagesOf(): the address is not in an arena of the CPU; want that of "
        "a block that is held");
  }
  return pages->PinOnce([&] { return pinner->Make(*pages); }).status();
}

bool ArePagesPinned(const void* address) {
  const std::shared_ptr<MappedPages> pages = MappedPages::Find(address);
  if (pages == nullptr) return false;
  const MappedPages::Pin* const pin = pages->pin();
  return pin != nullptr && pin->status().ok();
}

}  // namespace tenon
