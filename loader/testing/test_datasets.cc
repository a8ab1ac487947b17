// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/testing/test_datasets.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

// For a plugin that takes long to load.
[[maybe_unused]] const bool delayed = [] {
  const char* const text = getenv("TENON_TEST_DATASETS_DELAY_MS");
  int milliseconds = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &milliseconds)) return false;
  absl::SleepFor(absl::Milliseconds(milliseconds));
  return true;
}();

bool is_consumer = false;
std::atomic<int64_t> samples_made = 0;

class Bulk : public Numbers {
 public:
  explicit Bulk(int64_t size) : Numbers(size) {}
  absl::Status Get(int64_t, SampleRandom&, Sample&) override {
    return absl::InternalError("Get() was called");
  }
  absl::Status GetBatch(absl::Span<const int64_t> indices,
                        SampleBatch& samples) override {
    for (int64_t i = 0; i < samples.size(); ++i) {
      SampleRandom random = samples.random(i);
      Sample sample = samples.sample(i);
      TENON_RETURN_IF_ERROR(Numbers::Get(indices[i], random, sample));
    }
    return absl::OkStatus();
  }
};

class Bad : public Numbers {
 public:
  Bad() : Numbers(100) {}
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
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
                   Sample& sample) override {
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
using Dies = Ends<KillItself>;
using Exits = Ends<Exit3>;

class Sleeps : public Numbers {
 public:
  explicit Sleeps(int64_t milliseconds)
      : Numbers(1000), each_(absl::Milliseconds(milliseconds)) {}
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    absl::SleepFor(each_);
    return Numbers::Get(index, random, sample);
  }

 private:
  absl::Duration each_;
};

class OneThread : public Numbers {
 public:
  OneThread() : Numbers(10) {}
  bool thread_safe() const override { return false; }
};

class CannotSleep : public Numbers {
 public:
  CannotSleep() : Numbers(5) {}
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    if (index == 3) {
      rlimit limit;
      getrlimit(RLIMIT_NOFILE, &limit);
      limit.rlim_cur = 0;
      setrlimit(RLIMIT_NOFILE, &limit);
    }
    return Numbers::Get(index, random, sample);
  }
};

class PerProcess : public Numbers {
 public:
  PerProcess() : Numbers(10) {}
  SampleSpec spec() const override {
    return SampleSpec().Add<float>(absl::StrCat("pid", getpid()));
  }
};

class NoSuchThing : public Numbers {
 public:
  static absl::StatusOr<std::unique_ptr<NoSuchThing>> Create() {
    return absl::InvalidArgumentError("no such thing");
  }
};

class Throws : public Numbers {
 public:
  Throws() : Numbers(10) { throw std::runtime_error("it is on fire"); }
};

class NotInWorkers : public Numbers {
 public:
  static absl::StatusOr<std::unique_ptr<NotInWorkers>> Create() {
    if (!is_consumer) return absl::NotFoundError("not in a worker");
    return std::make_unique<NotInWorkers>(10);
  }
  using Numbers::Numbers;
};

class ItemFailsWith : public Numbers {
 public:
  explicit ItemFailsWith(int code) : Numbers(10), code_(code) {}
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    if (index == 3) {
      return absl::Status(static_cast<absl::StatusCode>(code_), "item 3 fails");
    }
    return Numbers::Get(index, random, sample);
  }

 private:
  int code_;
};

class WorkerFailsWith : public Numbers {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerFailsWith>> Create(int code) {
    if (is_consumer) return std::make_unique<WorkerFailsWith>(10);
    return absl::Status(static_cast<absl::StatusCode>(code), "not in a worker");
  }
  using Numbers::Numbers;
};

class Lingers : public Numbers {
 public:
  static absl::StatusOr<std::unique_ptr<Lingers>> Create() {
    if (is_consumer) return std::make_unique<Lingers>(10);
    std::atexit([] { absl::SleepFor(absl::Seconds(60)); });
    return absl::NotFoundError("not in a worker");
  }
  using Numbers::Numbers;
};

class SlowToMake : public Numbers {
 public:
  static absl::StatusOr<std::unique_ptr<SlowToMake>> Create(
      int64_t milliseconds) {
    if (!is_consumer) absl::SleepFor(absl::Milliseconds(milliseconds));
    return std::make_unique<SlowToMake>(10);
  }
  using Numbers::Numbers;
};

class SizeThrows : public Numbers {
 public:
  explicit SizeThrows(bool only_in_workers)
      : Numbers(10), throws_(!only_in_workers || !is_consumer) {}
  int64_t size() const override {
    if (throws_) throw std::runtime_error("no size");
    return Numbers::size();
  }

 private:
  bool throws_;
};

class SpecThrows : public Numbers {
 public:
  explicit SpecThrows(bool only_in_workers)
      : Numbers(10), throws_(!only_in_workers || !is_consumer) {}
  SampleSpec spec() const override {
    if (throws_) throw std::runtime_error("no spec");
    return Numbers::spec();
  }

 private:
  bool throws_;
};

class Described : public Dataset {
 public:
  Described(const std::string& text, std::vector<double> values)
      : length_(std::ssize(text)), values_(std::move(values)) {}

  int64_t size() const override { return 1; }
  SampleSpec spec() const override {
    return SampleSpec().Add<int64_t>("length").Add<double>("values", {3});
  }
  absl::Status Get(int64_t, SampleRandom&, Sample& sample) override {
    TENON_ASSIGN_OR_RETURN(const absl::Span<double> to,
                           sample.data<double>("values"));
    std::copy(values_.begin(), values_.end(), to.begin());
    return sample.Set("length", length_);
  }

 private:
  int64_t length_;
  std::vector<double> values_;
};

class NumberStream : public SampleStream {
 public:
  NumberStream(int64_t first, int64_t size) : first_(first), size_(size) {}
  absl::StatusOr<bool> Next(SampleRandom& random, Sample& sample) override {
    if (next_ == size_) return false;
    Numbers numbers(0);
    TENON_RETURN_IF_ERROR(numbers.Get(first_ + next_++, random, sample));
    return true;
  }

 private:
  int64_t first_;
  int64_t size_;
  int64_t next_ = 0;
};

class BadStream : public NumberStream {
 public:
  explicit BadStream(int64_t size) : NumberStream(0, size) {}
  absl::StatusOr<bool> Next(SampleRandom& random, Sample& sample) override {
    const int64_t n = next_++;
    TENON_ASSIGN_OR_RETURN(const bool more, NumberStream::Next(random, sample));
    if (n % 10 == 3) {
      return absl::DataLossError(absl::StrCat("sample ", n, " is rotten"));
    }
    if (n % 10 == 7) throw std::runtime_error("sample is on fire");
    return more;
  }

 private:
  int64_t next_ = 0;
};

class BadStreams : public Streams {
 public:
  explicit BadStreams(const std::vector<int64_t>& sizes)
      : Streams(sizes), sizes_(sizes) {}
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t) override {
    return std::make_unique<BadStream>(sizes_[static_cast<size_t>(shard)]);
  }

 private:
  std::vector<int64_t> sizes_;
};

class DyingStreams : public Streams {
 public:
  explicit DyingStreams(bool in_open)
      : Streams({100, 100}), in_open_(in_open) {}
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t epoch) override {
    if (shard == 0) return Streams::Open(shard, epoch);
    if (in_open_ && !is_consumer) KillItself()();
    return std::make_unique<Dying>();
  }

 private:
  class Dying : public NumberStream {
   public:
    Dying() : NumberStream(1000, 100) {}
    absl::StatusOr<bool> Next(SampleRandom& random, Sample& sample) override {
      if (++next_ == 4 && !is_consumer) KillItself()();
      return NumberStream::Next(random, sample);
    }

   private:
    int next_ = 0;
  };

  bool in_open_;
};

class OtherShards : public Streams {
 public:
  OtherShards() : Streams({3, 3, 3}) {}
  int64_t shards() const override { return is_consumer ? 2 : 3; }
};

TENON_LOADER_DATASET(DyingStreams(bool));
TENON_LOADER_DATASET(OtherShards());
TENON_LOADER_DATASET(Bulk(int64_t));
TENON_LOADER_DATASET(BadStreams(std::vector<int64_t>));
TENON_LOADER_DATASET(Bad());
TENON_LOADER_DATASET(Dies());
TENON_LOADER_DATASET(Exits());
TENON_LOADER_DATASET(Sleeps(int64_t));
TENON_LOADER_DATASET(OneThread());
TENON_LOADER_DATASET(CannotSleep());
TENON_LOADER_DATASET(PerProcess());
TENON_LOADER_DATASET(NoSuchThing());
TENON_LOADER_DATASET(Throws());
TENON_LOADER_DATASET(NotInWorkers());
TENON_LOADER_DATASET(ItemFailsWith(int));
TENON_LOADER_DATASET(WorkerFailsWith(int));
TENON_LOADER_DATASET(Lingers());
TENON_LOADER_DATASET(SlowToMake(int64_t));
TENON_LOADER_DATASET(SizeThrows(bool));
TENON_LOADER_DATASET(SpecThrows(bool));
TENON_LOADER_DATASET(Described(std::string, std::vector<double>));

}  // namespace

SampleSpec Numbers::spec() const {
  return SampleSpec().Add<int64_t>("value").Add<float>("noise", {kNoiseSize});
}

absl::Status Numbers::Get(int64_t index, SampleRandom& random, Sample& sample) {
  TENON_ASSIGN_OR_RETURN(const absl::Span<float> noise,
                         sample.data<float>("noise"));
  for (float& value : noise) value = static_cast<float>(random.Uniform());
  ++samples_made;
  return sample.Set("value", index);
}

absl::StatusOr<std::unique_ptr<SampleStream>> Streams::Open(int64_t shard,
                                                            int64_t) {
  const int64_t size = sizes_[static_cast<size_t>(shard)];
  if (size < 0) return absl::NotFoundError("no such file");
  return std::make_unique<NumberStream>(1000 * shard, size);
}

void MarkAsConsumer() { is_consumer = true; }

int64_t SamplesMade() { return samples_made; }

}  // namespace tenon::loader
