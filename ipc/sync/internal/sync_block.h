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
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/memory/memory.h"
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

// Ownership, threads, processes: as Value; its users define the contents. Their
//   headers declare it only, so they own it by pointer, and keep a pointer to
//   the layout beside it.
template <typename Layout>
class SyncBlock {
  static_assert(std::is_trivially_destructible_v<Layout>);
  static_assert(alignof(Layout) <= 64);

 public:
  // `init` is an absl::Status(Layout&), called before any process can adopt it.
  // Errors: Segment::CreateSharedWritable()'s and those of `init`.
  template <typename Init>
  static absl::StatusOr<std::unique_ptr<SyncBlock>> Create(
      const SegmentOptions& options, const Init& init) {
    const auto strategy = StrategyOf(options);
    if (!strategy.ok()) return strategy.status();
    SegmentOptions unnamed = options;  // Named when it is complete.
    unnamed.strategy = *strategy;
    unnamed.name.clear();
    auto value = Value<Bytes>::Create(unnamed);
    if (!value.ok()) return value.status();
    auto block = Wrap(*std::move(value));
    if (!block.ok()) return block.status();
    Layout& layout = *(*block)->layout();
    if (absl::Status made = init(layout); !made.ok()) return made;
    StdAtomics::Store(layout.kind, Layout::kKind, std::memory_order_release);
    if (!options.name.empty()) {
      const absl::Status named = (*block)->value_.PublishAs(options.name);
      if (!named.ok()) return named;
    }
    return block;
  }

  // Errors: Segment::Adopt()'s and Open()'s; kInvalidArgument if it holds
  // something else.
  static absl::StatusOr<std::unique_ptr<SyncBlock>> Adopt(UniqueFd fd) {
    return Check(Value<Bytes>::Adopt(std::move(fd)));
  }
  static absl::StatusOr<std::unique_ptr<SyncBlock>> Open(
      absl::string_view name) {
    return Check(Value<Bytes>::Open(name));
  }

  int fd() const { return value_.fd(); }
  const std::string& name() const { return value_.name(); }

  // Errors: kFailedPrecondition in a forked child.
  absl::Status CheckUsable() const {
    return CheckNotForked(fork_count_, Layout::kName);
  }

  // As long as the block is.
  Layout* layout() const { return layout_; }

 private:
  struct alignas(alignof(Layout)) Bytes {
    uint64_t words[sizeof(Layout) / sizeof(uint64_t)];
  };
  static_assert(sizeof(Bytes) == sizeof(Layout));

  SyncBlock(Value<Bytes> value, Layout* layout)
      : value_(std::move(value)), layout_(layout) {}

  static absl::StatusOr<std::unique_ptr<SyncBlock>> Wrap(Value<Bytes> value) {
    const auto bytes = value.get();
    if (!bytes.ok()) return bytes.status();
    auto* layout = reinterpret_cast<Layout*>(*bytes);
    return absl::WrapUnique(new SyncBlock(std::move(value), layout));
  }

  static absl::StatusOr<std::unique_ptr<SyncBlock>> Check(
      absl::StatusOr<Value<Bytes>> value) {
    if (!value.ok()) return value.status();
    auto block = Wrap(*std::move(value));
    if (!block.ok()) return block.status();
    const uint64_t kind =
        StdAtomics::Load((*block)->layout()->kind, std::memory_order_acquire);
    if (kind != Layout::kKind) {
      return absl::InvalidArgumentError(
          absl::StrCat("the memory is not ", Layout::kName,
                       ", or its creation is not finished"));
    }
    return block;
  }

  Value<Bytes> value_;
  Layout* const layout_;
  const uint64_t fork_count_ = ForkCount();
};

}  // namespace tenon

#endif  // TENON_IPC_SYNC_INTERNAL_SYNC_BLOCK_H_
