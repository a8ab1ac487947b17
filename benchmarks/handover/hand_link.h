// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// HandLink: the protocol by hand as a Link (works.h).

#ifndef TENON_BENCHMARKS_HANDOVER_HAND_LINK_H_
#define TENON_BENCHMARKS_HANDOVER_HAND_LINK_H_

#include <memory>

#include "tenon/benchmarks/handover/by_hand.h"
#include "tenon/shm/testing/shared_object.h"

namespace tenon::benchmarks {

template <typename Ring, typename Steps, typename Blocks = by_hand::Blocks4K>
class HandLink {
 public:
  using End = by_hand::End<Ring, Steps, Blocks>;

  std::unique_ptr<End> Asker() { return std::make_unique<End>(*memory_, 0); }
  std::unique_ptr<End> Answerer() { return std::make_unique<End>(*memory_, 1); }

 private:
  SharedObject<by_hand::Memory<Ring, Blocks>> memory_;
};

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HANDOVER_HAND_LINK_H_
