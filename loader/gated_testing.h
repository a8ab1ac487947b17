// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Gated: a dataset whose first item waits for the test.

#ifndef TENON_LOADER_GATED_TESTING_H_
#define TENON_LOADER_GATED_TESTING_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/arguments/shm_arguments.h"

namespace tenon::loader {

// Item 0 is ready once the gate is open: its element is not 0.
class Gated : public Numbers {
 public:
  explicit Gated(Tensor gate) : Numbers(10), gate_(std::move(gate)) {}
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    TENON_ASSIGN_OR_RETURN(const auto gate, gate_.data<int64_t>());
    const Deadline watchdog = Watchdog();
    while (index == 0 && std::atomic_ref(gate[0]).load() == 0) {
      if (watchdog.has_passed()) return absl::DeadlineExceededError("gate");
      absl::SleepFor(absl::Milliseconds(1));
    }
    return Numbers::Get(index, random, sample);
  }

 private:
  Tensor gate_;
};
TENON_LOADER_DATASET(Gated(Tensor));

}  // namespace tenon::loader

#endif  // TENON_LOADER_GATED_TESTING_H_
