// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TwoCores: the cores of the two processes of a benchmark.

#ifndef TENON_SHM_TESTING_TWO_CORES_H_
#define TENON_SHM_TESTING_TWO_CORES_H_

#include <sched.h>

#include <array>
#include <cstddef>

namespace tenon {

// The first two cores that this process may use. A value.
class TwoCores {
 public:
  TwoCores() {
    cpu_set_t may;
    CPU_ZERO(&may);
    if (sched_getaffinity(0, sizeof(may), &may) != 0) return;
    for (int core = 0; core < CPU_SETSIZE && count_ < 2; ++core) {
      if (CPU_ISSET(core, &may)) cores_[count_++] = core;
    }
  }

  bool are_there() const { return count_ == 2; }
  int operator[](size_t which) const { return cores_[which]; }

  // Binds the calling thread to one of them.
  void PinTo(size_t which) const {
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(cores_[which], &core);
    sched_setaffinity(0, sizeof(core), &core);
  }

 private:
  std::array<int, 2> cores_ = {};
  size_t count_ = 0;
};

// Restores the calling thread's affinity when destroyed.
class KeepAffinity {
 public:
  KeepAffinity() { sched_getaffinity(0, sizeof(before_), &before_); }
  ~KeepAffinity() { sched_setaffinity(0, sizeof(before_), &before_); }
  KeepAffinity(const KeepAffinity&) = delete;
  KeepAffinity& operator=(const KeepAffinity&) = delete;

 private:
  cpu_set_t before_ = {};
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_TWO_CORES_H_
