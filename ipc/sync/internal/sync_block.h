// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SyncBlock: the shared memory behind a Mutex, an Event and similar types.
//
// A Value (shm/value/value.h) whose bytes are a Layout. A Layout consists of
// shared words and robust mutexes, has a name and a number (kName, kKind),
// begins with a word `kind`, and is valid when zeroed, except for the work of
// `init`.

#ifndef TENON_IPC_SYNC_INTERNAL_SYNC_BLOCK_H_
#define TENON_IPC_SYNC_INTERNAL_SYNC_BLOCK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/value/value.h"

namespace tenon {

// Ownership, threads, processes: as Value; its users define the contents.
template <typename Layout>
class SyncBlock {
  static_assert(std::is_trivially_destructible_v<Layout>);
  static_assert(alignof(Layout) <= 64);

 public:
  // `init` is an absl::Status(Layout&), called before any process can adopt it.
  // Errors: Segment::CreateSharedWritable()'s and those of `init`.
  template <typename Init>
  static absl::StatusOr<SyncBlock> Create(const SegmentOptions& options,
                                          const Init& init) {
    auto value = Value<Bytes>::Create(options);
    if (!value.ok()) return value.status();
    auto block = Wrap(*std::move(value));
    if (!block.ok()) return block.status();
    if (absl::Status made = init(**block); !made.ok()) return made;
    StdAtomics::Store((*block)->kind, Layout::kKind, std::memory_order_release);
    return block;
  }

  // Errors: Segment::Adopt()'s and Open()'s; kInvalidArgument if it holds
  // something else.
  static absl::StatusOr<SyncBlock> Adopt(UniqueFd fd) {
    return Check(Value<Bytes>::Adopt(std::move(fd)));
  }
  static absl::StatusOr<SyncBlock> Open(absl::string_view name) {
    return Check(Value<Bytes>::Open(name));
  }

  int fd() const { return value_.fd(); }
  const std::string& name() const { return value_.name(); }

  // Errors: kFailedPrecondition in a forked child.
  absl::Status CheckUsable() const {
    return CheckNotForked(fork_count_, Layout::kName);
  }

  Layout* operator->() const { return layout_; }
  Layout& operator*() const { return *layout_; }

 private:
  struct alignas(alignof(Layout)) Bytes {
    uint64_t words[sizeof(Layout) / sizeof(uint64_t)];
  };
  static_assert(sizeof(Bytes) == sizeof(Layout));

  SyncBlock(Value<Bytes> value, Layout* layout)
      : value_(std::move(value)), layout_(layout) {}

  static absl::StatusOr<SyncBlock> Wrap(Value<Bytes> value) {
    const auto bytes = value.get();
    if (!bytes.ok()) return bytes.status();
    auto* layout = reinterpret_cast<Layout*>(*bytes);
    return SyncBlock(std::move(value), layout);
  }

  static absl::StatusOr<SyncBlock> Check(absl::StatusOr<Value<Bytes>> value) {
    if (!value.ok()) return value.status();
    auto block = Wrap(*std::move(value));
    if (!block.ok()) return block.status();
    const uint64_t kind =
        StdAtomics::Load((*block)->kind, std::memory_order_acquire);
    if (kind != Layout::kKind) {
      return absl::InvalidArgumentError(
          absl::StrCat("the memory is not ", Layout::kName,
                       ", or its creation is not finished"));
    }
    return block;
  }

  Value<Bytes> value_;
  Layout* layout_;
  uint64_t fork_count_ = ForkCount();
};

}  // namespace tenon

#endif  // TENON_IPC_SYNC_INTERNAL_SYNC_BLOCK_H_
