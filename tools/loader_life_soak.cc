// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The long life of a consumer of loaders: 10,000 epochs of a tiny dataset, in
// each of three forms.
//
//   bazel run -c opt //tools:loader_life_soak
//   bazel run -c opt //tools:loader_life_soak -- --form=new --epochs=200
//
//   persistent  one loader, whose workers live through all epochs
//   new         a loader for each epoch
//   kept        one loader; the consumer keeps 50 batches of each worker and
//               replaces a random one by each that comes, so that some live for
//               hundreds of others
//
// Memory, descriptors and mappings of the consumer, the workers and their
// supervisors are those after the first tenth of the epochs, or once all
// batches to keep are there; after a loader no process is left. Prints a line
// for each process at both times. Exits 1 with the reason if not; 3 on a hang.

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
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
#include "tenon/loader/loader.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/spawn/child/init.h"
#include "tenon/spawn/supervisor/supervisor.h"
#include "tenon/tools/soak.h"

ABSL_FLAG(uint64_t, epochs, 10'000, "epochs of each form");
ABSL_FLAG(std::string, form, "all", "persistent, new, kept, or all");

namespace tenon::loader {
namespace {

constexpr int64_t kItems = 64;
constexpr int64_t kBatchSize = 8;
constexpr int kWorkers = 2;
constexpr size_t kKept = 50;  // Of each worker.
constexpr uint64_t kLeastWarmUp = 20;

class Tiny : public Dataset {
 public:
  Tiny() = default;
  int64_t size() const override { return kItems; }
  SampleSpec spec() const override {
    return SampleSpec().Add<int64_t>("i").Add<float>("pixels", {32, 32});
  }
  absl::Status Get(int64_t index, SampleRandom&, Sample& sample) override {
    return sample.Set("i", index);
  }
};
TENON_LOADER_DATASET(Tiny());

// A process of the soak: all have its kernel session (setsid()).
struct Held {
  std::string name;
  Holdings holdings;
};

// "(tenon-supervise)", without the pid.
std::string NameOf(const SessionProcess& process) {
  return process.name.substr(process.name.find('('));
}

// Each loader gives its memory a name of its own.
Holdings TakeWithoutIds(pid_t pid) {
  constexpr char kPrefix[] = "tenon-loader-";
  Holdings holdings = TakeHoldings(pid);
  std::map<std::string, size_t> held;
  for (const auto& [kind, count] : holdings.census.held) {
    std::string name = kind;
    const size_t id = name.find(kPrefix);
    if (id != std::string::npos) {
      const size_t begin = id + sizeof(kPrefix) - 1;
      name.erase(begin, name.rfind("-w") - begin);
    }
    held[name] += count;
  }
  holdings.census.held = std::move(held);
  return holdings;
}

std::vector<Held> TakeAll() {
  std::vector<Held> all = {{"consumer", TakeWithoutIds(0)}};
  std::vector<SessionProcess> others = OthersOfThisSession(0);
  std::sort(others.begin(), others.end(),
            [](const SessionProcess& a, const SessionProcess& b) {
              return std::pair(NameOf(a), a.pid) < std::pair(NameOf(b), b.pid);
            });
  for (const SessionProcess& other : others) {
    all.push_back({NameOf(other), TakeWithoutIds(other.pid)});
  }
  return all;
}

void Print(const char* when, const std::vector<Held>& all) {
  for (const Held& one : all) {
    std::cout << "  " << when << ": " << one.name << " "
              << one.holdings.ToString() << std::endl;
  }
}

absl::Status CheckAllFlat(const std::vector<Held>& before,
                          const std::vector<Held>& now) {
  if (before.size() != now.size()) {
    return absl::InternalError(
        absl::StrCat(before.size(), " processes before, ", now.size(), " now"));
  }
  for (size_t i = 0; i < now.size(); ++i) {
    TENON_RETURN_IF_ERROR(
        CheckFlat(now[i].name, before[i].holdings, now[i].holdings));
  }
  return absl::OkStatus();
}

class Life {
 public:
  Life(std::string form, uint64_t epochs)
      : form_(std::move(form)),
        epochs_(epochs),
        warm_up_(std::max(epochs / 10, kLeastWarmUp)) {}

  absl::Status Run() {
    const absl::Time start = absl::Now();
    std::unique_ptr<Loader> loader;
    for (uint64_t epoch = 0; epoch < epochs_; ++epoch) {
      FeedWatchdog(120, "running an epoch");
      if (loader == nullptr) {
        TENON_ASSIGN_OR_RETURN(
            loader, Loader::Create<Tiny>({.batch_size = kBatchSize,
                                          .shuffle = true,
                                          .workers = kWorkers,
                                          // Else some batches are made in
                                          // parts, in memory of the consumer.
                                          .in_order = form_ != "kept"}));
      }
      TENON_RETURN_IF_ERROR(RunEpoch(*loader, static_cast<int64_t>(epoch)));
      // In the midst of a loader's life: its workers have used all they need.
      TENON_RETURN_IF_ERROR(Look(epoch + 1));
      if (form_ != "new") continue;
      loader.reset();
      if ((epoch + 1) % kLookEach == 0) {
        TENON_RETURN_IF_ERROR(CheckNothingIsLeft());
      }
    }
    loader.reset();
    for (auto& of_worker : kept_) of_worker.clear();
    TENON_RETURN_IF_ERROR(CheckNothingIsLeft());
    std::cout << form_ << ": " << epochs_ << " epochs, " << batches_
              << " batches in "
              << absl::FormatDuration(
                     absl::Trunc(absl::Now() - start, absl::Seconds(1)))
              << std::endl;
    Print("first tenth", first_);
    Print("last", last_);
    return absl::OkStatus();
  }

 private:
  static constexpr uint64_t kLookEach = 50;

  absl::Status RunEpoch(Loader& loader, int64_t epoch) {
    int64_t sum = 0;
    for (absl::StatusOr<Batch>& batch : loader.Epoch(epoch)) {
      TENON_RETURN_IF_ERROR(batch.status());
      TENON_ASSIGN_OR_RETURN(const auto items, batch->data<int64_t>("i"));
      for (const int64_t item : items) sum += item;
      ++batches_;
      if (form_ == "kept") TENON_RETURN_IF_ERROR(Keep(*std::move(batch)));
    }
    if (sum == kItems * (kItems - 1) / 2) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("the items of epoch ", epoch, " have the sum ", sum));
  }

  // A kept batch has, when it is dropped, the items that it came with.
  absl::Status Keep(Batch batch) {
    TENON_ASSIGN_OR_RETURN(const auto items, batch.data<int64_t>("i"));
    std::vector<int64_t> copy(items.begin(), items.end());
    auto& kept = kept_[static_cast<size_t>(batch.worker())];
    if (kept.size() < kKept) {
      kept.emplace_back(std::move(batch), std::move(copy));
      return absl::OkStatus();
    }
    auto& [old, was] = kept[random_() % kKept];
    TENON_ASSIGN_OR_RETURN(const auto now, old.data<int64_t>("i"));
    if (!std::equal(now.begin(), now.end(), was.begin(), was.end())) {
      return absl::InternalError(
          absl::StrCat("a kept batch ", old.number(), " has changed"));
    }
    old = std::move(batch);
    was = std::move(copy);
    return absl::OkStatus();
  }

  // Processes of the loader at hand, after `epochs`.
  absl::Status Look(uint64_t epochs) {
    if (first_.empty()) {
      if (epochs >= warm_up_ && KeepsAll()) first_ = TakeAll();
      if (epochs != epochs_) return absl::OkStatus();
    }
    if (first_.empty()) {
      return absl::InternalError(absl::StrCat(
          "after ", epochs, " epochs a worker has made fewer than ", kKept,
          " batches; more --epochs may do"));
    }
    if (epochs % kLookEach != 0 && epochs != epochs_) return absl::OkStatus();
    absl::Status flat;
    Becomes([&] {
      spawn::ReapLingeringSupervisors();
      last_ = TakeAll();
      flat = CheckAllFlat(first_, last_);
      return flat.ok();
    });
    return flat;
  }

  // Where the order is that of the workers, a slow one makes few batches.
  bool KeepsAll() const {
    return form_ != "kept" ||
           std::all_of(std::begin(kept_), std::end(kept_),
                       [](const auto& kept) { return kept.size() == kKept; });
  }

  static absl::Status CheckNothingIsLeft() {
    std::vector<SessionProcess> left;
    const bool none = Becomes([&] {
      spawn::ReapLingeringSupervisors();
      left = OthersOfThisSession(0);
      return left.empty();
    });
    if (none) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("left behind: ", left.size(),
                                            " processes, the first is ",
                                            NameOf(left[0])));
  }

  const std::string form_;
  const uint64_t epochs_;
  const uint64_t warm_up_;
  std::mt19937_64 random_;
  uint64_t batches_ = 0;
  std::vector<std::pair<Batch, std::vector<int64_t>>> kept_[kWorkers];
  std::vector<Held> first_;
  std::vector<Held> last_;
};

absl::Status Soak() {
  const std::string wanted = absl::GetFlag(FLAGS_form);
  if (absl::GetFlag(FLAGS_epochs) <= kLeastWarmUp) {
    return absl::InvalidArgumentError(
        absl::StrCat("--epochs must exceed ", kLeastWarmUp));
  }
  bool any = false;
  for (const char* const form : {"persistent", "new", "kept"}) {
    if (wanted != "all" && wanted != form) continue;
    any = true;
    TENON_RETURN_IF_ERROR(Life(form, absl::GetFlag(FLAGS_epochs)).Run());
  }
  if (any) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--form=", wanted, "; want persistent, new, kept or all"));
}

}  // namespace
}  // namespace tenon::loader

int main(int argc, char** argv) {
  tenon::spawn::Init(argc, argv);
  absl::ParseCommandLine(argc, argv);
  return tenon::RunInOwnSession([] { return tenon::loader::Soak(); });
}
