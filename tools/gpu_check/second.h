// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SecondProcess: the other side of a check: this program in another process,
// which plays a role.

#ifndef TENON_TOOLS_GPU_CHECK_SECOND_H_
#define TENON_TOOLS_GPU_CHECK_SECOND_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/tools/gpu_check/check.h"

namespace tenon::gpu_check {

// Descriptors of the second process.
inline constexpr int kSecondWire = 3;
inline constexpr int kSecondMemory = 4;

// One end of a stream of bytes between both sides. Its calls throw Broken.
class Wire {
 public:
  explicit Wire(UniqueFd socket) : socket_(std::move(socket)) {}

  template <typename T>
  void Write(const T& value) const {
    WriteBytes(&value, sizeof(value));
  }
  // Blocks for 20 s at most.
  template <typename T>
  T Read() const {
    T value = {};
    ReadBytes(&value, sizeof(value));
    return value;
  }
  // Blocks until the other side has ended or closed its end.
  void AwaitEnd() const;
  int fd() const { return socket_.get(); }

 private:
  void WriteBytes(const void* data, size_t size) const;
  void ReadBytes(void* data, size_t size) const;

  UniqueFd socket_;
};

// Ownership: kills and reaps its process when it is destroyed.
// Threads: thread-compatible.
class SecondProcess {
 public:
  // Starts `role`, which has a duplicate of `memory`. Throws Broken.
  explicit SecondProcess(const std::string& role, int memory = -1);
  ~SecondProcess();
  SecondProcess(const SecondProcess&) = delete;
  SecondProcess& operator=(const SecondProcess&) = delete;

  const Wire& wire() const { return wire_; }
  pid_t pid() const { return pid_; }
  // The role returns once it has read the end of its wire. Blocks until then.
  void End();
  void Kill();

 private:
  void Reap();

  Wire wire_{UniqueFd()};
  pid_t pid_ = -1;
};

// In the second process: plays `role`. `memory` is -1 where there is none.
void PlaySecond(absl::string_view role, const Gpu& gpu, const Wire& first,
                int memory);

}  // namespace tenon::gpu_check

#endif  // TENON_TOOLS_GPU_CHECK_SECOND_H_
