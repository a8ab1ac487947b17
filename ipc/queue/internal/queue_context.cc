// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/internal/queue_context.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/random_id.h"

namespace tenon {
namespace {

using A = StdAtomics;

}  // namespace

std::string QueueContext::Describe(const RandomId& id,
                                   const std::string& name) {
  return name.empty() ? absl::StrCat("queue ", id.ToString())
                      : absl::StrCat("queue '", name, "'");
}

uint64_t QueueContext::SizeOf(size_t slot) const {
  // In this order: a taken item has been put.
  const uint64_t take =
      A::Load(memory.at(slot).take, std::memory_order_acquire);
  return std::min(memory.EndOf(slot) - take, memory.geometry().capacity);
}

uint64_t QueueContext::size() const {
  const size_t slots = memory.geometry().participants;
  uint64_t all = 0;
  for (size_t slot = 0; slot < slots; ++slot) all += SizeOf(slot);
  return all;
}

absl::Status QueueContext::LockTimedOut(absl::string_view doing) const {
  return absl::DeadlineExceededError(
      absl::StrCat(what, ": another thread of this process was ", doing,
                   " until the deadline"));
}

absl::Status QueueContext::CorruptWords(size_t slot) const {
  return absl::DataLossError(absl::StrCat(
      what, ": corrupt control words in slot ", slot, " (head ",
      A::Load(memory.at(slot).head, std::memory_order_relaxed), ", take ",
      A::Load(memory.at(slot).take, std::memory_order_relaxed), ", sequence ",
      memory.NextSequence(slot),
      "): another process overwrote the queue's memory"));
}

}  // namespace tenon
