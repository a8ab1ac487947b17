// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// DoorbellTesting: the fixture of the tests of doorbells.

#ifndef TENON_IPC_DOORBELL_DOORBELL_TESTING_H_
#define TENON_IPC_DOORBELL_DOORBELL_TESTING_H_

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {

// A sleeper and a ringer; `news` is the published word.
class DoorbellTesting : public testing::Test {
 public:
  using A = StdAtomics;

  static Deadline Soon() { return Deadline::After(absl::Seconds(30)); }
  static Deadline In(int ms) { return Deadline::After(absl::Milliseconds(ms)); }

 protected:
  struct Words {
    SharedWord<uint64_t> sleeping{0};
    SharedWord<uint64_t> news{0};
  };

  void SetUp() override {
    TENON_ASSERT_OK_AND_ASSIGN(bell_,
                               Doorbell::Create(&words_->sleeping, "test"));
    ringer_ = MakeRinger();
  }

  DoorbellRinger MakeRinger() {
    return DoorbellRinger::Adopt(&words_->sleeping, CopyOfBell()).value();
  }
  UniqueFd CopyOfBell() {
    return UniqueFd(fcntl(bell_->bell_fd(), F_DUPFD_CLOEXEC, 0));
  }
  bool HasNews() const {
    return A::Load(words_->news, std::memory_order_seq_cst) != 0;
  }
  bool IsAsleep() const {
    return A::Load(words_->sleeping, std::memory_order_seq_cst) % 2 == 1;
  }
  void Publish(DoorbellRinger& ringer) {
    A::Store(words_->news, 1, std::memory_order_seq_cst);
    ringer.Ring();
  }
  WaitOutcome Wait(Deadline deadline) {
    return bell_->Wait([this] { return HasNews(); }, deadline).value();
  }
  static bool IsReadable(int fd) {
    pollfd one = {.fd = fd, .events = POLLIN, .revents = 0};
    return poll(&one, 1, 0) == 1;
  }
  // The number of rings on the descriptor; 0 if there are none.
  uint64_t ReadBell() {
    uint64_t count = 0;
    const auto got = read(bell_->bell_fd(), &count, sizeof(count));
    return got == sizeof(count) ? count : 0;
  }

  SharedObject<Words> words_;
  std::unique_ptr<Doorbell> bell_;
  DoorbellRinger ringer_;
};

}  // namespace tenon

#endif  // TENON_IPC_DOORBELL_DOORBELL_TESTING_H_
