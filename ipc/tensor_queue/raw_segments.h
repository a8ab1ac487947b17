// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RawSegments: passes a new segment to another process with bare system calls,
// as the limit in benchmarks.

#ifndef TENON_IPC_TENSOR_QUEUE_RAW_SEGMENTS_H_
#define TENON_IPC_TENSOR_QUEUE_RAW_SEGMENTS_H_

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "benchmark/benchmark.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// `socket` is one end of a pair.
class RawSegments {
 public:
  explicit RawSegments(int socket) : socket_(socket) {
    message_.msg_iov = &data_;
    message_.msg_iovlen = 1;
  }

  void Send() {
    const UniqueFd fd(memfd_create("raw", MFD_CLOEXEC));
    TENON_CHECK(ftruncate(fd.get(), kBytes) == 0, "ftruncate");
    void* const memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    std::memset(memory, 1, kBytes);
    Prepare();
    cmsghdr* const header = CMSG_FIRSTHDR(&message_);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int number = fd.get();
    std::memcpy(CMSG_DATA(header), &number, sizeof(number));
    TENON_CHECK(sendmsg(socket_, &message_, 0) == 1, "sendmsg");
    munmap(memory, kBytes);
  }

  void Receive() {
    constexpr int kFlags = MSG_CMSG_CLOEXEC | MSG_DONTWAIT;
    do {
      Prepare();
    } while (recvmsg(socket_, &message_, kFlags) != 1);
    int number;
    std::memcpy(&number, CMSG_DATA(CMSG_FIRSTHDR(&message_)), sizeof(number));
    const UniqueFd fd(number);
    void* const memory =
        mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd.get(), 0);
    TENON_CHECK(memory != MAP_FAILED, "mmap");
    char first = *static_cast<const volatile char*>(memory);
    benchmark::DoNotOptimize(first);
    munmap(memory, kBytes);
  }

 private:
  static constexpr size_t kBytes = 4096;

  void Prepare() {
    message_.msg_control = control_;
    message_.msg_controllen = sizeof(control_);
  }

  const int socket_;
  char byte_ = 0;
  iovec data_ = {&byte_, 1};
  alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(int))] = {};
  msghdr message_ = {};
};

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_QUEUE_RAW_SEGMENTS_H_
