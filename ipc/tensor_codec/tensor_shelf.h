// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorShelf: the descriptors that go with messages of tensors, laid out by
// their sender. TensorShelfItem: what a receiver finds there. Internal to
// tensor queues.
//
// Two kinds of thing lie there: offers of arenas, which stay as long as there
// is room, so that they are laid out once; and segments of single tensors, for
// as long as a message in flight names them, each under a key.

#ifndef TENON_IPC_TENSOR_CODEC_TENSOR_SHELF_H_
#define TENON_IPC_TENSOR_CODEC_TENSOR_SHELF_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/queue/fd_shelf.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon {

// The sender's side. Messages have numbers that count up from 1 on, and are
// taken in that order: of `taken` ones the last has that number.
// Ownership: of what lies there it owns duplicates, or the storage, for as long
//   as it lies there.
// Threads: thread-compatible.
// Failure: a call that fails has changed nothing that can be seen.
class TensorShelf {
 public:
  // Lays bytes and duplicates of descriptors out, in place of what it has laid
  // out before.
  using Layer =
      std::function<absl::Status(absl::string_view, absl::Span<const int>)>;
  static constexpr size_t kMaxFds = 248;
  static constexpr size_t kMaxBytes = 4000;

  // Errors: what getentropy() says.
  static absl::StatusOr<TensorShelf> On(Layer layer);

  TensorShelf(TensorShelf&&) = default;
  TensorShelf& operator=(TensorShelf&&) = default;

  // Notes that the message of that number needs the offer of the block's
  // segment, which `make` makes if it is not there. Errors: make's;
  // kResourceExhausted at a limit of descriptors.
  absl::Status NeedOffer(const BlockDescriptor& block, uint64_t number,
                         absl::FunctionRef<absl::StatusOr<ArenaOffer>()> make);
  // The same for the descriptor of a segment; returns its key.
  uint64_t NeedFd(const std::shared_ptr<Storage>& storage, uint64_t number);

  // Lays out what the message of that number needs, if it does not lie there
  // already; what only taken ones needed may go. No system call if nothing is
  // new. Errors: kInvalidArgument if there is never room for what this message
  // needs; kResourceExhausted if there is none until more are taken, or as
  // the layer.
  absl::Status Lay(uint64_t number, uint64_t taken);

  // The message of that number, and those after it, will not be sent.
  void Cancel(uint64_t number);

  // Removes segments that no message in flight names. No system call if there
  // are none.
  absl::Status Reap(uint64_t taken);
  // And offers.
  absl::Status Trim(uint64_t taken);

  bool has_fds() const { return !fds_.empty(); }

 private:
  using OfferKey = std::pair<RandomId, uint32_t>;  // Arena, segment.
  struct Offer {
    std::string bytes;
    std::vector<std::shared_ptr<UniqueFd>> fds;
    uint64_t last_needed = 0;  // The number of the last message.
    bool laid = false;
  };
  struct Fd {
    std::shared_ptr<Storage> storage;
    uint64_t key = 0;
    uint64_t last_needed = 0;
    bool laid = false;
  };

  TensorShelf(Layer layer, uint64_t first_key)
      : layer_(std::move(layer)), next_key_(first_key) {}

  std::shared_ptr<UniqueFd> SharedInArena(const RandomId& arena,
                                          size_t which) const;
  std::string List(std::vector<int>& fds) const;
  bool MakeRoom(uint64_t taken);
  bool DropFds(uint64_t taken);
  absl::Status NoRoom(uint64_t number, size_t fds) const;
  absl::Status LayNow();
  void DropNew();

  Layer layer_;
  uint64_t next_key_;
  std::map<OfferKey, Offer> offers_;
  absl::flat_hash_map<const Storage*, Fd> fds_;
  Offer* last_offer_ = nullptr;  // Found last.
  OfferKey last_key_;
  bool new_ = false;  // Something is not laid yet.
};

// What lies there, taken: copies of all of it.
// Ownership: owns the descriptors.
// Trust: the list is checked; what the descriptors are is not.
class TensorShelfItem {
 public:
  // Errors: kDataLoss if the list is none.
  static absl::StatusOr<TensorShelfItem> From(ShelfItem item);

  struct Offer {
    std::string bytes;
    std::vector<UniqueFd> fds;
  };
  // Errors: kNotFound if it does not lie there; kResourceExhausted at the limit
  // of descriptors.
  absl::StatusOr<Offer> OfferOf(const BlockDescriptor& block) const;
  // Gives it away: it does not lie there any more after that.
  absl::StatusOr<UniqueFd> FdOf(uint64_t key);

  size_t offers() const { return offers_.size(); }
  size_t fds() const { return fds_.size(); }

 private:
  struct Listed {
    std::string bytes;
    std::vector<uint8_t> fds;  // Numbers among those of the item.
  };
  absl::Status ParseList(absl::string_view list);
  absl::StatusOr<UniqueFd> Copy(uint8_t number) const;

  std::vector<UniqueFd> taken_;
  std::map<std::pair<RandomId, uint32_t>, Listed> offers_;
  std::map<uint64_t, uint8_t> fds_;
};

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_CODEC_TENSOR_SHELF_H_
