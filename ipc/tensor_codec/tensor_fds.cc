// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/tensor_codec/tensor_fds.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/base/duplicate_fd.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

// The list: entries, each with its type in a byte.
//   kOffer: u8 descriptors, u16 index of each, u8 length and bytes
//   kFd:    u64 key, u16 index of the descriptor
constexpr uint8_t kOffer = 1;
constexpr uint8_t kFd = 2;

constexpr char kWhat[] = "a descriptor of a tensor message";

absl::Status NotPublished(absl::string_view what) {
  return absl::NotFoundError(
      absl::StrCat(what, " is not among the sender's published descriptors"));
}

}  // namespace

// ---- The list ----

void TensorFdList::PutIndexOf(int fd) {
  const auto [at, is_new] =
      indices_.emplace(fd, static_cast<uint16_t>(fds_.size()));
  if (is_new) fds_.push_back(fd);
  list_.Put(at->second);
}

void TensorFdList::AddOffer(absl::string_view bytes,
                            absl::Span<const int> fds) {
  list_.Put(kOffer);
  list_.Put(static_cast<uint8_t>(fds.size()));
  for (const int fd : fds) PutIndexOf(fd);
  list_.Put(static_cast<uint8_t>(bytes.size()));
  for (const char byte : bytes) list_.Put(byte);
}

void TensorFdList::AddFd(uint64_t key, int fd) {
  list_.Put(kFd);
  list_.Put(key);
  PutIndexOf(fd);
}

absl::Status TensorFdList::NeedOffer(
    const BlockDescriptor& block, uint64_t /*number*/,
    absl::FunctionRef<absl::StatusOr<ArenaOffer>()> make) {
  if (!offered_.emplace(block.arena, block.segment).second) {
    return absl::OkStatus();
  }
  TENON_ASSIGN_OR_RETURN(const ArenaOffer offer, make());
  AddOffer(offer.bytes, offer.fds);
  return absl::OkStatus();
}

// ---- Sender of a queue ----

absl::StatusOr<PublishedTensorFds> PublishedTensorFds::On(Publisher publisher) {
  // Random, so that a key of the slot's former holder does not match one of
  // these.
  TENON_ASSIGN_OR_RETURN(const RandomId random, RandomId::New());
  return PublishedTensorFds(std::move(publisher), random.low);
}

std::shared_ptr<UniqueFd> PublishedTensorFds::SharedInArena(
    const RandomId& arena, size_t which) const {
  // All offers of an arena share their first two descriptors.
  constexpr size_t kCommon = ArenaOfferFacts::kSegment;
  const auto offer = offers_.lower_bound({arena, 0});
  if (which >= kCommon || offer == offers_.end() ||
      offer->first.first != arena) {
    return nullptr;
  }
  return offer->second.fds[which];
}

absl::Status PublishedTensorFds::NeedOffer(
    const BlockDescriptor& block, uint64_t number,
    absl::FunctionRef<absl::StatusOr<ArenaOffer>()> make) {
  const OfferKey key = {block.arena, block.segment};
  if (last_offer_ != nullptr && last_key_ == key) [[likely]] {
    last_offer_->last_needed = number;
    return absl::OkStatus();
  }
  auto found = offers_.find(key);
  if (found == offers_.end()) {
    TENON_ASSIGN_OR_RETURN(const ArenaOffer made, make());
    Offer offer = {.bytes = made.bytes, .fds = {}};
    for (const int fd : made.fds) {
      std::shared_ptr<UniqueFd> copy =
          SharedInArena(block.arena, offer.fds.size());
      if (copy == nullptr) {
        TENON_ASSIGN_OR_RETURN(UniqueFd own, DuplicateFd(fd, kWhat));
        copy = std::make_shared<UniqueFd>(std::move(own));
      }
      offer.fds.push_back(std::move(copy));
    }
    found = offers_.emplace(key, std::move(offer)).first;
    new_ = true;
  }
  found->second.last_needed = number;
  last_offer_ = &found->second;
  last_key_ = key;
  return absl::OkStatus();
}

uint64_t PublishedTensorFds::NeedFd(const std::shared_ptr<Storage>& storage,
                                    uint64_t number) {
  Fd& fd = fds_[storage.get()];
  if (fd.storage == nullptr) {
    fd.storage = storage;
    fd.key = next_key_++;
    new_ = true;
  }
  fd.last_needed = number;
  return fd.key;
}

TensorFdList PublishedTensorFds::List() const {
  TensorFdList list;
  for (const auto& [key, offer] : offers_) {
    absl::InlinedVector<int, 3> fds;
    for (const auto& fd : offer.fds) fds.push_back(fd->get());
    list.AddOffer(offer.bytes, fds);
  }
  for (const auto& [storage, fd] : fds_) list.AddFd(fd.key, storage->fd());
  return list;
}

// Their storages are in removed_ afterwards.
void PublishedTensorFds::DropFds(uint64_t taken) {
  const size_t before = fds_.size();
  absl::erase_if(fds_, [&](auto& fd) {
    if (fd.second.last_needed > taken) return false;
    removed_.push_back(std::move(fd.second.storage));
    return true;
  });
  if (fds_.size() != before) stale_ = true;
}

// False if no more offers can be dropped.
bool PublishedTensorFds::MakeRoom(uint64_t taken) {
  const auto oldest = std::min_element(
      offers_.begin(), offers_.end(), [](const auto& a, const auto& b) {
        return a.second.last_needed < b.second.last_needed;
      });
  if (oldest == offers_.end() || oldest->second.last_needed > taken) {
    return false;
  }
  offers_.erase(oldest);
  last_offer_ = nullptr;
  stale_ = true;
  return true;
}

absl::Status PublishedTensorFds::PublishNow() {
  const TensorFdList list = List();
  TENON_RETURN_IF_ERROR(publisher_(list.bytes(), list.fds()));
  for (auto& [key, offer] : offers_) offer.published = true;
  for (auto& [storage, fd] : fds_) fd.published = true;
  new_ = false;
  stale_ = false;
  return absl::OkStatus();
}

absl::Status PublishedTensorFds::NoRoom(uint64_t number, size_t fds) const {
  const auto is_needed = [&](const auto& entry) {
    return entry.second.last_needed >= number;
  };
  const bool never = std::all_of(offers_.begin(), offers_.end(), is_needed) &&
                     std::all_of(fds_.begin(), fds_.end(), is_needed);
  std::string what = absl::StrCat(
      "Put(): ", never ? "a message needs " : "untaken messages need ", fds,
      " descriptors, of ", offers_.size(), " arena segments and ", fds_.size(),
      " single segments; the limit is ", kMaxFds, ", in a list of ", kMaxBytes,
      " bytes");
  if (never) return absl::InvalidArgumentError(what);
  return absl::ResourceExhaustedError(what);
}

absl::Status PublishedTensorFds::Publish(uint64_t number, uint64_t taken) {
  if (!new_) [[likely]]
    return absl::OkStatus();
  DropFds(taken);
  for (;;) {
    const TensorFdList list = List();
    if (list.bytes().size() <= kMaxBytes && list.fds().size() <= kMaxFds) {
      break;
    }
    if (!MakeRoom(taken)) return NoRoom(number, list.fds().size());
  }
  return PublishNow();
}

void PublishedTensorFds::DropNew() {
  if (!new_) return;
  std::erase_if(offers_,
                [](const auto& offer) { return !offer.second.published; });
  absl::erase_if(fds_, [](const auto& fd) { return !fd.second.published; });
  last_offer_ = nullptr;
  new_ = false;
}

void PublishedTensorFds::Cancel(uint64_t number) {
  FreeRemoved();
  DropNew();
  for (auto& [key, offer] : offers_) {
    offer.last_needed = std::min(offer.last_needed, number - 1);
  }
  for (auto& [storage, fd] : fds_) {
    fd.last_needed = std::min(fd.last_needed, number - 1);
  }
}

absl::Status PublishedTensorFds::Reap(uint64_t taken) {
  DropFds(taken);
  FreeRemoved();
  return stale_ ? PublishNow() : absl::OkStatus();
}

absl::Status PublishedTensorFds::Trim(uint64_t taken) {
  DropFds(taken);
  FreeRemoved();
  while (MakeRoom(taken)) {
  }
  return stale_ ? PublishNow() : absl::OkStatus();
}

// ---- Receiver ----

absl::StatusOr<ReceivedTensorFds> ReceivedTensorFds::From(Message item) {
  ReceivedTensorFds found;
  found.taken_ = std::move(item.fds);
  absl::Status status = found.ParseList(item.bytes);
  if (status.ok()) return found;
  return absl::DataLossError(absl::StrCat(
      "malformed list of published descriptors: ", status.message()));
}

absl::Status ReceivedTensorFds::ParseList(absl::string_view list) {
  ArchiveReader reader(list);
  const auto get_index = [&]() -> absl::StatusOr<uint16_t> {
    absl::StatusOr<uint16_t> index = reader.Get<uint16_t>();
    if (!index.ok() || *index < taken_.size()) return index;
    return absl::DataLossError(
        absl::StrCat("index ", *index, " of ", taken_.size(), " descriptors"));
  };
  while (reader.left() > 0) {
    TENON_ASSIGN_OR_RETURN(const uint8_t kind, reader.Get<uint8_t>());
    if (kind == kFd) {
      TENON_ASSIGN_OR_RETURN(const uint64_t key, reader.Get<uint64_t>());
      TENON_ASSIGN_OR_RETURN(fds_[key], get_index());
      continue;
    }
    if (kind != kOffer)
      return absl::DataLossError(absl::StrCat("unknown entry type ", kind));
    Listed listed;
    TENON_ASSIGN_OR_RETURN(const uint8_t count, reader.Get<uint8_t>());
    for (uint8_t n = 0; n < count; ++n) {
      TENON_ASSIGN_OR_RETURN(listed.fds.emplace_back(), get_index());
    }
    TENON_ASSIGN_OR_RETURN(const uint8_t length, reader.Get<uint8_t>());
    for (uint8_t n = 0; n < length; ++n) {
      TENON_ASSIGN_OR_RETURN(const char byte, reader.Get<char>());
      listed.bytes.push_back(byte);
    }
    TENON_ASSIGN_OR_RETURN(const ArenaOfferFacts facts,
                           ArenaOfferFacts::FromBytes(listed.bytes));
    offers_[{facts.arena, facts.segment}] = std::move(listed);
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> ReceivedTensorFds::Copy(uint16_t index) const {
  return DuplicateFd(taken_[index].get(), kWhat);
}

absl::StatusOr<Message> ReceivedTensorFds::OfferOf(
    const BlockDescriptor& block) const {
  const auto listed = offers_.find({block.arena, block.segment});
  if (listed == offers_.end()) {
    return NotPublished(absl::StrCat("the offer of segment ", block.segment,
                                     " of arena ", block.arena.ToString()));
  }
  Message offer = {.bytes = listed->second.bytes, .fds = {}};
  for (const uint16_t index : listed->second.fds) {
    TENON_ASSIGN_OR_RETURN(offer.fds.emplace_back(), Copy(index));
  }
  return offer;
}

absl::StatusOr<UniqueFd> ReceivedTensorFds::FdOf(uint64_t key) {
  const auto listed = fds_.find(key);
  if (listed == fds_.end()) return NotPublished("the segment of a tensor");
  UniqueFd& fd = taken_[listed->second];
  fds_.erase(listed);
  // Another entry may have named the same descriptor and moved it out.
  if (!fd.valid()) return NotPublished("the segment of a tensor");
  return std::move(fd);
}

}  // namespace tenon
