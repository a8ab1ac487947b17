// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Consumers of loaders whose workers and supervisors another process kills, and
// workers it stops for a moment, at random; at times the consumer, too.
//
//   bazel run -c opt //tools:loader_soak              # 1,000 epochs
//   bazel run -c opt //tools:loader_soak -- --epochs=20
//
// Every third loader is of a stream, which can pass over samples or not. Each
// epoch has each sample exactly once with the bits that it has without a kill,
// or, where samples that kill are left out, names those that it has not.
// After each loader no process is left, and the descriptors, mappings, memory
// and children of the consumer are as before. Prints figures every ten seconds.
// Exits 1 with the reason if not; 3 on a hang.

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/spawn/child/init.h"
#include "tenon/spawn/supervisor/supervisor.h"
#include "tenon/tools/soak.h"

ABSL_FLAG(uint64_t, epochs, 1'000, "epochs to run");
ABSL_FLAG(uint64_t, seed, 0, "of all that is random; 0: the clock");

namespace tenon::loader {
namespace {

using Random = std::mt19937_64;

constexpr int64_t kItems = 120;
constexpr uint64_t kEpochsOfALoader = 10;
constexpr uint64_t kWarmUpLoaders = 2;

// Item i: i, and a random number.
class Slow : public Dataset {
 public:
  Slow() = default;
  int64_t size() const override { return kItems; }
  SampleSpec spec() const override {
    return SampleSpec().Add<int64_t>("i").Add<double>("random");
  }
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    absl::SleepFor(absl::Microseconds(200));
    TENON_RETURN_IF_ERROR(sample.Set("random", random.Uniform()));
    return sample.Set("i", index);
  }
};
TENON_LOADER_DATASET(Slow());

// The same items, shard by shard. With `skips` they can be passed over.
class SlowStreams : public IterableDataset {
 public:
  static constexpr int64_t kShards = 5;
  static constexpr int64_t kShardSize = kItems / kShards;

  explicit SlowStreams(bool skips) : skips_(skips) {}
  int64_t shards() const override { return kShards; }
  int64_t open_shards() const override { return 3; }
  SampleSpec spec() const override { return Slow().spec(); }
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t) override {
    return std::make_unique<Stream>(shard, skips_);
  }

 private:
  class Stream : public SampleStream {
   public:
    Stream(int64_t shard, bool skips) : shard_(shard), skips_(skips) {}
    absl::StatusOr<bool> Next(SampleRandom& random, Sample& sample) override {
      if (next_ == kShardSize) return false;
      TENON_RETURN_IF_ERROR(
          Slow().Get(shard_ * kShardSize + next_++, random, sample));
      return true;
    }
    absl::StatusOr<int64_t> Skip(int64_t samples) override {
      if (!skips_) return 0;
      samples = std::min(samples, kShardSize - next_);
      next_ += samples;
      return samples;
    }

   private:
    int64_t shard_;
    bool skips_;
    int64_t next_ = 0;
  };

  bool skips_;
};
TENON_LOADER_DATASET(SlowStreams(bool));

// ---- The killer ----

// Kills, or stops for a moment, random processes of this setsid() session
// except `consumer`, forever.
[[noreturn]] void KillAtRandom(pid_t consumer, uint64_t seed) {
  Random random(seed);
  for (;;) {
    absl::SleepFor(absl::Microseconds(random() % 40'000));
    const std::vector<SessionProcess> others = OthersOfThisSession(consumer);
    if (others.empty()) continue;
    const SessionProcess& victim = others[random() % others.size()];
    const absl::StatusOr<PidFd> fd = PidFd::Open(victim.pid);
    // Else it may be another process since.
    if (!fd.ok() || ParentPid(victim.pid) != victim.parent) continue;
    if (random() % 4 != 0) {
      fd->SendSignal(SIGKILL).IgnoreError();
      continue;
    }
    fd->SendSignal(SIGSTOP).IgnoreError();
    absl::SleepFor(absl::Microseconds(random() % 5'000));
    fd->SendSignal(SIGCONT).IgnoreError();
  }
}

pid_t StartKiller(uint64_t seed) {
  const pid_t parent = getpid();
  const pid_t killer = fork();
  if (killer != 0) return killer;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  KillAtRandom(parent, seed);
}

// ---- The consumer ----

// Which samples of an epoch came, or are named as left out.
class Seen {
 public:
  explicit Seen(int64_t epoch, uint64_t seed) : epoch_(epoch), seed_(seed) {}

  absl::Status Note(const Batch& batch) {
    TENON_ASSIGN_OR_RETURN(const auto items, batch.data<int64_t>("i"));
    TENON_ASSIGN_OR_RETURN(const auto randoms, batch.data<double>("random"));
    int64_t position = batch.number() * kBatchSize;
    size_t skipped = 0;
    for (size_t i = 0; i < items.size(); ++i, ++position) {
      while (skipped < batch.skipped().size() &&
             batch.skipped()[skipped].position == position) {
        TENON_RETURN_IF_ERROR(NoteItem(batch.skipped()[skipped++].index));
        ++left_out_;
        ++position;
      }
      TENON_RETURN_IF_ERROR(NoteItem(items[i]));
      if (randoms[i] != SampleRandom(seed_, epoch_, position).Uniform()) {
        return absl::InternalError(
            absl::StrCat("item ", items[i], " has other bits"));
      }
    }
    for (; skipped < batch.skipped().size(); ++skipped) {
      TENON_RETURN_IF_ERROR(NoteItem(batch.skipped()[skipped].index));
      ++left_out_;
    }
    return absl::OkStatus();
  }

  // Of a stream, which leaves out none.
  absl::Status NoteOfStream(const Batch& batch) {
    TENON_ASSIGN_OR_RETURN(const auto items, batch.data<int64_t>("i"));
    TENON_ASSIGN_OR_RETURN(const auto randoms, batch.data<double>("random"));
    for (size_t i = 0; i < items.size(); ++i) {
      TENON_RETURN_IF_ERROR(NoteItem(items[i]));
      const int64_t position =
          PositionInShard(items[i] / SlowStreams::kShardSize,
                          items[i] % SlowStreams::kShardSize);
      if (randoms[i] != SampleRandom(seed_, epoch_, position).Uniform()) {
        return absl::InternalError(
            absl::StrCat("item ", items[i], " of a stream has other bits"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckAll() const {
    if (noted_ == kItems) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("an epoch of ", kItems, " samples gave ", noted_));
  }
  uint64_t left_out() const { return left_out_; }

  static constexpr int64_t kBatchSize = 8;

 private:
  absl::Status NoteItem(int64_t item) {
    if (item < 0 || item >= kItems || seen_[static_cast<size_t>(item)]) {
      return absl::InternalError(absl::StrCat("item ", item, " came twice"));
    }
    seen_[static_cast<size_t>(item)] = true;
    ++noted_;
    return absl::OkStatus();
  }

  int64_t epoch_;
  uint64_t seed_;
  std::vector<bool> seen_ = std::vector<bool>(kItems);
  int64_t noted_ = 0;
  uint64_t left_out_ = 0;
};

LoaderOptions OptionsOf(Random& random, bool of_stream) {
  return {.batch_size = Seen::kBatchSize,
          .shuffle = !of_stream,
          .workers = 3,
          .in_order = random() % 2 == 0,
          .overlap_epochs = random() % 2 == 0,
          .seed = random(),
          .on_worker_death = of_stream || random() % 2 == 0
                                 ? OnWorkerDeath::kRestart
                                 : OnWorkerDeath::kSkipSample,
          .max_restarts = 1000,
          .strategy = SharingStrategy::kFileDescriptor};
}

class Consumer {
 public:
  explicit Consumer(uint64_t seed) : random_(seed) {}

  absl::Status Run() {
    killer_ = StartKiller(random_());
    if (killer_ < 0) return absl::ErrnoToStatus(errno, "fork");
    for (uint64_t n = 1;
         epochs_ < absl::GetFlag(FLAGS_epochs) || n <= kWarmUpLoaders + 1;
         ++n) {
      FeedWatchdog(120, "running a loader");
      const bool of_stream = n % 3 == 0;
      TENON_RETURN_IF_ERROR(RunLoader(of_stream));
      TENON_RETURN_IF_ERROR(RunAndDie(of_stream));
      TENON_RETURN_IF_ERROR(CheckNothingIsLeft());
      if (n == kWarmUpLoaders) before_ = TakeHoldings(0);
      if (n > kWarmUpLoaders) TENON_RETURN_IF_ERROR(CheckStillFlat());
      if (absl::Now() >= printed_ + absl::Seconds(10)) Print();
    }
    Print();
    std::cout << "before: " << before_.ToString()
              << "\nnow:    " << TakeHoldings(0).ToString() << std::endl;
    return absl::OkStatus();
  }

 private:
  // Its workers may be killed before it runs: that is an error of Create().
  absl::StatusOr<std::unique_ptr<Loader>> CreateLoader(bool of_stream) {
    const LoaderOptions options = OptionsOf(random_, of_stream);
    const bool skips = random_() % 2 == 0;
    for (;;) {
      absl::StatusOr<std::unique_ptr<Loader>> loader =
          of_stream ? Loader::Create<SlowStreams>(options, skips)
                    : Loader::Create<Slow>(options);
      if (loader.ok() || (!absl::IsAborted(loader.status()) &&
                          !absl::IsUnavailable(loader.status()))) {
        return loader;
      }
      ++refused_;
    }
  }

  absl::Status RunLoader(bool of_stream) {
    TENON_ASSIGN_OR_RETURN(std::unique_ptr<Loader> loader,
                           CreateLoader(of_stream));
    for (uint64_t i = 0; i < kEpochsOfALoader; ++i) {
      const auto epoch = static_cast<int64_t>(i);
      Seen seen(epoch, loader->options().seed);
      for (absl::StatusOr<Batch>& batch : loader->Epoch(epoch)) {
        TENON_RETURN_IF_ERROR(batch.status());
        TENON_RETURN_IF_ERROR(of_stream ? seen.NoteOfStream(*batch)
                                        : seen.Note(*batch));
      }
      TENON_RETURN_IF_ERROR(seen.CheckAll());
      left_out_ += seen.left_out();
      ++epochs_;
    }
    replaced_ += loader->replaced_workers();
    return absl::OkStatus();
  }

  // A consumer that is killed in the midst of an epoch.
  absl::Status RunAndDie(bool of_stream) {
    const pid_t consumer = fork();
    if (consumer < 0) return absl::ErrnoToStatus(errno, "fork");
    if (consumer == 0) {
      FeedWatchdog(60, "running a loader that will be killed");
      const auto loader = CreateLoader(of_stream);
      for (int64_t epoch = 0; loader.ok(); ++epoch) {
        for (const auto& batch : (*loader)->Epoch(epoch)) {
          if (!batch.ok()) _exit(5);
        }
      }
      _exit(5);
    }
    absl::SleepFor(absl::Microseconds(random_() % 60'000));
    kill(consumer, SIGKILL);
    int status = 0;
    if (waitpid(consumer, &status, 0) != consumer || !WIFSIGNALED(status)) {
      return absl::InternalError(
          absl::StrCat("a consumer ended with status ", status));
    }
    return absl::OkStatus();
  }

  absl::Status CheckNothingIsLeft() {
    std::vector<SessionProcess> left;
    const bool none = Becomes([&] {
      spawn::ReapLingeringSupervisors();
      left = OthersOfThisSession(killer_);
      return left.empty();
    });
    if (none) return absl::OkStatus();
    std::string names;
    for (const SessionProcess& one : left) {
      absl::StrAppend(&names, " ", one.name, " ", std::string(1, one.state));
    }
    return absl::InternalError(absl::StrCat("left behind:", names));
  }

  absl::Status CheckStillFlat() {
    absl::Status flat;
    Becomes([&] {
      flat = CheckFlat("the consumer", before_, TakeHoldings(0));
      return flat.ok();
    });
    return flat;
  }

  void Print() {
    printed_ = absl::Now();
    std::cout << absl::FormatDuration(
                     absl::Trunc(printed_ - start_, absl::Seconds(1)))
              << ": " << epochs_ << " epochs, " << replaced_
              << " workers replaced, " << left_out_ << " samples left out, "
              << refused_ << " loaders killed as they began; "
              << TakeHoldings(0).ToString() << std::endl;
  }

  const absl::Time start_ = absl::Now();
  absl::Time printed_ = start_;
  Random random_;
  pid_t killer_ = 0;
  uint64_t epochs_ = 0;
  int64_t replaced_ = 0;
  uint64_t left_out_ = 0;
  uint64_t refused_ = 0;
  Holdings before_;
};

absl::Status Soak() {
  return Consumer(ChooseSeed(absl::GetFlag(FLAGS_seed))).Run();
}

}  // namespace
}  // namespace tenon::loader

int main(int argc, char** argv) {
  tenon::spawn::Init(argc, argv);
  absl::ParseCommandLine(argc, argv);
  return tenon::RunInOwnSession([] { return tenon::loader::Soak(); });
}
