// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests of kernels that lack a feature.
//
//   EXPECT_TRUE(PassesInChild([] {
//     ASSERT_TRUE(FailSystemCall({.number = SYS_madvise, .argument = 2,
//                                 .value = MADV_COLLAPSE, .error = EINVAL}));
//     ...

#ifndef TENON_SHM_TESTING_SECCOMP_TESTING_H_
#define TENON_SHM_TESTING_SECCOMP_TESTING_H_

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace tenon {

struct FailingSystemCall {
  long number = 0;
  // Only with this value (its lower half) of the argument counted from 0; -1:
  // always.
  int argument = -1;
  uint32_t value = 0;
  int error = 0;
};

// From now on, permanently, that call fails in this thread and its children.
// False if the kernel does not permit it.
inline bool FailSystemCall(const FailingSystemCall& call) {
  const auto argument =
      static_cast<size_t>(call.argument < 0 ? 0 : call.argument);
  const auto offset = static_cast<uint32_t>(offsetof(seccomp_data, args) +
                                            argument * sizeof(uint64_t));
  // Skips the comparison if any value matches.
  const auto otherwise = static_cast<uint8_t>(call.argument < 0 ? 0 : 1);
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call.number), 0,
               3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call.value, 0, otherwise),
      BPF_STMT(BPF_RET | BPF_K,
               SECCOMP_RET_ERRNO | static_cast<uint32_t>(call.error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {.len = std::size(program), .filter = program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SECCOMP_TESTING_H_
