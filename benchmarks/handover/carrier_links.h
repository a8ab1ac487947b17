// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RingLink, ChannelLink: tensors over a ring or a channel each way as a Link
// (works.h), in place of a TensorQueue. A Form says how a tensor is named in a
// message:
//
//   PooledForm                 a block of an arena; its segment is offered once
//   OwnForm<kFileDescriptor>   a segment of its own, with its descriptor; over
//                              channels only
//   OwnForm<kFileSystem>       the same, by name
//
// A sender keeps a tensor until its receiver has claimed or opened it, as
// arena_tensor.h and tensor_handle.h require: over a ring until the record is
// acknowledged; over a channel until a receipt, one for several messages, comes
// back over a second one. A descriptor in flight needs no receipt.
//
// Both ends of a ring spin; a receiver of a channel sleeps in recvmsg().

#ifndef TENON_BENCHMARKS_HANDOVER_CARRIER_LINKS_H_
#define TENON_BENCHMARKS_HANDOVER_CARRIER_LINKS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/benchmarks/harness/subject.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_channel.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/exchange/tensor_importer.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/must.h"

namespace tenon::benchmarks {

// The tensors of a link, and how many of them a sender keeps at most.
struct Load {
  int64_t bytes = 0;
  size_t kept = 0;
};

// A record and the descriptor that belongs to it.
template <typename Record>
struct Described {
  Record record;
  int fd = -1;

  absl::Span<const int> fds() const { return {&fd, fd >= 0 ? 1u : 0u}; }
};

class PooledForm {
 public:
  using Record = ArenaTensorHandle;
  static constexpr bool kIsKept = true;

  explicit PooledForm(const Load& load)
      : bytes_(load.bytes), arena_(ArenaFor(load)) {}

  // Offers all segments that the quota allows, so that no later block is in an
  // unknown one.
  void Introduce(Channel& channel) {
    std::vector<Tensor> all;
    std::string last;
    for (;;) {
      auto tensor = CreateTensor(*arena_, kDtypeOf<uint8_t>, {bytes_},
                                 Deadline::Passed());
      if (!tensor.ok()) break;
      const ArenaOffer offer = Must(Offer(*tensor));
      if (offer.bytes != last) {
        Check(channel.Send(offer.bytes, offer.fds, Deadline::Never()));
      }
      last = offer.bytes;
      all.push_back(*std::move(tensor));
    }
    Check(channel.Send(kAllOffered, {}, Deadline::Never()));
  }
  void Meet(Channel& channel) {
    for (;;) {
      Message offer = Must(channel.Receive(Deadline::Never()));
      if (offer.bytes == kAllOffered) return;
      Check(importer_->Accept(offer.bytes, std::move(offer.fds)));
    }
  }

  Tensor New() {
    return Must(
        CreateTensor(*arena_, kDtypeOf<uint8_t>, {bytes_}, Deadline::Never()));
  }
  static std::span<uint8_t> Bytes(const Tensor& tensor) {
    const auto bytes = Must(tensor.data<uint8_t>());
    return {bytes.data(), bytes.size()};
  }
  static Described<Record> DescribeIt(const Tensor& tensor) {
    return {.record = Must(Describe(tensor))};
  }
  Tensor Claim(const Record& record, std::vector<UniqueFd>) {
    return Must(importer_->Claim(record));
  }

 private:
  static constexpr absl::string_view kAllOffered = "all";

  // For twice the tensors that are kept: blocks are rounded up by less than a
  // half.
  static std::shared_ptr<Arena> ArenaFor(const Load& load) {
    ArenaOptions options;
    options.quota_bytes = 3 * (load.kept + 2) * static_cast<size_t>(load.bytes);
    options.segment_bytes = options.quota_bytes;
    return Must(Arena::Create(options));
  }

  int64_t bytes_;
  std::shared_ptr<Arena> arena_;
  std::unique_ptr<ArenaTensorImporter> importer_ =
      std::make_unique<ArenaTensorImporter>();
};

template <SharingStrategy kStrategy>
class OwnForm {
 public:
  using Record = TensorHandle;
  static constexpr bool kIsKept = kStrategy == SharingStrategy::kFileSystem;

  explicit OwnForm(const Load& load)
      : bytes_(static_cast<size_t>(load.bytes)) {}

  void Introduce(Channel&) {}
  void Meet(Channel&) {}

  size_t bytes() const { return bytes_; }
  Tensor NewFrom(std::span<const std::byte> from) {
    return Must(Tensor::CreateSharedFrom(
        kDtypeOf<uint8_t>, {static_cast<int64_t>(from.size())}, from,
        {.segment = {.strategy = kStrategy}}));
  }
  static Described<Record> DescribeIt(const Tensor& tensor) {
    const ExportedTensor exported = Must(Export(tensor));
    return {.record = exported.handle, .fd = exported.fd};
  }
  Tensor Claim(const Record& record, std::vector<UniqueFd> fds) {
    return Must(importer_->Import(
        record, fds.empty() ? UniqueFd() : std::move(fds.front())));
  }

 private:
  size_t bytes_;
  std::unique_ptr<TensorImporter> importer_ =
      std::make_unique<TensorImporter>();
};

// A socket for each process, made before there are two.
struct SocketPair {
  SocketPair() {
    auto pair = Must(Channel::CreatePair());
    asker = pair.first.Release();
    answerer = pair.second.Release();
  }
  // In its process, which closes the other end, so that each process learns of
  // the other's death. Offers of arenas have sockets.
  Channel Adopt(bool asks) {
    (asks ? answerer : asker) = UniqueFd();
    return Channel::AdoptReleased(std::move(asks ? asker : answerer),
                                  {.allow_sockets = true});
  }

  UniqueFd asker, answerer;
};

// ---- Rings. ----

template <typename Form>
class RingEnd : public Form {
 public:
  using Item = Tensor;
  using Record = typename Form::Record;

  RingEnd(const Load& load, Channel channel, bool asks)
      : Form(load),
        kept_(load.kept),
        out_(Must(RingProducer::Create(
            {.record_bytes = sizeof(Record), .capacity = 64}))) {
    if (asks) Offer(channel);
    in_ = Must(JoinRing(channel, Deadline::Never()));
    Form::Meet(channel);
    if (!asks) Offer(channel);
  }

  void Put(const Tensor& tensor) {
    while (sent_.size() >= kept_) DropTaken();
    const Record record = Form::DescribeIt(tensor).record;
    SpinUntil([&] {
      return Must(out_->TryPut(std::as_bytes(std::span(&record, 1))));
    });
    sent_.push_back(tensor);
  }
  Tensor Get() {
    Record record;
    const auto bytes = std::as_writable_bytes(std::span(&record, 1));
    SpinUntil([&] { return Must(in_->TryPeek(bytes)) == 1; });
    Tensor tensor = Form::Claim(record, {});
    Check(in_->Advance(1));
    return tensor;
  }
  static void Release(Tensor) {}

 private:
  void Offer(Channel& channel) {
    Check(AddRingReader(*out_, channel, Deadline::Never()).status());
    Form::Introduce(channel);
  }
  void DropTaken() {
    const uint64_t taken = out_->acknowledged();
    for (; dropped_ < taken; ++dropped_) sent_.pop_front();
    StdAtomics::Pause();
  }

  size_t kept_;
  std::unique_ptr<RingProducer> out_;
  std::unique_ptr<RingReader> in_;
  std::deque<Tensor> sent_;  // From dropped_ on.
  uint64_t dropped_ = 0;
};

template <typename Form>
class RingLink {
 public:
  using End = RingEnd<Form>;

  explicit RingLink(const Load& load) : load_(load) {}

  std::unique_ptr<End> Asker() { return Make(true); }
  std::unique_ptr<End> Answerer() { return Make(false); }

 private:
  std::unique_ptr<End> Make(bool asks) {
    return std::make_unique<End>(load_, sockets_.Adopt(asks), asks);
  }

  Load load_;
  SocketPair sockets_;
};

// ---- Channels. ----

template <typename Form>
class ChannelEnd : public Form {
 public:
  using Item = Tensor;
  using Record = typename Form::Record;

  ChannelEnd(const Load& load, Channel messages, Channel receipts, bool asks)
      : Form(load),
        kept_(load.kept),
        messages_(std::move(messages)),
        receipts_(std::move(receipts)) {
    if (asks) Form::Introduce(messages_);
    Form::Meet(messages_);
    if (!asks) Form::Introduce(messages_);
  }

  void Put(const Tensor& tensor) {
    if constexpr (Form::kIsKept) {
      while (sent_.size() >= kept_) AwaitReceipt();
      sent_.push_back(tensor);
    }
    const Described<Record> message = Form::DescribeIt(tensor);
    Check(messages_.Send({reinterpret_cast<const char*>(&message.record),
                          sizeof(message.record)},
                         message.fds(), Deadline::Never()));
  }
  Tensor Get() {
    Message message = Must(messages_.Receive(Deadline::Never()));
    TENON_CHECK(message.bytes.size() == sizeof(Record), "not a record");
    Record record;
    std::memcpy(&record, message.bytes.data(), sizeof(record));
    Tensor tensor = Form::Claim(record, std::move(message.fds));
    if constexpr (Form::kIsKept) {
      if (++got_ % PerReceipt() == 0) {
        Check(receipts_.Send("got", {}, Deadline::Never()));
      }
    }
    return tensor;
  }
  static void Release(Tensor) {}

 private:
  // Fewer than are kept, so that the sender does not wait for each.
  size_t PerReceipt() const { return kept_ > 1 ? kept_ / 2 : 1; }
  void AwaitReceipt() {
    Check(receipts_.Receive(Deadline::Never()).status());
    sent_.erase(sent_.begin(),
                sent_.begin() + static_cast<ptrdiff_t>(PerReceipt()));
  }

  size_t kept_;
  Channel messages_, receipts_;
  std::deque<Tensor> sent_;
  size_t got_ = 0;
};

template <typename Form>
class ChannelLink {
 public:
  using End = ChannelEnd<Form>;

  explicit ChannelLink(const Load& load) : load_(load) {}

  std::unique_ptr<End> Asker() { return Make(true); }
  std::unique_ptr<End> Answerer() { return Make(false); }

 private:
  std::unique_ptr<End> Make(bool asks) {
    return std::make_unique<End>(load_, messages_.Adopt(asks),
                                 receipts_.Adopt(asks), asks);
  }

  Load load_;
  SocketPair messages_, receipts_;
};

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HANDOVER_CARRIER_LINKS_H_
