// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/testing/test_datasets.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/field.h"
#include "tenon/loader/sampling/sample_random.h"

namespace tenon::loader {
namespace {

using DatasetOr = absl::StatusOr<std::unique_ptr<Dataset>>;

bool is_consumer = false;

class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t size) : size_(size) {}

  int64_t size() const override { return size_; }

  std::vector<FieldSpec> fields() const override {
    return {{"value", DtypeOf<int64_t>(), {}},
            {"noise", DtypeOf<float>(), {kNoiseSize}}};
  }

  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample sample) override {
    sample.field<int64_t>(0)[0] = index;
    for (float& noise : sample.field<float>(1)) {
      noise = static_cast<float>(random.Uniform());
    }
    return absl::OkStatus();
  }

 private:
  int64_t size_;
};

class Bad : public Numbers {
 public:
  Bad() : Numbers(100) {}
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample sample) override {
    if (index % 10 == 3) {
      return absl::DataLossError(absl::StrCat("item ", index, " is rotten"));
    }
    if (index % 10 == 7) throw std::runtime_error("item is on fire");
    return Numbers::Get(index, random, sample);
  }
};

template <typename End>
class Ends : public Numbers {
 public:
  Ends() : Numbers(100) {}
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample sample) override {
    if (index == 42 && !is_consumer) End()();
    return Numbers::Get(index, random, sample);
  }
};
struct KillItself {
  void operator()() const { raise(SIGKILL); }
};
struct Exit3 {
  void operator()() const { _exit(3); }
};

class Sleeps : public Numbers {
 public:
  explicit Sleeps(absl::Duration each) : Numbers(1000), each_(each) {}
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample sample) override {
    absl::SleepFor(each_);
    return Numbers::Get(index, random, sample);
  }

 private:
  absl::Duration each_;
};

class PerProcess : public Numbers {
 public:
  PerProcess() : Numbers(10) {}
  std::vector<FieldSpec> fields() const override {
    return {{absl::StrCat("pid", getpid()), DtypeOf<float>(), {}}};
  }
};

absl::StatusOr<int64_t> ParseNumber(absl::string_view config) {
  int64_t number;
  if (!absl::SimpleAtoi(config, &number)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", config, "' is no number"));
  }
  return number;
}

DatasetOr MakeNumbers(absl::string_view config) {
  absl::StatusOr<int64_t> size = ParseNumber(config);
  if (!size.ok()) return size.status();
  return std::make_unique<Numbers>(*size);
}

DatasetOr MakeSleeps(absl::string_view config) {
  absl::StatusOr<int64_t> milliseconds = ParseNumber(config);
  if (!milliseconds.ok()) return milliseconds.status();
  return std::make_unique<Sleeps>(absl::Milliseconds(*milliseconds));
}

template <typename T>
DatasetOr Make(absl::string_view /*config*/) {
  return std::make_unique<T>();
}

DatasetOr MakeNothing(absl::string_view /*config*/) {
  return absl::InvalidArgumentError("no such thing");
}

DatasetOr MakeTrouble(absl::string_view /*config*/) {
  throw std::runtime_error("the factory is on fire");
}

TENON_LOADER_DATASET("numbers", MakeNumbers);
TENON_LOADER_DATASET("bad", Make<Bad>);
TENON_LOADER_DATASET("dies", Make<Ends<KillItself>>);
TENON_LOADER_DATASET("exits", Make<Ends<Exit3>>);
TENON_LOADER_DATASET("sleeps", MakeSleeps);
TENON_LOADER_DATASET("per_process", Make<PerProcess>);
TENON_LOADER_DATASET("no_factory", MakeNothing);
TENON_LOADER_DATASET("throwing_factory", MakeTrouble);

}  // namespace

void MarkAsConsumer() { is_consumer = true; }

}  // namespace tenon::loader
