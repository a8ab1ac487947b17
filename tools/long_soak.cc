// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Two long-lived processes, a hub and a consumer, among short-lived producers,
// consumers and forwarders, half of which end by SIGKILL.
//
//   bazel run -c opt //tools:long_soak                     # 100,000 comings
//   bazel run -c opt //tools:long_soak -- --time=30m --comings=1000000000
//
// The hub puts tensors of its arenas into a queue "down", and gets tensors of
// other processes from a queue "up". Every epoch both queues and one of the
// hub's arenas are recreated; in every fifth, all processes drop all tensors,
// and the descriptors, mappings, memory, children and zombies of the hub and
// the consumer must be as before. All processes run at small limits of
// descriptors, arenas, segments and memory, and are refused often; each error
// must be one that the call promises. Reclaimed blocks are poisoned, and all
// elements of a tensor are checked when it is received and when it is dropped.
//
// Prints figures every ten seconds. Exits 1 with the reason if a byte is wrong,
// a message arrives twice, a child hangs, or a resource grows; 3 on a hang.

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/queue/queue_channel.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/tools/soak.h"

ABSL_FLAG(uint64_t, comings, 100'000, "short-lived processes");
ABSL_FLAG(absl::Duration, time, absl::Hours(24),
          "ends after this at the latest");
ABSL_FLAG(uint64_t, seed, 0, "of all that is random; 0: the clock");
ABSL_FLAG(uint64_t, epoch, 100, "comings in an epoch");

namespace tenon {
namespace {

using Random = std::mt19937_64;

constexpr size_t kChildren = 4;
constexpr uint64_t kEpochsToAMeasurement = 5;
constexpr rlim_t kMostFds = 256;
constexpr size_t kKiB = 1024;
constexpr int64_t kMostElements = 4096;  // Of 8 bytes.
constexpr size_t kRemembered = 1 << 16;

// Counters of all processes, in shared memory.
struct Counts {
  std::atomic<uint64_t> sent, got, waits, refused, lost, over;
  // The latest received messages, each at its number modulo the size.
  std::array<std::atomic<uint64_t>, kRemembered> seen;
};

Counts* counts;

absl::Status MapCounts() {
  void* memory = mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return absl::ErrnoToStatus(errno, "mmap");
  counts = new (memory) Counts{};
  return absl::OkStatus();
}

// Counts errors of a limit, of a deadline and of a closed queue; returns all
// others.
absl::Status Tolerate(const absl::Status& status, bool may_be_lost = false) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return absl::OkStatus();
    case absl::StatusCode::kDeadlineExceeded:
      ++counts->waits;
      return absl::OkStatus();
    case absl::StatusCode::kResourceExhausted:
      ++counts->refused;
      return absl::OkStatus();
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kFailedPrecondition:
      ++counts->over;
      return absl::OkStatus();
    case absl::StatusCode::kDataLoss:
      if (!may_be_lost) return status;
      ++counts->lost;
      return absl::OkStatus();
    default:
      return status;
  }
}

int64_t ElementOf(int64_t number, size_t i) {
  return number * 1'000'003 + static_cast<int64_t>(i);
}

absl::Status CheckElements(const Tensor& tensor, int64_t number,
                           const char* when) {
  TENON_ASSIGN_OR_RETURN(const auto elements, tensor.data<const int64_t>());
  for (size_t i = 0; i < elements.size(); ++i) {
    if (elements[i] == ElementOf(number, i)) continue;
    return absl::InternalError(absl::StrCat(
        "wrong element ", i, " of ", elements.size(), " of tensor ", number,
        " ", when, ": 0x", absl::Hex(elements[i]), ", want 0x",
        absl::Hex(ElementOf(number, i))));
  }
  return absl::OkStatus();
}

// Puts a tensor with the content `number`; each message has its own number.
absl::Status PutTensor(TensorQueue& queue, const Tensor& tensor, int64_t number,
                       Deadline deadline) {
  TensorMessage message(tensor);
  message.Add(number);
  message.Add(static_cast<int64_t>(++counts->sent));
  return Tolerate(queue.Put(message, deadline));
}

// Creates one in the queue's arena, or in `other`.
absl::Status PutNew(TensorQueue& queue, Arena* other, Random& random,
                    Deadline deadline) {
  const auto elements = static_cast<int64_t>(1 + random() % kMostElements);
  auto tensor =
      other != nullptr
          ? CreateTensor(*other, kDtypeOf<int64_t>, {elements}, deadline)
          : queue.CreateTensor(kDtypeOf<int64_t>, {elements}, deadline);
  if (!tensor.ok()) return Tolerate(tensor.status());
  const auto number = static_cast<int64_t>(random() >> 24);
  TENON_ASSIGN_OR_RETURN(const auto data, tensor->data<int64_t>());
  for (size_t i = 0; i < data.size(); ++i) data[i] = ElementOf(number, i);
  return PutTensor(queue, *tensor, number, deadline);
}

// Keeps the latest received tensors; each is checked when it is received and
// when it is dropped.
class Keeper {
 public:
  struct Kept {
    Tensor tensor;
    int64_t number;
  };

  explicit Keeper(size_t most) : most_(most) {}

  // A tensor is dropped if there was no capacity for another one.
  absl::Status Take(const absl::StatusOr<TensorMessage>& message,
                    bool may_be_lost) {
    if (absl::IsResourceExhausted(message.status())) {
      TENON_RETURN_IF_ERROR(DropOldest());
    }
    if (!message.ok()) return Tolerate(message.status(), may_be_lost);
    TENON_ASSIGN_OR_RETURN(const Tensor tensor, message->tensor(0));
    TENON_ASSIGN_OR_RETURN(const int64_t number, message->integer(1));
    TENON_ASSIGN_OR_RETURN(const int64_t trip, message->integer(2));
    TENON_RETURN_IF_ERROR(CheckElements(tensor, number, "when received"));
    const auto id = static_cast<uint64_t>(trip);
    if (counts->seen[id % kRemembered].exchange(id) == id) {
      return absl::InternalError(
          absl::StrCat("message ", id, " arrived twice"));
    }
    ++counts->got;
    kept_.push_back({tensor, number});
    return kept_.size() > most_ ? DropOldest() : absl::OkStatus();
  }

  const Kept* latest() const { return kept_.empty() ? nullptr : &kept_.back(); }

  absl::Status DropOldest() {
    if (kept_.empty()) return absl::OkStatus();
    const Kept oldest = std::move(kept_.front());
    kept_.pop_front();
    return CheckElements(oldest.tensor, oldest.number, "that was kept");
  }

  absl::Status DropAll() {
    while (!kept_.empty()) TENON_RETURN_IF_ERROR(DropOldest());
    return absl::OkStatus();
  }

 private:
  const size_t most_;
  std::deque<Kept> kept_;
};

// Limits this process to at most `free` more descriptors.
class NoDescriptors {
 public:
  explicit NoDescriptors(size_t free) {
    for (;;) {
      UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!fd.valid()) break;
      taken_.push_back(std::move(fd));
    }
    taken_.resize(taken_.size() - std::min(free, taken_.size()));
  }

 private:
  std::vector<UniqueFd> taken_;
};

// Also limits the descriptors that all processes of this user may have in
// flight: the limit is lifted for calls that must not be refused.
absl::Status LimitFds(rlim_t most) {
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min(most, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "setrlimit");
}

ArenaOptions SmallArena(size_t quota_bytes) {
  ArenaOptions options;
  options.quota_bytes = quota_bytes;
  options.segment_bytes = 64 * kKiB;
  options.debug = ArenaDebug::kPoison;
  return options;
}

TensorQueueParticipantOptions SmallUse(size_t arenas) {
  TensorQueueParticipantOptions use;
  use.arenas.max_arenas = arenas;
  use.arenas.max_segments = 8;
  use.arenas.max_bytes = 1024 * kKiB;
  return use;
}

// ---- Short-lived processes ----

Deadline Shortly() { return Deadline::After(absl::Milliseconds(2)); }

absl::Status Produce(QueueHandle up, Random& random) {
  auto arena = Arena::Create(SmallArena(256 * kKiB));
  if (!arena.ok()) return Tolerate(arena.status());
  auto queue = TensorQueue::Open(std::move(up), {.arena = *arena});
  if (!queue.ok()) return Tolerate(queue.status());
  for (uint64_t n = random() % 8; n > 0; --n) {
    TENON_RETURN_IF_ERROR(PutNew(**queue, nullptr, random, Shortly()));
  }
  if (random() % 2 == 0) return absl::OkStatus();
  return Tolerate((*queue)->AwaitTaken(Deadline::After(absl::Seconds(1))));
}

absl::Status Consume(QueueHandle down, Random& random) {
  Keeper keeper(random() % 6);
  auto queue = TensorQueue::Open(std::move(down), SmallUse(1 + random() % 3));
  if (!queue.ok()) return Tolerate(queue.status());
  for (uint64_t n = random() % 8; n > 0; --n) {
    TENON_RETURN_IF_ERROR(keeper.Take((*queue)->Get(Shortly()), false));
  }
  // The tensors outlive the queue.
  queue->reset();
  return keeper.DropAll();
}

absl::Status Forward(QueueHandle down, QueueHandle up, Random& random) {
  Keeper keeper(2);
  auto from = TensorQueue::Open(std::move(down), SmallUse(3));
  if (!from.ok()) return Tolerate(from.status());
  auto to = TensorQueue::Open(std::move(up));
  if (!to.ok()) return Tolerate(to.status());
  for (uint64_t n = random() % 8; n > 0; --n) {
    auto message = (*from)->Get(Shortly());
    TENON_RETURN_IF_ERROR(keeper.Take(message, false));
    if (!message.ok()) continue;
    TENON_RETURN_IF_ERROR(PutTensor(**to, keeper.latest()->tensor,
                                    keeper.latest()->number, Shortly()));
  }
  return keeper.DropAll();
}

// ---- The long-lived consumer ----

class Consumer {
 public:
  Consumer(Channel hub, uint64_t seed) : hub_(std::move(hub)), random_(seed) {}

  // Runs until the hub ends it.
  absl::Status Live() {
    for (uint64_t epoch = 1;; ++epoch) {
      TENON_RETURN_IF_ERROR(LiveEpoch());
      if (epoch % kEpochsToAMeasurement == 0) {
        TENON_RETURN_IF_ERROR(keeper_.DropAll());
      }
      TENON_RETURN_IF_ERROR(
          hub_.Send("done", {}, Deadline::After(absl::Seconds(30))));
    }
  }

 private:
  absl::Status LiveEpoch() {
    TENON_RETURN_IF_ERROR(LimitFds(RLIM_INFINITY));
    TENON_ASSIGN_OR_RETURN(const auto down, Join(SmallUse(2)));
    TENON_ASSIGN_OR_RETURN(const auto up, Join(SmallUse(4)));
    TENON_RETURN_IF_ERROR(LimitFds(kMostFds / 2));
    while (!down->closed()) {
      std::optional<NoDescriptors> squeezed;
      if (random_() % 100 == 0) squeezed.emplace(random_() % 4);
      TENON_RETURN_IF_ERROR(keeper_.Take(down->Get(Shortly()), false));
      TENON_RETURN_IF_ERROR(keeper_.Take(up->Get(Deadline::Passed()), true));
      if (random_() % 50 == 0) TENON_RETURN_IF_ERROR(up->Trim());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<TensorQueue>> Join(
      const TensorQueueParticipantOptions& use) {
    TENON_ASSIGN_OR_RETURN(QueueHandle handle,
                           ReceiveQueueHandle(hub_, Deadline::Never()));
    return TensorQueue::Open(std::move(handle), use);
  }

  Channel hub_;
  Random random_;
  // Kept across epochs.
  Keeper keeper_{12};
};

absl::Status BeConsumer(UniqueFd hub, uint64_t seed) {
  TENON_ASSIGN_OR_RETURN(
      Channel channel, Channel::Adopt(std::move(hub), {.allow_sockets = true}));
  return Consumer(std::move(channel), seed).Live();
}

// ---- The hub ----

class Hub {
 public:
  explicit Hub(uint64_t seed) : random_(seed) {}

  absl::Status Run() {
    TENON_RETURN_IF_ERROR(StartConsumer());
    TENON_ASSIGN_OR_RETURN(arena_, Arena::Create(SmallArena(512 * kKiB)));
    while (!IsOver() || epochs_ % kEpochsToAMeasurement != 0) {
      FeedWatchdog(120, "running an epoch");
      TENON_RETURN_IF_ERROR(RunEpoch());
      if (++epochs_ % kEpochsToAMeasurement == 0) {
        TENON_RETURN_IF_ERROR(Measure());
      }
    }
    Print();
    std::cout << "hub before:      " << hub_before_.ToString()
              << "\nhub now:         " << TakeHoldings(0).ToString()
              << "\nconsumer before: " << consumer_before_.ToString()
              << "\nconsumer now:    "
              << TakeHoldings(consumer_->pid()).ToString() << std::endl;
    if (measurements_ < 3) return absl::InternalError("nothing was compared");
    return absl::OkStatus();
  }

 private:
  struct Child {
    std::unique_ptr<ForkedChild> process;
    absl::Time kill_at;
  };

  bool IsOver() const {
    return comings_ >= absl::GetFlag(FLAGS_comings) ||
           absl::Now() >= start_ + absl::GetFlag(FLAGS_time);
  }

  absl::Status StartConsumer() {
    TENON_ASSIGN_OR_RETURN(auto ends,
                           Channel::CreatePair({.allow_sockets = true}));
    TENON_ASSIGN_OR_RETURN(
        ForkedChild child,
        ForkedChild::Fork(
            {.name = "consumer", .watchdog = absl::Hours(48)},
            [&](const Reporter& reporter) {
              reporter.Fail(
                  BeConsumer(ends.second.Release(), random_()).ToString());
            }));
    consumer_ = std::make_unique<ForkedChild>(std::move(child));
    to_consumer_ = std::make_unique<Channel>(std::move(ends.first));
    return absl::OkStatus();
  }

  absl::Status RunEpoch() {
    TENON_RETURN_IF_ERROR(Open());
    const uint64_t until = comings_ + absl::GetFlag(FLAGS_epoch);
    while (comings_ < until) {
      std::optional<NoDescriptors> squeezed;
      if (random_() % 200 == 0) squeezed.emplace(random_() % 40);
      TENON_RETURN_IF_ERROR(LookAfterChildren());
      TENON_RETURN_IF_ERROR(PutNew(*down_,
                                   random_() % 4 == 0 ? other_.get() : nullptr,
                                   random_, Deadline::Passed()));
      TENON_RETURN_IF_ERROR(keeper_.Take(up_->Get(Shortly()), true));
      if (squeezed) TENON_RETURN_IF_ERROR(TryToOpen());
      if (absl::Now() >= printed_ + absl::Seconds(10)) Print();
    }
    return CloseAll();
  }

  absl::Status Open() {
    TENON_RETURN_IF_ERROR(LimitFds(RLIM_INFINITY));
    const QueueOptions options = {
        .capacity = 8, .max_participants = 12, .wait_when_alone = true};
    TENON_ASSIGN_OR_RETURN(other_, Arena::Create(SmallArena(128 * kKiB)));
    TENON_ASSIGN_OR_RETURN(down_,
                           TensorQueue::Create(options, {.arena = arena_}));
    TensorQueueParticipantOptions use = SmallUse(6);
    use.arenas.max_bytes *= 2;
    TENON_ASSIGN_OR_RETURN(up_, TensorQueue::Create(options, use));
    for (TensorQueue* queue : {down_.get(), up_.get()}) {
      TENON_ASSIGN_OR_RETURN(const QueueHandle handle, queue->Share());
      TENON_RETURN_IF_ERROR(SendQueueHandle(*to_consumer_, handle, Patience()));
    }
    return absl::OkStatus();
  }

  // Opens one more queue, at the limit of descriptors.
  static absl::Status TryToOpen() {
    const auto queue = TensorQueue::Create();
    if (!queue.ok()) return Tolerate(queue.status());
    auto handle = (*queue)->Share();
    if (!handle.ok()) return Tolerate(handle.status());
    return Tolerate(TensorQueue::Open(*std::move(handle)).status());
  }

  absl::Status LookAfterChildren() {
    if (consumer_->Wait(Deadline::Passed()).ok()) return EndOf(*consumer_);
    for (Child& child : children_) {
      if (child.process == nullptr) {
        TENON_RETURN_IF_ERROR(Start(child));
      } else if (absl::Now() >= child.kill_at) {
        child.process->Kill();
        ++kills_;
        TENON_RETURN_IF_ERROR(Forget(child));
      } else if (child.process->Wait(Deadline::Passed()).ok()) {
        TENON_RETURN_IF_ERROR(EndOf(*child.process));
        TENON_RETURN_IF_ERROR(Forget(child));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Start(Child& child) {
    auto down = down_->Share();
    auto up = up_->Share();
    if (!down.ok()) return Tolerate(down.status());
    if (!up.ok()) return Tolerate(up.status());
    const uint64_t kind = random_() % 3;
    Random random(random_());
    auto process = ForkedChild::Fork(
        {.name = absl::StrCat("child of kind ", kind),
         .watchdog = absl::Minutes(1)},
        [&](const Reporter& reporter) {
          absl::Status how;
          if (kind == 0) how = Produce(*std::move(up), random);
          if (kind == 1) how = Consume(*std::move(down), random);
          if (kind == 2) {
            how = Forward(*std::move(down), *std::move(up), random);
          }
          if (!how.ok()) reporter.Fail(how.ToString());
        });
    if (!process.ok()) return Tolerate(process.status());
    ++comings_;
    child.process = std::make_unique<ForkedChild>(*std::move(process));
    child.kill_at = random_() % 2 == 0
                        ? absl::InfiniteFuture()
                        : absl::Now() + absl::Microseconds(random_() % 10'000);
    return absl::OkStatus();
  }

  // The result of a child that has ended without being killed.
  static absl::Status EndOf(ForkedChild& child) {
    TENON_ASSIGN_OR_RETURN(const ExitStatus end, child.Wait(Patience()));
    if (end.success() && child.report().failures.empty()) {
      return absl::OkStatus();
    }
    return absl::InternalError(
        absl::StrCat(child.name(), " ", child.Describe(end), ": ",
                     absl::StrJoin(child.report().failures, "; ")));
  }

  static absl::Status Forget(Child& child) {
    const Report report = child.process->report();
    child.process.reset();
    if (report.failures.empty()) return absl::OkStatus();
    return absl::InternalError(absl::StrJoin(report.failures, "; "));
  }

  // Children end, the consumer leaves both queues, and then the hub leaves
  // them.
  absl::Status CloseAll() {
    TENON_RETURN_IF_ERROR(down_->Close());
    TENON_RETURN_IF_ERROR(up_->Close());
    for (Child& child : children_) {
      if (child.process == nullptr) continue;
      TENON_RETURN_IF_ERROR(EndOf(*child.process));
      TENON_RETURN_IF_ERROR(Forget(child));
    }
    const auto done = to_consumer_->Receive(Patience());
    if (!done.ok()) {
      return absl::InternalError(
          absl::StrCat("consumer: ", done.status().ToString(), "; ",
                       absl::StrJoin(consumer_->report().failures, "; ")));
    }
    down_.reset();
    up_.reset();
    other_.reset();
    return absl::OkStatus();
  }

  // The first measurement is of a process that is still warming up.
  absl::Status Measure() {
    TENON_RETURN_IF_ERROR(keeper_.DropAll());
    const bool empty = Becomes([&] {
      if (!arena_->Trim().ok()) return false;
      const ArenaUse use = arena_->Use();
      return use.blocks_in_use == 0 && use.blocks_released == 0;
    });
    if (!empty) {
      return absl::InternalError(absl::StrCat(
          "leaked blocks of the hub's arena: ", arena_->Use().blocks_in_use,
          " in use, ", arena_->Use().blocks_released, " released"));
    }
    if (++measurements_ <= 2) {
      hub_before_ = TakeHoldings(0);
      consumer_before_ = TakeHoldings(consumer_->pid());
      return absl::OkStatus();
    }
    absl::Status flat;
    Becomes([&] {  // Another thread may be closing received descriptors.
      flat = CheckFlat("the hub", hub_before_, TakeHoldings(0));
      if (flat.ok()) {
        flat = CheckFlat("the consumer", consumer_before_,
                         TakeHoldings(consumer_->pid()));
      }
      return flat.ok();
    });
    return flat;
  }

  void Print() {
    printed_ = absl::Now();
    std::cout << absl::FormatDuration(
                     absl::Trunc(printed_ - start_, absl::Seconds(1)))
              << ": " << comings_ << " comings, " << kills_ << " kills, "
              << epochs_ << " epochs, " << counts->sent << " sent, "
              << counts->got << " got, " << counts->refused << " refused, "
              << counts->lost << " lost, " << measurements_
              << " measurements; hub " << TakeHoldings(0).ToString()
              << std::endl;
  }

  static Deadline Patience() { return Deadline::After(absl::Seconds(60)); }

  const absl::Time start_ = absl::Now();
  absl::Time printed_ = start_;
  Random random_;
  std::unique_ptr<ForkedChild> consumer_;
  std::unique_ptr<Channel> to_consumer_;
  // Lives as long as the hub; another arena lives for one epoch.
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<Arena> other_;
  std::unique_ptr<TensorQueue> down_;
  std::unique_ptr<TensorQueue> up_;
  std::array<Child, kChildren> children_;
  Keeper keeper_{6};
  Holdings hub_before_;
  Holdings consumer_before_;
  uint64_t comings_ = 0;
  uint64_t kills_ = 0;
  uint64_t epochs_ = 0;
  uint64_t measurements_ = 0;
};

int Soak() {
  const uint64_t seed = ChooseSeed(absl::GetFlag(FLAGS_seed));
  absl::Status how = MapCounts();
  if (how.ok()) how = Hub(seed).Run();
  return ReportSoak(how);
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return tenon::Soak();
}
