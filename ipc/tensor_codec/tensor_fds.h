// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The descriptors that messages of tensors need, as a list of bytes beside the
// descriptors. PublishedTensorFds: a sender publishes them for the messages of
// a queue. TensorFdList: they are sent with their only message.
// ReceivedTensorFds: a receiver's copy of either. Internal to tensor queues and
// //spawn.
//
// There are two kinds: offers of arenas, and segments of single tensors, each
// under a key. In a queue, offers stay published as long as there is room, so
// that each is published once; segments, as long as a message in flight names
// them.

#ifndef TENON_IPC_TENSOR_CODEC_TENSOR_FDS_H_
#define TENON_IPC_TENSOR_CODEC_TENSOR_FDS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon {

// Collects the descriptors that messages need.
class TensorFds {
 public:
  // Notes that message `number` needs the offer of the block's segment; calls
  // `make` if there is no such offer yet. Errors: make's; kResourceExhausted at
  // a limit of descriptors.
  virtual absl::Status NeedOffer(
      const BlockDescriptor& block, uint64_t number,
      absl::FunctionRef<absl::StatusOr<ArenaOffer>()> make) = 0;
  // The same for the descriptor of a segment; returns its key.
  virtual uint64_t NeedFd(const std::shared_ptr<Storage>& storage,
                          uint64_t number) = 0;

 protected:
  ~TensorFds() = default;
};

// The list, and the descriptors that it names by their indices. Collects those
// of one message, whatever its number.
// Ownership: borrows the descriptors, from the arenas and storages.
// Threads: thread-compatible.
class TensorFdList final : public TensorFds {
 public:
  static constexpr size_t kMaxFds = 65'536;

  absl::Status NeedOffer(
      const BlockDescriptor& block, uint64_t number,
      absl::FunctionRef<absl::StatusOr<ArenaOffer>()> make) override;
  uint64_t NeedFd(const std::shared_ptr<Storage>& storage,
                  uint64_t /*number*/) override {
    AddFd(next_key_, storage->fd());
    return next_key_++;
  }
  void AddOffer(absl::string_view bytes, absl::Span<const int> fds);
  void AddFd(uint64_t key, int fd);

  const std::string& bytes() const { return list_.bytes(); }
  // Each once. Send at most kMaxFds.
  const std::vector<int>& fds() const { return fds_; }

 private:
  void PutIndexOf(int fd);

  ArchiveWriter list_;
  std::vector<int> fds_;
  std::map<int, uint16_t> indices_;
  std::set<std::pair<RandomId, uint32_t>> offered_;  // Arena, segment.
  uint64_t next_key_ = 0;
};

// Messages are numbered from 1 on and are taken in that order: `taken` is the
// number of the last one taken.
// Ownership: owns duplicates of the published descriptors, or the storage, for
//   as long as they are published.
// Threads: thread-compatible.
// Failure: a call that fails has no visible effect.
class PublishedTensorFds final : public TensorFds {
 public:
  // Publishes bytes and duplicates of descriptors in place of the former ones.
  using Publisher =
      std::function<absl::Status(absl::string_view, absl::Span<const int>)>;
  static constexpr size_t kMaxFds = 248;
  static constexpr size_t kMaxBytes = 4000;

  // Errors: getentropy()'s.
  static absl::StatusOr<PublishedTensorFds> On(Publisher publisher);

  PublishedTensorFds(PublishedTensorFds&&) = default;
  PublishedTensorFds& operator=(PublishedTensorFds&&) = default;

  absl::Status NeedOffer(
      const BlockDescriptor& block, uint64_t number,
      absl::FunctionRef<absl::StatusOr<ArenaOffer>()> make) override;
  uint64_t NeedFd(const std::shared_ptr<Storage>& storage,
                  uint64_t number) override;

  // Publishes the descriptors that message `number` needs, unless they already
  // are; may remove those that only taken messages needed: FreeRemoved() frees
  // their segments. No system call if there are no new ones. Errors:
  // kInvalidArgument if the descriptors of this message exceed the limits;
  // kResourceExhausted if there is no room until more messages are taken, or as
  // the publisher.
  absl::Status Publish(uint64_t number, uint64_t taken);

  // The short form of these two, for a block of the same segment as before:
  // true if its offer is published, which message `number` needs from now on,
  // as by NeedOffer(). False, without effect: call them.
  bool NeedPublishedOffer(const BlockDescriptor& block, uint64_t number) {
    if (new_ || last_offer_ == nullptr || last_key_.second != block.segment ||
        last_key_.first != block.arena) [[unlikely]] {
      return false;
    }
    last_offer_->last_needed = number;
    return true;
  }

  // Frees the segments that Publish() has removed. Call it once the message is
  // sent, so that its receiver does not wait for munmap() and close() of former
  // ones, and before the caller waits.
  void FreeRemoved() { removed_.clear(); }

  // Message `number` and those after it will not be sent. Frees as
  // FreeRemoved().
  void Cancel(uint64_t number);

  // Removes segments that no message in flight names. No system call if there
  // are none. Errors: the publisher's; then the next call tries again.
  absl::Status Reap(uint64_t taken);
  // Removes offers as well.
  absl::Status Trim(uint64_t taken);

  // Whether segments are published, or some could not be removed.
  bool has_fds() const { return !fds_.empty() || stale_; }

 private:
  using OfferKey = std::pair<RandomId, uint32_t>;  // Arena, segment.
  struct Offer {
    std::string bytes;
    std::vector<std::shared_ptr<UniqueFd>> fds;
    uint64_t last_needed = 0;  // The number of the last message.
    bool published = false;
  };
  struct Fd {
    std::shared_ptr<Storage> storage;
    uint64_t key = 0;
    uint64_t last_needed = 0;
    bool published = false;
  };

  PublishedTensorFds(Publisher publisher, uint64_t first_key)
      : publisher_(std::move(publisher)), next_key_(first_key) {}

  std::shared_ptr<UniqueFd> SharedInArena(const RandomId& arena,
                                          size_t which) const;
  TensorFdList List() const;
  bool MakeRoom(uint64_t taken);
  void DropFds(uint64_t taken);
  absl::Status NoRoom(uint64_t number, size_t fds) const;
  absl::Status PublishNow();
  void DropNew();

  Publisher publisher_;
  uint64_t next_key_;
  std::map<OfferKey, Offer> offers_;
  absl::flat_hash_map<const Storage*, Fd> fds_;
  Offer* last_offer_ = nullptr;  // The offer found last.
  OfferKey last_key_;
  bool new_ = false;    // There are unpublished entries.
  bool stale_ = false;  // Entries were dropped that are still published.
  std::vector<std::shared_ptr<Storage>> removed_;  // By Publish().
};

// A receiver's copy of the descriptors of a sender.
// Ownership: owns the descriptors.
// Trust: the list is validated; the type of each descriptor is not.
class ReceivedTensorFds {
 public:
  // Errors: kDataLoss if the list is malformed.
  static absl::StatusOr<ReceivedTensorFds> From(Message item);

  // Errors: kNotFound if it is not listed; kResourceExhausted at the limit
  // of descriptors.
  absl::StatusOr<Message> OfferOf(const BlockDescriptor& block) const;
  // Moves the descriptor to the caller: it is kNotFound afterwards.
  absl::StatusOr<UniqueFd> FdOf(uint64_t key);

  size_t offers() const { return offers_.size(); }
  size_t fds() const { return fds_.size(); }

 private:
  struct Listed {
    std::string bytes;
    std::vector<uint16_t> fds;  // Indices into `taken_`.
  };
  absl::Status ParseList(absl::string_view list);
  absl::StatusOr<UniqueFd> Copy(uint16_t index) const;

  std::vector<UniqueFd> taken_;
  std::map<std::pair<RandomId, uint32_t>, Listed> offers_;
  std::map<uint64_t, uint16_t> fds_;
};

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_CODEC_TENSOR_FDS_H_
