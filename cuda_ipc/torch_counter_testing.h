// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TorchCounters: a file of counters as torch makes it, of a test.

#ifndef TENON_CUDA_IPC_TORCH_COUNTER_TESTING_H_
#define TENON_CUDA_IPC_TORCH_COUNTER_TESTING_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"

namespace tenon::cuda_ipc {

inline constexpr off_t kTorchFileBytes = 64 + 10'000 * 8;

// Ownership: removes its name. Processes: a forked child uses it, too, and does
//   not remove it.
class TorchCounters {
 public:
  explicit TorchCounters(off_t bytes = kTorchFileBytes, mode_t mode = 0600) {
    // Of torch's form; unique also among processes of other PID namespaces.
    name_ = absl::StrCat("/torch_", owner_, "_", UniqueTestPrefix());
    fd_ = UniqueFd(shm_open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
    EXPECT_TRUE(fd_.valid());
    EXPECT_EQ(fchmod(fd_.get(), mode), 0);
    EXPECT_EQ(ftruncate(fd_.get(), bytes), 0);
    const int32_t references = 1;
    EXPECT_EQ(pwrite(fd_.get(), &references, sizeof(references), 0),
              static_cast<ssize_t>(sizeof(references)));
  }
  ~TorchCounters() {
    if (getpid() == owner_) Remove();
  }
  TorchCounters(const TorchCounters&) = delete;
  TorchCounters& operator=(const TorchCounters&) = delete;

  // With a slash, as torch sends it.
  const std::string& name() const { return name_; }
  void Remove() const { shm_unlink(name_.c_str()); }
  int fd() const { return fd_.get(); }

  void Set(int counter, int64_t value) const {
    EXPECT_EQ(pwrite(fd_.get(), &value, sizeof(value), 64 + 8 * counter),
              static_cast<ssize_t>(sizeof(value)));
  }
  int64_t Get(int counter) const {
    int64_t value = -1;
    EXPECT_EQ(pread(fd_.get(), &value, sizeof(value), 64 + 8 * counter),
              static_cast<ssize_t>(sizeof(value)));
    return value;
  }

 private:
  const pid_t owner_ = getpid();
  std::string name_;
  UniqueFd fd_;
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_TORCH_COUNTER_TESTING_H_
