// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Stream futures: the cases of torch's futures of CUDA values. A gate in place
// of a kernel of a second keeps a stream from its work until the test has seen
// that no host waits for it.

#include "tenon/cuda_ipc/stream_future.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/cuda_ipc/fence.h"
#include "tenon/cuda_ipc/fence_testing.h"
#include "tenon/cuda_ipc/fenced_tensor.h"
#include "tenon/cuda_ipc/stream_scope.h"
#include "tenon/futures/thread_pool.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {

// A value with several buffers, as a sparse tensor has.
struct SparseValue {
  Tensor indices, values;
};
void VisitTensors(const SparseValue& value, const TensorVisitor& visit) {
  visit(value.indices);
  visit(value.values);
}
// Its elements can be replaced after it was set.
struct SharedList {
  std::shared_ptr<std::vector<Tensor>> tensors;
};
void VisitTensors(const SharedList& value, const TensorVisitor& visit) {
  VisitTensors(*value.tensors, visit);
}

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kValueBytes = 1024;

// A child's devices, pools and streams, and a gate for host functions, which
// may run until the child ends.
struct World {
  World() { open.store(false); }
  ~World() { open.store(true); }

  Tensor Make(int device = 0) const {
    const auto& pool = device == 0 ? pool0 : pool1;
    return pool->CreateTensor(kDtypeOf<uint8_t>, {kValueBytes}, Soon()).value();
  }
  // Slow work that fills it.
  void FillSlowly(CUstream stream, const Tensor& tensor, uint8_t value) const {
    gpu.Close(stream, open);
    gpu.Fill(stream, tensor, value);
  }
  // A copy of the tensor, made by later work of `stream`.
  Tensor CopyOn(CUstream stream, const Tensor& tensor) const {
    const Tensor copy =
        pool0->CreateTensor(kDtypeOf<uint8_t>, tensor.spec().shape(), Soon())
            .value();
    gpu.Copy(stream, copy, tensor);
    return copy;
  }

  static inline std::atomic<bool> open = false;
  TestDevice gpu;
  std::shared_ptr<DevicePool> pool0 = DevicePool::Create(0).value();
  std::shared_ptr<DevicePool> pool1 = DevicePool::Create(1).value();
  CUstream producer = gpu.MakeStream();
  CUstream consumer = gpu.MakeStream();
};

template <typename T>
StreamPromise<T> MakePromise(const StreamFutureOptions& options = {}) {
  absl::StatusOr<StreamPromise<T>> promise = StreamPromise<T>::Create(options);
  EXPECT_THAT(promise, IsOk());
  return *std::move(promise);
}

class StreamFutureTest : public DeviceProcessTest {
 protected:
  void SetUp() override {
    DeviceProcessTest::SetUp();
    if (!has_fake()) GTEST_SKIP() << "needs two devices";
  }

  // A value whose tensors are `tensors` is set while they are filled, and is
  // taken on another stream without a wait of the host.
  template <typename T>
  static void CheckExtract(const World& world,
                           const std::vector<Tensor>& tensors, T value) {
    World::open = false;
    auto promise = MakePromise<T>();
    const StreamFuture<T> future = promise.future();
    EXPECT_FALSE(future.done());
    {
      const StreamScope scope(world.gpu.context(), world.producer);
      for (const Tensor& tensor : tensors) {
        world.FillSlowly(world.producer, tensor, 6);
      }
      ASSERT_THAT(promise.SetValue(std::move(value)), IsOk());
    }
    EXPECT_TRUE(future.done());
    const StreamScope scope(world.gpu.context(), world.consumer);
    const absl::StatusOr<T> got = future.Wait();
    ASSERT_THAT(got, IsOk());
    std::vector<Tensor> copies;
    for (const Tensor& tensor : internal_stream_future::TensorsOf(*got)) {
      copies.push_back(world.CopyOn(world.consumer, tensor));
      EXPECT_THAT(RecordUse(tensor), IsOk());
    }
    EXPECT_EQ(copies.size(), tensors.size());
    EXPECT_FALSE(world.gpu.IsIdle(world.consumer));
    World::open = true;
    world.gpu.Synchronize(world.consumer);
    for (const Tensor& copy : copies) EXPECT_TRUE(world.gpu.Has(copy, 6));
  }
};

TEST_F(StreamFutureTest, DevicesAreThoseOfCuda) {
  RunAlone([] {
    EXPECT_THAT(StreamPromise<Tensor>::Create({.devices = {{kDLCUDA, 1}}}),
                IsOk());
    EXPECT_THAT(StreamPromise<Tensor>::Create({.devices = {kCpuDevice}}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("want devices of CUDA")));
    EXPECT_THAT(StreamPromise<Tensor>::Create({.devices = {{kDLCUDA, 7}}}),
                StatusIs(absl::StatusCode::kNotFound));
  });
}

TEST_F(StreamFutureTest, ATensorIsTakenWithoutAWaitOfTheHost) {
  RunAlone([] {
    const World world;
    const Tensor tensor = world.Make();
    CheckExtract(world, {tensor}, tensor);
  });
}

TEST_F(StreamFutureTest, ListsAndOwnTypesAreTakenAsTensorsAre) {
  RunAlone([] {
    const World world;
    const Tensor a = world.Make();
    const Tensor b = world.Make();
    CheckExtract(world, {a, b}, std::vector<Tensor>{a, b});
    CheckExtract(world, {a, b}, SparseValue{a, b});
    CheckExtract(world, {a, b}, std::vector<SparseValue>{{a, b}});
    CheckExtract(world, {a}, std::optional<Tensor>(a));
    CheckExtract(world, {a, b},
                 std::pair(std::string("both"), std::vector<Tensor>{a, b}));
  });
}

TEST_F(StreamFutureTest, AValueOnAnotherDeviceThanListedIsAnError) {
  RunAlone([] {
    const World world;
    auto promise = MakePromise<Tensor>({.devices = {{kDLCUDA, 1}}});
    const auto future = promise.future();
    const auto child = future.Then(
        [](const absl::StatusOr<Tensor>& /*ignored*/) { return 9; });
    const StreamScope scope(world.gpu.context(), world.producer);
    const auto names_both =
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr("cuda:0"), HasSubstr("cuda:1")));
    EXPECT_THAT(promise.SetValue(world.Make()), names_both);
    EXPECT_THAT(future.Wait(), names_both);
    EXPECT_THAT(child.Wait(), IsOkAndHolds(9));
    EXPECT_THAT(promise.SetValue(world.Make(1)),
                StatusIs(absl::StatusCode::kFailedPrecondition));
  });
}

TEST_F(StreamFutureTest, NoSynchronizationIsLeftOutUnnoticed) {
  RunAlone([] {
    const World world;
    const auto says_what_to_do =
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 HasSubstr("no current stream of device 0; enter a Stream"));
    auto promise = MakePromise<Tensor>();
    EXPECT_THAT(promise.SetValue(world.Make()), says_what_to_do);
    EXPECT_THAT(promise.future().Wait(), says_what_to_do);
    // The waiter's: the future stays as it is.
    auto good = MakePromise<Tensor>();
    const auto future = good.future();
    {
      const StreamScope scope(world.gpu.context(), world.producer);
      ASSERT_THAT(good.SetValue(world.Make()), IsOk());
    }
    EXPECT_THAT(future.Wait(), says_what_to_do);
    EXPECT_THAT(RecordUse(world.Make()), says_what_to_do);
    const StreamScope scope(world.gpu.context(), world.consumer);
    EXPECT_THAT(future.Wait(), IsOk());
    // Values of the CPU need none.
    auto number = MakePromise<int>();
    ASSERT_THAT(number.SetValue(4), IsOk());
    EXPECT_THAT(number.future().Wait(), IsOkAndHolds(4));
  });
}

TEST_F(StreamFutureTest, AValueOnTwoDevicesIsOrderedOnBoth) {
  RunAlone([] {
    const World world;
    const TestDevice second(1);
    const CUstream slow = second.MakeStream();
    const CUstream reader = second.MakeStream();
    second.Close(slow, World::open);
    auto promise = MakePromise<std::vector<Tensor>>();
    const auto future = promise.future();
    {
      const StreamScope first(world.gpu.context(), world.producer);
      const StreamScope other(second.context(), slow);
      ASSERT_THAT(promise.SetValue({world.Make(), world.Make(1)}), IsOk());
    }
    const StreamScope first(world.gpu.context(), world.consumer);
    EXPECT_THAT(future.Wait(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("device 1")));
    const StreamScope other(second.context(), reader);
    EXPECT_THAT(future.Wait(), IsOk());
    EXPECT_TRUE(world.gpu.BecomesIdle(world.consumer));
    EXPECT_FALSE(second.IsIdle(reader));
    EXPECT_THAT(future.WaitOnHost(Deadline::Passed()),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    World::open = true;
    EXPECT_THAT(future.WaitOnHost(Soon()), IsOk());
    EXPECT_TRUE(second.BecomesIdle(reader));
  });
}

TEST_F(StreamFutureTest, CallbacksRunOnPoolStreamsInOrder) {
  RunAlone([] {
    const World world;
    auto promise = MakePromise<Tensor>();
    const auto future = promise.future();
    std::set<CUstream> used = {world.producer, world.consumer};
    const auto copies = [&](absl::StatusOr<Tensor> value) {
      const CUstream stream = CurrentStream(world.gpu.context()).value();
      EXPECT_TRUE(used.insert(stream).second);
      return world.CopyOn(stream, value.value());
    };
    // Two hops, and another callback of the first one.
    const auto first = future.Then(copies);
    const auto second = first.Then(copies);
    const auto third = first.Then(copies);
    const Tensor tensor = world.Make();
    {
      const StreamScope scope(world.gpu.context(), world.producer);
      world.FillSlowly(world.producer, tensor, 3);
      ASSERT_THAT(promise.SetValue(tensor), IsOk());
      EXPECT_THAT(CurrentStream(world.gpu.context()),
                  IsOkAndHolds(world.producer));
    }
    EXPECT_TRUE(second.done() && third.done());
    EXPECT_EQ(used.size(), 5u);
    EXPECT_FALSE(CurrentStream(world.gpu.context()).ok());
    const StreamScope scope(world.gpu.context(), world.consumer);
    const Tensor results[] = {second.Wait().value(), third.Wait().value()};
    const Tensor seen[] = {world.CopyOn(world.consumer, results[0]),
                           world.CopyOn(world.consumer, results[1])};
    EXPECT_FALSE(world.gpu.IsIdle(world.consumer));
    World::open = true;
    world.gpu.Synchronize(world.consumer);
    for (const Tensor& copy : seen) EXPECT_TRUE(world.gpu.Has(copy, 3));
  });
}

TEST_F(StreamFutureTest, CallbacksRunOnAnExecutor) {
  RunAlone(
      [] {
        const World world;
        const auto threads = futures::ThreadPool::Create(2).value();
        const StreamScope scope(world.gpu.context(), world.producer);
        for (int i = 1; i < 50; ++i) {
          auto promise = MakePromise<Tensor>();
          const auto copied = promise.future().Then(
              *threads, [&](absl::StatusOr<Tensor> value) {
                return world.CopyOn(CurrentStream(world.gpu.context()).value(),
                                    value.value());
              });
          const Tensor tensor = world.Make();
          world.gpu.Fill(world.producer, tensor, i);
          ASSERT_THAT(promise.SetValue(tensor), IsOk());
          const StreamScope waiter(world.gpu.context(), world.consumer);
          const Tensor seen =
              world.CopyOn(world.consumer, copied.Wait().value());
          world.gpu.Synchronize(world.consumer);
          ASSERT_TRUE(world.gpu.Has(seen, i));
        }
      },
      "delay_us=1000");
}

// 20 calls: slow work on a stream of the callback's own, which it joins to the
// current one.
TEST_F(StreamFutureTest, ACallbackChangesItsStreamAndComesBack) {
  RunAlone(
      [] {
        const World world;
        const CUstream own = world.gpu.MakeStream();
        const auto fences =
            StreamTimeline::Create(world.gpu.context(), own).value();
        for (int i = 1; i <= 20; ++i) {
          auto promise = MakePromise<Tensor>();
          const auto copied =
              promise.future().Then([&](absl::StatusOr<Tensor> value) {
                const auto& context = world.gpu.context();
                const CUstream current = CurrentStream(context).value();
                // The own stream waits for the value, too.
                const auto arrived =
                    StreamTimeline::Create(context, current).value();
                EXPECT_THAT(arrived->Record()->WaitOn(context, own), IsOk());
                Tensor result;
                {
                  const StreamScope scope(context, own);
                  result = world.CopyOn(own, value.value());
                }
                EXPECT_THAT(CurrentStream(context), IsOkAndHolds(current));
                EXPECT_THAT(fences->Record()->WaitOn(context, current), IsOk());
                return result;
              });
          const StreamScope scope(world.gpu.context(), world.producer);
          const Tensor tensor = world.Make();
          world.gpu.Fill(world.producer, tensor, i);
          ASSERT_THAT(promise.SetValue(tensor), IsOk());
          const StreamScope waiter(world.gpu.context(), world.consumer);
          const Tensor seen =
              world.CopyOn(world.consumer, copied.Wait().value());
          world.gpu.Synchronize(world.consumer);
          ASSERT_TRUE(world.gpu.Has(seen, i)) << i;
        }
      },
      "delay_us=3000");
}

TEST_F(StreamFutureTest, ACallbackMovesItsValueToAnotherDevice) {
  RunAlone([] {
    const World world;
    const TestDevice second(1);
    const CUstream reader = second.MakeStream();
    auto promise =
        MakePromise<Tensor>({.devices = {{kDLCUDA, 0}, {kDLCUDA, 1}}});
    const auto moved = promise.future().Then([&](absl::StatusOr<Tensor> value) {
      EXPECT_THAT(value, IsOk());
      const CUstream first = CurrentStream(world.gpu.context()).value();
      const CUstream other = CurrentStream(second.context()).value();
      const auto fences =
          StreamTimeline::Create(world.gpu.context(), first).value();
      EXPECT_THAT(fences->Record()->WaitOn(second.context(), other), IsOk());
      const Tensor result = world.Make(1);
      second.Fill(other, result, 7);
      return result;
    });
    const StreamScope scope(world.gpu.context(), world.producer);
    const Tensor tensor = world.Make();
    world.FillSlowly(world.producer, tensor, 1);
    ASSERT_THAT(promise.SetValue(tensor), IsOk());
    const StreamScope waiter(second.context(), reader);
    const Tensor result = moved.Wait().value();
    const Tensor copy = world.Make(1);
    second.Copy(reader, copy, result);
    EXPECT_FALSE(second.IsIdle(reader));
    World::open = true;
    second.Synchronize(reader);
    EXPECT_TRUE(second.Has(copy, 7));
  });
}

TEST_F(StreamFutureTest, ArgumentsAreKeptForTheStreamsOfTheirCallback) {
  RunAlone([] {
    const World world;
    const CUstream own = world.gpu.MakeStream();
    auto promise = MakePromise<Tensor>();
    const auto done = promise.future().Then([&](absl::StatusOr<Tensor> value) {
      // Nothing of the value is left after this, but work that reads it, on
      // a stream that is not the current one any more.
      const StreamScope scope(world.gpu.context(), own);
      world.gpu.Close(own, World::open);
      world.gpu.Fill(own, *std::move(value), 1);
    });
    {
      const StreamScope scope(world.gpu.context(), world.producer);
      ASSERT_THAT(promise.SetValue(world.Make()), IsOk());
    }
    EXPECT_THAT(done.Wait(), IsOk());
    promise = MakePromise<Tensor>();
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_EQ(world.pool0->Use().blocks_in_use, 1u);
    World::open = true;
    EXPECT_TRUE(Becomes([&] { return world.pool0->Use().blocks_in_use == 0; }));
  });
}

// The future is dropped while a stream still fills its value.
TEST_F(StreamFutureTest, ResultsAreKeptForTheStreamsOfTheirCallback) {
  RunAlone([] {
    const World world;
    auto promise = MakePromise<int>({.devices = {{kDLCUDA, 0}}});
    auto made = promise.future().Then([&](absl::StatusOr<int>) {
      const Tensor result = world.Make();
      world.FillSlowly(CurrentStream(world.gpu.context()).value(), result, 1);
      return result;
    });
    ASSERT_THAT(promise.SetValue(1), IsOk());
    EXPECT_TRUE(made.done());
    made = {};
    promise = MakePromise<int>();
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_EQ(world.pool0->Use().blocks_in_use, 1u);
    World::open = true;
    EXPECT_TRUE(Becomes([&] { return world.pool0->Use().blocks_in_use == 0; }));
  });
}

TEST_F(StreamFutureTest, ArgumentsAreKeptAlsoIfTheCallbackThrows) {
  RunAlone([] {
    const World world;
    auto promise = MakePromise<Tensor>();
    const auto done =
        promise.future().Then([&](absl::StatusOr<Tensor> value) -> Tensor {
          const CUstream own = CurrentStream(world.gpu.context()).value();
          world.gpu.Close(own, World::open);
          world.gpu.Fill(own, *std::move(value), 1);
          throw std::runtime_error("on fire");
        });
    {
      const StreamScope scope(world.gpu.context(), world.producer);
      ASSERT_THAT(promise.SetValue(world.Make()), IsOk());
    }
    EXPECT_THAT(done.WaitOnHost(Soon()),
                StatusIs(absl::StatusCode::kUnknown, HasSubstr("on fire")));
    promise = MakePromise<Tensor>();
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_EQ(world.pool0->Use().blocks_in_use, 1u);
    World::open = true;
    EXPECT_TRUE(Becomes([&] { return world.pool0->Use().blocks_in_use == 0; }));
  });
}

TEST_F(StreamFutureTest, AUseOnTheCurrentStreamKeepsATensor) {
  RunAlone([] {
    const World world;
    std::optional<Tensor> tensor = world.Make();
    world.FillSlowly(world.consumer, *tensor, 1);
    {
      const StreamScope scope(world.gpu.context(), world.consumer);
      // Of a view the whole block.
      EXPECT_THAT(RecordUse(tensor->Slice(0, {.start = 100}).value()), IsOk());
      EXPECT_THAT(RecordUse(Tensor()), IsOk());
    }
    tensor.reset();
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_EQ(world.pool0->Use().blocks_in_use, 1u);
    World::open = true;
    EXPECT_TRUE(Becomes([&] { return world.pool0->Use().blocks_in_use == 0; }));
  });
}

TEST_F(StreamFutureTest, AValueMayBeChangedOrReplacedAfterItWasSet) {
  RunAlone([] {
    const World world;
    const StreamScope scope(world.gpu.context(), world.producer);
    const Tensor tensor = world.Make();
    auto promise = MakePromise<Tensor>();
    ASSERT_THAT(promise.SetValue(tensor), IsOk());
    world.gpu.Fill(world.producer, tensor, 8);
    EXPECT_THAT(promise.future().Wait(), IsOk());
    // The list's only reference to its tensor is replaced.
    SharedList list{std::make_shared<std::vector<Tensor>>()};
    list.tensors->push_back(world.Make());
    auto listed = MakePromise<SharedList>();
    ASSERT_THAT(listed.SetValue(list), IsOk());
    const auto future = listed.future();
    list.tensors->front() = world.Make();
    EXPECT_THAT(future.Wait(), IsOk());
    EXPECT_THAT(future.WaitOnHost(Soon()), IsOk());
    // Kept since it was set: the first, and the two of now.
    EXPECT_EQ(world.pool0->Use().blocks_in_use, 3u);
  });
}

// Five at a time.
TEST_F(StreamFutureTest, AViewOfASlowTensorIsAResult) {
  RunAlone([] {
    const World world;
    std::vector<StreamFuture<Tensor>> views;
    for (int i = 0; i < 5; ++i) {
      auto promise = MakePromise<Tensor>();
      views.push_back(
          promise.future().Then([&, i](absl::StatusOr<Tensor> value) {
            world.FillSlowly(CurrentStream(world.gpu.context()).value(),
                             value.value(), 10 + i);
            return value->Slice(0, {.start = 100, .stop = 200});
          }));
      const StreamScope scope(world.gpu.context(), world.producer);
      ASSERT_THAT(promise.SetValue(world.Make()), IsOk());
    }
    const StreamScope scope(world.gpu.context(), world.consumer);
    std::vector<Tensor> seen;
    for (const auto& view : views) {
      const Tensor result = view.Wait().value();
      EXPECT_EQ(result.spec().bytes(), 100);
      seen.push_back(world.CopyOn(world.consumer, result));
    }
    EXPECT_FALSE(world.gpu.IsIdle(world.consumer));
    World::open = true;
    world.gpu.Synchronize(world.consumer);
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(world.gpu.Has(seen[i], 10 + i));
  });
}

TEST_F(StreamFutureTest, ErrorsArriveWithTheirText) {
  RunAlone([] {
    auto promise = MakePromise<Tensor>();
    const auto future = promise.future();
    const auto child = future.Then([](absl::StatusOr<Tensor> value) {
      return absl::StatusOr<int>(value.status());
    });
    const auto unfinished = child.Wait(absl::ZeroDuration());
    EXPECT_THAT(unfinished, StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_THAT(child.Wait(Deadline::Passed()),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    ASSERT_THAT(
        promise.SetError(absl::InternalError("cuda:0 and cuda:1 differ")),
        IsOk());
    const auto its_text = StatusIs(absl::StatusCode::kInternal,
                                   HasSubstr("cuda:0 and cuda:1 differ"));
    EXPECT_THAT(future.Wait(), its_text);
    EXPECT_THAT(future.WaitOnHost(Soon()), its_text);
    EXPECT_THAT(child.Wait(), its_text);
    EXPECT_THAT(StreamFuture<int>().Wait(),
                StatusIs(absl::StatusCode::kFailedPrecondition));
  });
}

TEST_F(StreamFutureTest, AFailedCallOfTheDriverIsAnError) {
  RunAlone([this] {
    const World world;
    const StreamScope scope(world.gpu.context(), world.producer);
    for (const char* const entry : {"cuEventCreate", "cuEventRecord"}) {
      auto promise = MakePromise<Tensor>();
      fake_.Fail(entry, 0, CUDA_ERROR_OUT_OF_MEMORY);
      EXPECT_FALSE(promise.SetValue(world.Make()).ok());
      fake_.StopFailing(entry);
      EXPECT_THAT(promise.future().Wait(),
                  StatusIs(absl::StatusCode::kResourceExhausted));
    }
    auto promise = MakePromise<Tensor>();
    ASSERT_THAT(promise.SetValue(world.Make()), IsOk());
    const auto future = promise.future();
    fake_.Fail("cuStreamWaitEvent", 0, CUDA_ERROR_OUT_OF_MEMORY);
    const auto child = future.Then([](absl::StatusOr<Tensor> value) {
      EXPECT_THAT(value, StatusIs(absl::StatusCode::kResourceExhausted));
      return 5;
    });
    EXPECT_THAT(future.Wait(), StatusIs(absl::StatusCode::kResourceExhausted));
    fake_.StopFailing("cuStreamWaitEvent");
    EXPECT_THAT(child.Wait(), IsOkAndHolds(5));
    EXPECT_THAT(future.Wait(), IsOk());
  });
}

// Values of another process, one of which is never filled: its sender is
// killed.
TEST_F(StreamFutureTest, StreamsUnderCaptureAreRefused) {
  RunAlone([] {
    const World world;
    const Tensor tensor = world.Make();
    const auto refuses = [](const std::string& call) {
      return StatusIs(absl::StatusCode::kFailedPrecondition,
                      HasSubstr(call + "(): stream 0x"));
    };
    const StreamScope scope(world.gpu.context(), world.producer);
    auto refused = MakePromise<Tensor>();
    world.gpu.Capture(world.producer, [&] {
      EXPECT_THAT(refused.SetValue(tensor), refuses("SetValue"));
      EXPECT_THAT(RecordUse(tensor), refuses("RecordUse"));
    });
    EXPECT_THAT(RecordUse(tensor), IsOk());
    auto promise = MakePromise<Tensor>();
    const StreamFuture<Tensor> future = promise.future();
    ASSERT_THAT(promise.SetValue(tensor), IsOk());
    const StreamScope inner(world.gpu.context(), world.consumer);
    world.gpu.Capture(world.consumer,
                      [&] { EXPECT_THAT(future.Wait(), refuses("Wait")); });
    EXPECT_THAT(future.Wait(), IsOk());
  });
}

TEST_F(StreamFutureTest, OnlyValuesOfALostFenceAreErrors) {
  const auto queue = TensorQueue::Create().value();
  QueueHandle of_sender = queue->Share().value();
  QueueHandle of_receiver = queue->Share().value();
  int waits[2] = {};
  ASSERT_EQ(pipe(waits), 0);
  ForkedChild sender = Run("sender", [&] {
    const World world;
    const auto mine = TensorQueue::Open(std::move(of_sender)).value();
    const CUstream streams[] = {world.producer, world.consumer};
    static std::atomic<bool> never = false;
    for (int i = 0; i < 2; ++i) {
      const Tensor tensor = world.Make();
      const auto fences =
          StreamTimeline::Create(world.gpu.context(), streams[i]).value();
      world.gpu.Close(streams[i], i == 0 ? World::open : never);
      world.gpu.Fill(streams[i], tensor, 40 + i);
      TensorMessage message;
      AddFenced(message, {tensor, fences->Record().value()});
      ASSERT_THAT(mine->Put(message, Soon()), IsOk());
    }
    World::open = true;
    world.gpu.Synchronize(streams[0]);
    EXPECT_THAT(mine->AwaitTaken(Soon()), IsOk());
    Becomes([] { return never.load(); });  // Until it is killed.
  });
  ForkedChild receiver = Run("receiver", [&] {
    const World world;
    const auto mine = TensorQueue::Open(std::move(of_receiver)).value();
    std::vector<StreamFuture<Tensor>> values, copies;
    for (int i = 0; i < 2; ++i) {
      const TensorMessage message = mine->Get(Soon()).value();
      TENON_ASSERT_OK_AND_ASSIGN(const FencedTensor got, GetFenced(message, 0));
      auto promise = MakePromise<Tensor>();
      values.push_back(promise.future());
      copies.push_back(values[i].Then([&](absl::StatusOr<Tensor> value) {
        return world.CopyOn(CurrentStream(world.gpu.context()).value(),
                            value.value());
      }));
      // Each on a stream of its own, for one waits for the other's sender.
      const StreamScope scope(world.gpu.context(),
                              i == 0 ? world.producer : world.consumer);
      ASSERT_THAT(promise.SetValue(got.tensor, {got.fence}), IsOk());
    }
    EXPECT_THAT(values[0].WaitOnHost(Soon()), IsOk());
    EXPECT_THAT(copies[0].WaitOnHost(Soon()), IsOk());
    {
      const StreamScope scope(world.gpu.context(), world.producer);
      EXPECT_TRUE(world.gpu.Has(copies[0].Wait().value(), 40));
    }
    EXPECT_THAT(copies[1].WaitOnHost(Deadline::Passed()),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_EQ(write(waits[1], "w", 1), 1);
    const auto is_lost = StatusIs(absl::StatusCode::kDataLoss);
    EXPECT_THAT(values[1].WaitOnHost(Soon()), is_lost);
    EXPECT_THAT(copies[1].WaitOnHost(Soon()), is_lost);
    EXPECT_THAT(values[0].WaitOnHost(Soon()), IsOk());
    EXPECT_TRUE(world.gpu.BecomesIdle(world.consumer));
  });
  pollfd waiting = {.fd = waits[0], .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&waiting, 1, 60'000), 1);
  EXPECT_TRUE(sender.report().failures.empty());
  sender.Kill();
  EXPECT_TRUE(receiver.EndsWell());
  for (const int end : waits) close(end);
}

}  // namespace
}  // namespace tenon::cuda_ipc
