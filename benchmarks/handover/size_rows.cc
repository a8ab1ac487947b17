// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/handover/size_rows.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/benchmarks/handover/by_hand.h"
#include "tenon/benchmarks/handover/carrier_links.h"
#include "tenon/benchmarks/handover/hand_link.h"
#include "tenon/benchmarks/handover/queue_link.h"
#include "tenon/benchmarks/handover/works.h"
#include "tenon/benchmarks/harness/subject.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon::benchmarks {
namespace {

constexpr size_t kKiB = 1024, kMiB = kKiB * kKiB;

// By hand few blocks of large tensors are written in turn.
constexpr uint64_t BlocksFor(size_t bytes) {
  return bytes <= 4 * kKiB ? by_hand::kBlocks : bytes <= 16 * kMiB ? 4 : 2;
}
template <size_t kBytes>
using Hand = HandLink<by_hand::TwoLines, by_hand::Locked,
                      by_hand::BlocksOf<kBytes, BlocksFor(kBytes)>>;

constexpr auto kByDescriptor = SharingStrategy::kFileDescriptor;
constexpr auto kByName = SharingStrategy::kFileSystem;

// Half as many tensors are kept for a receiver as there are blocks by hand.
constexpr Load LoadOf(size_t bytes) {
  return {.bytes = static_cast<int64_t>(bytes), .kept = BlocksFor(bytes) / 2};
}

template <size_t kBytes, template <typename> typename Work>
std::vector<NamedSubject> Subjects() {
  constexpr int64_t kSize = kBytes;
  constexpr Load kLoad = LoadOf(kBytes);
  std::vector<NamedSubject> all;
  const auto add = [&all]<typename Link>(const char* name, const auto&... of) {
    all.push_back({.name = name,
                   .subject = std::make_unique<TwoProcesses<Link, Work>>(of...),
                   .missing = ""});
  };
  add.template operator()<Hand<kBytes>>("hand.two_lines");
  add.template operator()<QueueLink>("tenon.pooled", kSize);
  add.template operator()<DescriptorLink>("tenon.descriptor", kSize);
  add.template operator()<NameLink>("tenon.name", kSize);
  add.template operator()<RingLink<PooledForm>>("tenon.pooled.ring", kLoad);
  add.template operator()<RingLink<OwnForm<kByName>>>("tenon.name.ring", kLoad);
  add.template operator()<ChannelLink<PooledForm>>("tenon.pooled.channel",
                                                   kLoad);
  add.template operator()<ChannelLink<OwnForm<kByDescriptor>>>(
      "tenon.descriptor.channel", kLoad);
  add.template operator()<ChannelLink<OwnForm<kByName>>>("tenon.name.channel",
                                                         kLoad);
  return all;
}

// Hand-overs in a turn: as many of small tensors as in other rows, since the
// large ones before them have left nothing of theirs in the caches.
constexpr int CountFor(size_t bytes) {
  if (bytes <= 64 * kKiB) return 512;
  return bytes <= kMiB ? 32 : bytes <= 16 * kMiB ? 4 : 1;
}

template <size_t kBytes>
void AddRows(const std::string& size, std::vector<Row>& rows) {
  rows.push_back({.name = "size." + size + ".there_back.spin",
                  .what = "a new tensor there, filled, another back",
                  .limit = "hand.two_lines",
                  .count = CountFor(kBytes),
                  .subjects = Subjects<kBytes, Filled>});
  rows.push_back({.name = "size." + size + ".stream.spin",
                  .what = "new tensors in a row, filled, one way",
                  .limit = "hand.two_lines",
                  .count = CountFor(kBytes),
                  .subjects = Subjects<kBytes, StreamFilled>});
}

}  // namespace

std::vector<Row> SizeRows() {
  std::vector<Row> rows;
  AddRows<64>("64", rows);
  AddRows<kKiB>("1k", rows);
  AddRows<4 * kKiB>("4k", rows);
  AddRows<64 * kKiB>("64k", rows);
  AddRows<kMiB>("1m", rows);
  AddRows<16 * kMiB>("16m", rows);
  AddRows<64 * kMiB>("64m", rows);
  return rows;
}

}  // namespace tenon::benchmarks
