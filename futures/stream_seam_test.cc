// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Futures of values that are still being computed on a stream of a device: they
// need a value that carries fences and an executor that selects the stream of
// each callback. Nothing in //futures depends on streams. Here a stream is a
// list of its requested operations.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/executor.h"
#include "tenon/futures/future.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::futures {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Stream {
  std::string name;
  std::vector<std::string> work;
};
thread_local Stream* current_stream = nullptr;

class ScopedStream {
 public:
  explicit ScopedStream(Stream* stream)
      : previous_(std::exchange(current_stream, stream)) {}
  ~ScopedStream() { current_stream = previous_; }

 private:
  Stream* previous_;
};

using Fence = std::string;  // Names a point in a stream's work.

Fence RecordFence() {
  return absl::StrCat(current_stream->name, ":", current_stream->work.size());
}
void WaitForFence(const Fence& fence) {
  current_stream->work.push_back("wait for " + fence);
}

template <typename T>
struct Fenced {
  T value;
  Fence fence;
};

// Runs each task with a stream of its own as the current one.
class OnStreams final : public Executor {
 public:
  explicit OnStreams(Executor& on) : on_(on) {}
  void Execute(Task task) override {
    streams.push_back(std::make_unique<Stream>(
        Stream{.name = absl::StrCat("pool", streams.size()), .work = {}}));
    on_.Execute(
        Task([task = std::move(task), stream = streams.back().get()]() mutable {
          const ScopedStream scope(stream);
          std::move(task).Run();
        }));
  }
  std::vector<std::unique_ptr<Stream>> streams;

 private:
  Executor& on_;
};

// Done when the work has been enqueued: later work is ordered by fences.
template <typename T>
class StreamFuture {
 public:
  StreamFuture(Future<Fenced<T>> future, OnStreams& executor)
      : future_(std::move(future)), executor_(executor) {}

  // The current stream waits; the host waits only until the work has been
  // enqueued.
  absl::StatusOr<T> Wait() && {
    future_.Wait().IgnoreError();
    absl::StatusOr<Fenced<T>> fenced = std::move(future_).value();
    if (!fenced.ok()) return fenced.status();
    WaitForFence(fenced->fence);
    return std::move(fenced->value);
  }

  template <typename F>
  auto Then(F callback) && {
    using U = std::invoke_result_t<F, absl::StatusOr<T>>;
    auto fenced_callback =
        [callback = std::move(callback)](absl::StatusOr<Fenced<T>> fenced) {
          if (fenced.ok()) WaitForFence(fenced->fence);
          U value = fenced.ok() ? callback(std::move(fenced->value))
                                : callback(fenced.status());
          return Fenced<U>{std::move(value), RecordFence()};
        };
    return StreamFuture<U>(
        std::move(future_).Then(executor_, std::move(fenced_callback)),
        executor_);
  }

 private:
  Future<Fenced<T>> future_;
  OnStreams& executor_;
};

TEST(StreamSeamTest, CallbacksRunOnStreamsOrderedAfterTheValue) {
  OnStreams executor(InlineExecutor());
  Stream producer{.name = "producer", .work = {}};
  Stream consumer{.name = "consumer", .work = {}};
  Promise<Fenced<int>> promise;
  auto last = StreamFuture<int>(promise.future(), executor)
                  .Then([](const absl::StatusOr<int>& value) {
                    current_stream->work.push_back("add");
                    return *value + 1;
                  })
                  .Then([](const absl::StatusOr<int>& value) {
                    current_stream->work.push_back("double");
                    return *value * 2;
                  });
  {
    const ScopedStream scope(&producer);
    producer.work.push_back("compute");
    EXPECT_TRUE(promise.TrySetValue({20, RecordFence()}));
  }
  const ScopedStream scope(&consumer);
  EXPECT_THAT(std::move(last).Wait(), IsOkAndHolds(42));
  ASSERT_EQ(executor.streams.size(), 2U);
  EXPECT_THAT(executor.streams[0]->work,
              ElementsAre("wait for producer:1", "add"));
  EXPECT_THAT(executor.streams[1]->work,
              ElementsAre("wait for pool0:2", "double"));
  EXPECT_THAT(consumer.work, ElementsAre("wait for pool1:2"));
}

TEST(StreamSeamTest, AnErrorNeedsNoFence) {
  OnStreams executor(InlineExecutor());
  Stream consumer{.name = "consumer", .work = {}};
  Promise<Fenced<int>> promise;
  StreamFuture<int> future(promise.future(), executor);
  EXPECT_TRUE(promise.TrySetError(absl::DataLossError("poisoned")));
  const ScopedStream scope(&consumer);
  EXPECT_THAT(std::move(future).Wait(),
              StatusIs(absl::StatusCode::kDataLoss, "poisoned"));
  EXPECT_THAT(consumer.work, IsEmpty());
}

}  // namespace
}  // namespace tenon::futures
