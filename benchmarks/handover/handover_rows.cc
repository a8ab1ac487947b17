// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/handover/handover_rows.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/benchmarks/handover/arena_alone.h"
#include "tenon/benchmarks/handover/bare.h"
#include "tenon/benchmarks/handover/by_hand.h"
#include "tenon/benchmarks/handover/hand_link.h"
#include "tenon/benchmarks/handover/own_segment.h"
#include "tenon/benchmarks/handover/queue_link.h"
#include "tenon/benchmarks/handover/works.h"
#include "tenon/benchmarks/harness/peer_program.h"
#include "tenon/benchmarks/harness/subject.h"

namespace tenon::benchmarks {
namespace {

constexpr char kQueue[] = "tenon.queue";
constexpr char kTwoLines[] = "hand.two_lines";
constexpr char kOneLine[] = "hand.one_line";
constexpr char kOneLinePlain[] = "hand.one_line.plain";
constexpr char kPoll[] = "bare.poll";
constexpr char kFutex[] = "bare.futex";
constexpr char kLines[] = "bare.lines";
constexpr char kFill[] = "bare.fill";
constexpr char kPwrite[] = "bare.pwrite";
constexpr char kFromBytes[] = "tenon.own";
constexpr char kArena[] = "tenon.arena";

constexpr size_t kOwnBytes = size_t{16} << 20;

using HandTwoLines = HandLink<by_hand::TwoLines, by_hand::Locked>;
using HandOneLine = HandLink<by_hand::OneLine, by_hand::Locked>;
using HandOneLinePlain = HandLink<by_hand::OneLine, by_hand::Plain>;

NamedSubject Named(std::string name, std::unique_ptr<Subject> subject) {
  return {.name = std::move(name), .subject = std::move(subject)};
}

void AddPeers(const std::string& row, const PeerPlace& peers,
              std::vector<NamedSubject>& subjects) {
  for (const char* peer : {"iceoryx2.native", "iceoryx2.wheel"}) {
    subjects.push_back(FindPeer(peer, row, peers));
  }
}

template <template <typename> typename Work>
std::vector<NamedSubject> Spinning() {
  std::vector<NamedSubject> all;
  all.push_back(
      Named(kTwoLines, std::make_unique<TwoProcesses<HandTwoLines, Work>>()));
  all.push_back(
      Named(kOneLine, std::make_unique<TwoProcesses<HandOneLine, Work>>()));
  all.push_back(Named(
      kOneLinePlain, std::make_unique<TwoProcesses<HandOneLinePlain, Work>>()));
  all.push_back(
      Named(kQueue, std::make_unique<TwoProcesses<QueueLink, Work>>()));
  return all;
}

template <template <typename> typename Work>
Row SpinRow(const std::string& name, const std::string& what,
            const PeerPlace& peers) {
  return {.name = name, .what = what, .limit = kTwoLines, .subjects = [=] {
            auto all = Spinning<Work>();
            AddPeers(name, peers, all);
            return all;
          }};
}

Row StreamRow(const PeerPlace& peers) {
  Row row =
      SpinRow<StreamFilled>("handover.4k.stream_filled.spin",
                            "new tensors in a row, filled, one way", peers);
  row.subjects = [spinning = std::move(row.subjects)] {
    auto all = spinning();
    all.push_back(Named(kFill, NewBareFill()));
    return all;
  };
  return row;
}

Row SmallRow(const PeerPlace& peers) {
  using Hand = HandLink<by_hand::TwoLines, by_hand::Locked,
                        by_hand::BlocksOf<1024, by_hand::kBlocks>>;
  const std::string name = "handover.1k.stream_filled.spin";
  return {
      .name = name,
      .what = "new tensors of 1 KiB in a row, filled, one way",
      .limit = kTwoLines,
      .subjects = [=] {
        std::vector<NamedSubject> all;
        all.push_back(Named(
            kTwoLines, std::make_unique<TwoProcesses<Hand, StreamFilled>>()));
        all.push_back(Named(
            kQueue, std::make_unique<TwoProcesses<QueueLink, StreamFilled>>(
                        int64_t{1024})));
        AddPeers(name, peers, all);
        return all;
      }};
}

// The protocol by hand is no limit here: it tests the cells of each block by
// itself, where an arena frees many at once. Its receipt is the word `take`.
Row ArenaRow() {
  return {.name = "arena.4k.receipted.spin",
          .what = "a new block there, its receipt back; no queue",
          .limit = kLines,
          .subjects = [] {
            std::vector<NamedSubject> all;
            all.push_back(Named(kLines, NewBareLines()));
            all.push_back(Named(
                kOneLine,
                std::make_unique<TwoProcesses<HandOneLine, Receipted>>()));
            all.push_back(Named(kArena, NewArenaAlone()));
            return all;
          }};
}

// By hand four blocks are written in turn, so that small ones stay cached.
template <size_t kBytes>
Row FilledRow(const std::string& size, int count, const PeerPlace& peers) {
  using Hand = HandLink<by_hand::TwoLines, by_hand::Locked,
                        by_hand::BlocksOf<kBytes, 4>>;
  const std::string name = "handover." + size + ".filled.spin";
  return {.name = name,
          .what = "a new tensor there, filled, another back",
          .limit = kTwoLines,
          .count = count,
          .subjects = [=] {
            std::vector<NamedSubject> all;
            all.push_back(Named(
                kTwoLines, std::make_unique<TwoProcesses<Hand, Filled>>()));
            all.push_back(
                Named(kQueue, std::make_unique<TwoProcesses<QueueLink, Filled>>(
                                  int64_t{kBytes})));
            AddPeers(name, peers, all);
            return all;
          }};
}

Row AsleepRow() {
  return {.name = "handover.4k.forwarded.asleep",
          .what =
              "a tensor there and back; each side sleeps until it comes, "
              "as the other works for 100 us, which are subtracted",
          .limit = kPoll,
          .count = 32,
          .sleeps = true,
          .subjects = [] {
            std::vector<NamedSubject> all;
            all.push_back(Named(kPoll, NewBarePoll()));
            all.push_back(Named(kFutex, NewBareFutex()));
            all.push_back(Named(
                kQueue,
                std::make_unique<TwoProcesses<QueueLink, ForwardedAsleep>>()));
            return all;
          }};
}

template <Half half>
Row OneThreadRow(const std::string& name, const std::string& what) {
  return {.name = name,
          .what = what,
          .limit = kTwoLines,
          .crosses_cores = false,
          .subjects = [] {
            std::vector<NamedSubject> all;
            all.push_back(Named(
                kTwoLines, std::make_unique<OneThread<HandTwoLines, half>>()));
            all.push_back(Named(
                kOneLine, std::make_unique<OneThread<HandOneLine, half>>()));
            all.push_back(
                Named(kOneLinePlain,
                      std::make_unique<OneThread<HandOneLinePlain, half>>()));
            all.push_back(
                Named(kQueue, std::make_unique<OneThread<QueueLink, half>>()));
            return all;
          }};
}

Row CreateRow() {
  return {.name = "create.4k.one_thread",
          .what = "a new tensor, and the drop of it",
          .limit = kTwoLines,
          .crosses_cores = false,
          .subjects = [] {
            std::vector<NamedSubject> all;
            all.push_back(Named(
                kTwoLines, std::make_unique<CreateAndDrop<HandTwoLines>>()));
            all.push_back(
                Named(kQueue, std::make_unique<CreateAndDrop<QueueLink>>()));
            return all;
          }};
}

Row OwnRow() {
  return {.name = "own.16m.from_bytes.one_thread",
          .what =
              "a tensor of 16 MiB in a segment of its own from bytes, and "
              "the drop of it",
          .limit = kPwrite,
          .count = 2,
          .crosses_cores = false,
          .subjects = [] {
            std::vector<NamedSubject> all;
            all.push_back(Named(kPwrite, NewBarePwrite(kOwnBytes)));
            all.push_back(Named(kFromBytes, NewOwnFromBytes(kOwnBytes)));
            return all;
          }};
}

}  // namespace

std::vector<Row> HandoverRows(const PeerPlace& peers) {
  return {
      SpinRow<Forwarded>("handover.4k.forwarded.spin",
                         "a tensor there, and the same one back", peers),
      SpinRow<New>("handover.4k.new.spin", "a new tensor there, another back",
                   peers),
      ArenaRow(),
      StreamRow(peers),
      SmallRow(peers),
      FilledRow<size_t{4} << 10>("4k", 512, peers),
      FilledRow<size_t{1} << 20>("1m", 32, peers),
      FilledRow<size_t{16} << 20>("16m", 4, peers),
      AsleepRow(),
      OneThreadRow<Half::kPut>("put.4k.one_thread",
                               "put of a tensor, all in one thread"),
      OneThreadRow<Half::kGet>("get.4k.one_thread",
                               "get and release of it, all in one thread"),
      CreateRow(),
      OwnRow(),
  };
}

}  // namespace tenon::benchmarks
