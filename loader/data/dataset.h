// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Dataset: a map-style dataset, and how worker processes find it by name.
//
//   class Squares : public loader::Dataset {
//    public:
//     int64_t size() const override { return 1000; }
//     std::vector<loader::FieldSpec> fields() const override {
//       return {{"square", loader::DtypeOf<float>(), {}}};
//     }
//     absl::Status Get(int64_t index, loader::SampleRandom&,
//                      loader::Sample sample) override {
//       sample.field<float>(0)[0] = static_cast<float>(index * index);
//       return absl::OkStatus();
//     }
//   };
//   TENON_LOADER_DATASET("squares", [](absl::string_view /*config*/)
//       -> absl::StatusOr<std::unique_ptr<loader::Dataset>> {
//     return std::make_unique<Squares>();
//   });
//
// A sample is written straight into its slot of the batch, in shared memory:
// collation costs nothing.

#ifndef TENON_LOADER_DATA_DATASET_H_
#define TENON_LOADER_DATA_DATASET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/field.h"
#include "tenon/loader/sampling/sample_random.h"

namespace tenon::loader {

// The place of one sample in a batch. Its bytes may hold anything before they
// are written. A view; valid during the call that it is given to.
class Sample {
 public:
  // Sample `i` of a batch whose memory begins at `batch`.
  Sample(const BatchLayout& layout, std::byte* batch, int64_t i)
      : layout_(layout), batch_(batch), i_(i) {}

  // All bytes of field `f`, in the order of Dataset::fields().
  std::span<std::byte> bytes(size_t f) const;

  // The elements of field `f`. T must have the size of the field's elements;
  // anything else is a programming error and ends the process.
  template <typename T>
  std::span<T> field(size_t f) const {
    CheckElementSize(f, sizeof(T));
    const std::span<std::byte> raw = bytes(f);
    return {reinterpret_cast<T*>(raw.data()), raw.size() / sizeof(T)};
  }

 private:
  void CheckElementSize(size_t f, size_t size) const;

  const BatchLayout& layout_;
  std::byte* batch_;
  int64_t i_;
};

// Threads: an instance is used by one thread. Processes: each worker makes its
//   own by the registered factory; with no workers the consumer's is used.
// Failure: Get() returns a status or throws, and the loader's options say
//   whether that skips the sample or ends the epoch. An instance must be usable
//   after either.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // How many items there are. Must not change.
  virtual int64_t size() const = 0;

  // What a sample consists of. Must not change, and must be the same in each
  // process.
  virtual std::vector<FieldSpec> fields() const = 0;

  // Writes item `index` (in [0, size())) into `sample`: every byte of every
  // field. All randomness must come from `random`, which makes the epoch
  // independent of the number of workers.
  virtual absl::Status Get(int64_t index, SampleRandom& random,
                           Sample sample) = 0;
};

// Makes a dataset from what LoaderOptions::dataset_config says. Runs in the
// consumer and in each worker; keep it cheap and free of surprises.
using DatasetFactory =
    absl::StatusOr<std::unique_ptr<Dataset>> (*)(absl::string_view config);

// Done before main() by TENON_LOADER_DATASET. A second one of the same name
// ends the program with a message.
bool RegisterDataset(absl::string_view name, DatasetFactory factory);

// Makes the dataset registered under `name`.
// Errors: kNotFound listing the names there are; the factory's; kInternal for
// an exception in it.
absl::StatusOr<std::unique_ptr<Dataset>> MakeDataset(absl::string_view name,
                                                     absl::string_view config);

}  // namespace tenon::loader

// At namespace scope in a .cc file; a library needs `alwayslink = True`.
#define TENON_LOADER_DATASET(name, ...) \
  TENON_LOADER_DATASET_(__COUNTER__, name, __VA_ARGS__)
#define TENON_LOADER_DATASET_(n, name, ...) \
  TENON_LOADER_DATASET_INNER_(n, name, __VA_ARGS__)
#define TENON_LOADER_DATASET_INNER_(n, name, ...)               \
  [[maybe_unused]] static const bool tenon_loader_dataset_##n = \
      ::tenon::loader::RegisterDataset(name, __VA_ARGS__)

#endif  // TENON_LOADER_DATA_DATASET_H_
