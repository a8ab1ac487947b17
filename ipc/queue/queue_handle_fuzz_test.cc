// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Fuzz target of the bytes of a QueueHandle: they are parsed as a plainer
// implementation does, and encoded to the same bytes; only a queue's own bytes
// open it, and no descriptor stays open.
//
// An input is a byte of flags and the bytes. 1: the identity is corrected; 2:
// with the descriptors that belong to a queue, else one too few; 4: parsed
// handles are opened.
//
// As a test it replays testdata/queue_handle_fuzz and mutations of it. As a
// fuzzer: clang++ -std=c++20 -DTENON_FUZZ -fsanitize=fuzzer,address,undefined,
// with the sources of //ipc/queue/internal:queue_core and its dependencies.

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/queue/internal/queue_core.h"
#include "tenon/ipc/queue/internal/queue_handle_bytes.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/unique_fd.h"

#ifndef TENON_FUZZ
#include "gtest/gtest.h"
#include "tenon/shm/testing/fuzz_testing.h"
#endif

namespace tenon {
namespace {

constexpr size_t kParticipants = 2;

QueueCore& GetHonest() {
  static QueueCore& honest =
      *QueueCore::Create(QueueType::kItems, 8,
                         {.capacity = 4, .max_participants = kParticipants})
           .value()
           .release();
  return honest;
}

// The number of the next descriptor: unchanged if none leaked.
int NextFd() { return UniqueFd(fcntl(0, F_DUPFD_CLOEXEC, 0)).get(); }

uint64_t WordAt(absl::string_view bytes, size_t at) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof(word));
  return word;
}

// Byte by byte, and by division where the checked code multiplies.
bool PlainIsGeometry(absl::string_view bytes, size_t fds) {
  if (bytes.size() != 64 || bytes.substr(0, 8) != "Tenueue1") return false;
  if ((WordAt(bytes, 8) & 0xffffffff) != 4) return false;
  const uint64_t item = WordAt(bytes, 16), capacity = WordAt(bytes, 24);
  const uint64_t participants = WordAt(bytes, 32);
  if (item == 0 || item > 65536) return false;
  if (capacity == 0 || capacity > (1 << 24)) return false;
  if (participants == 0 || participants > 64) return false;
  if (WordAt(bytes, 40) > 1) return false;
  uint64_t slots = 1;
  while (slots < capacity) slots *= 2;
  uint64_t slot = 8 + item;  // In bytes.
  while (slot % 8 != 0) ++slot;
  while (slot < 64 && (slot & (slot - 1)) != 0) ++slot;
  const bool aligned = (WordAt(bytes, 8) >> 32) == 3;  // Tensors.
  while (aligned && slot > 64 && slot % 64 != 0) ++slot;
  const uint64_t lines = (slots * slot + 63) / 64;
  const uint64_t pages = (128 + 1152 * participants + 4095) / 4096;
  if (lines > ((1 << 30) - 4096 * pages) / 64 / participants) return false;
  return fds == 1 + 2 * participants;
}

void CheckError(const absl::Status& status) {
  TENON_CHECK(
      absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status),
      "another error");
  TENON_CHECK(!status.message().empty(), "an error is silent");
}

void FuzzOne(const uint8_t* data, size_t size) {
  QueueCore& honest = GetHonest();
  const int next_fd = NextFd();
  const uint8_t flags = size > 0 ? data[0] : 0;
  std::string bytes(size > 0 ? data + 1 : data, data + size);
  {
    QueueHandle handle = honest.Share().value();
    const std::string good = handle.bytes;
    if ((flags & 1) && bytes.size() == good.size()) {
      bytes.replace(48, 16, good, 48, 16);
    }
    if (!(flags & 2)) handle.fds.pop_back();
    const auto geometry = ParseQueueHandle(bytes, handle.fds.size());
    TENON_CHECK(geometry.ok() == PlainIsGeometry(bytes, handle.fds.size()),
                "a handle was refused, or the other way round");
    if (!geometry.ok()) {
      CheckError(geometry.status());
    } else {
      TENON_CHECK(QueueHandleBytes(*geometry) == bytes,
                  "it is not what it was");
    }
    if (flags & 4) {
      handle.bytes = bytes;
      const auto opened =
          QueueCore::Open(std::move(handle), QueueType::kItems, 8);
      TENON_CHECK(opened.ok() == (geometry.ok() && bytes == good),
                  "another queue was opened, or its own was not");
      if (!opened.ok()) CheckError(opened.status());
    }
  }
  TENON_CHECK(NextFd() == next_fd, "a descriptor was left open");
}

}  // namespace
}  // namespace tenon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tenon::FuzzOne(data, size);
  return 0;
}

#ifndef TENON_FUZZ

namespace tenon {
namespace {

TEST(QueueHandleFuzzTest, CorpusAndItsMutations) {
  ReplayCorpus(LLVMFuzzerTestOneInput, "ipc/queue/testdata/queue_handle_fuzz",
               {.mutations = 50'000});
}

}  // namespace
}  // namespace tenon

#endif  // TENON_FUZZ
