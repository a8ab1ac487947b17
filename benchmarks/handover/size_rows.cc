// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/handover/size_rows.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/benchmarks/handover/by_hand.h"
#include "tenon/benchmarks/handover/hand_link.h"
#include "tenon/benchmarks/handover/queue_link.h"
#include "tenon/benchmarks/handover/works.h"
#include "tenon/benchmarks/harness/subject.h"

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

template <size_t kBytes, template <typename> typename Work>
std::vector<NamedSubject> Subjects() {
  constexpr int64_t kSize = kBytes;
  std::vector<NamedSubject> all(4);
  all[0].name = "hand.two_lines";
  all[0].subject = std::make_unique<TwoProcesses<Hand<kBytes>, Work>>();
  all[1].name = "tenon.pooled";
  all[1].subject = std::make_unique<TwoProcesses<QueueLink, Work>>(kSize);
  all[2].name = "tenon.descriptor";
  all[2].subject = std::make_unique<TwoProcesses<DescriptorLink, Work>>(kSize);
  all[3].name = "tenon.name";
  all[3].subject = std::make_unique<TwoProcesses<NameLink, Work>>(kSize);
  return all;
}

// Hand-overs in a turn: as many of small tensors as in other rows, since the
// large ones before them have left nothing of theirs in the caches.
constexpr int CountFor(size_t bytes) {
  if (bytes <= 64 * kKiB) return 512;
  return bytes <= kMiB ? 32 : 4;
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
