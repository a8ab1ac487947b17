// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Datasets that the loader's tests run on, registered by name; each does one
// thing well or badly. Linking this file is enough to use them.
//
//   "numbers"   config: how many items. Item i: value = i (int64), and noise =
//               16 floats from the sample's random numbers.
//   "bad"       as "numbers" with 100 items; item i fails with kDataLoss if
//               i % 10 == 3, and throws std::runtime_error if i % 10 == 7.
//   "dies"      as "numbers" with 100 items; item 42 raises SIGKILL, in a worker
//               and nowhere else.
//   "exits"     the same, with exit(3).
//   "sleeps"    config: milliseconds that each item takes; 1000 items.
//   "per_process"  fields that differ from process to process: always refused.
//   "no_factory"   a factory that fails with kInvalidArgument "no such thing".
//   "throwing_factory"  a factory that throws.

#ifndef TENON_LOADER_TESTING_TEST_DATASETS_H_
#define TENON_LOADER_TESTING_TEST_DATASETS_H_

namespace tenon::loader {

inline constexpr int kNoiseSize = 16;

// Tells the datasets above that this process is the consumer and not a worker.
// Call it in main() after spawn::Init().
void MarkAsConsumer();

}  // namespace tenon::loader

#endif  // TENON_LOADER_TESTING_TEST_DATASETS_H_
