// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/fake/streams.h"

#include <time.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/cuda_ipc/fake/contexts.h"
#include "tenon/cuda_ipc/fake/exports.h"
#include "tenon/cuda_ipc/fake/memory.h"
#include "tenon/cuda_ipc/fake/settings.h"

namespace tenon::cuda_ipc::fake {

class Stream {
 public:
  Stream(CUcontext its_context, unsigned seed)
      : context(its_context), random_(seed) {}

  void Run();
  void Add(std::function<void()> work);
  void Close();
  bool IsIdle();
  void WaitUntilIdle();
  // The state of the capture by a graph. Work that is added under capture does
  // not run.
  CUstreamCaptureStatus capture();
  void SetCapture(CUstreamCaptureStatus capture);
  // Whether it is under capture, which is invalid from now on.
  bool SpoilsCapture();

  const CUcontext context;

 private:
  void Delay();

  std::mutex mutex_;  // Guards all below but random_, which Run() uses.
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;  // The first one runs.
  bool is_closed_ = false;
  CUstreamCaptureStatus capture_ = CU_STREAM_CAPTURE_STATUS_NONE;
  std::minstd_rand random_;
};

void Stream::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !work_.empty() || is_closed_; });
    if (work_.empty()) return;
    const std::function<void()> work = work_.front();
    lock.unlock();
    Delay();
    if (!ShouldStop()) work();
    lock.lock();
    work_.pop_front();
    changed_.notify_all();
  }
}

void Stream::Delay() {
  const unsigned most = CurrentSettings().delay_us;
  if (most == 0) return;
  const auto delay = static_cast<long>(random_() % most);
  const timespec time = {.tv_sec = delay / 1'000'000,
                         .tv_nsec = delay % 1'000'000 * 1'000};
  nanosleep(&time, nullptr);
}

void Stream::Add(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (capture_ != CU_STREAM_CAPTURE_STATUS_NONE) return;
  work_.push_back(std::move(work));
  changed_.notify_all();
}

void Stream::Close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

bool Stream::IsIdle() {
  const std::lock_guard lock(mutex_);
  return work_.empty();
}

void Stream::WaitUntilIdle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return work_.empty(); });
}

CUstreamCaptureStatus Stream::capture() {
  const std::lock_guard lock(mutex_);
  return capture_;
}

void Stream::SetCapture(CUstreamCaptureStatus capture) {
  const std::lock_guard lock(mutex_);
  capture_ = capture;
}

bool Stream::SpoilsCapture() {
  const std::lock_guard lock(mutex_);
  if (capture_ == CU_STREAM_CAPTURE_STATUS_NONE) return false;
  capture_ = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return true;
}

namespace {

// The handle is a number that is never used again.
std::map<CUstream, std::shared_ptr<Stream>>& Streams() {
  static auto* const streams = new std::map<CUstream, std::shared_ptr<Stream>>;
  return *streams;
}

uintptr_t last_handle = 0x57ea0000;

// Those that a context has without a call, made by their first use: the legacy
// one of no thread, and one of each thread.
std::map<std::pair<CUcontext, std::thread::id>, std::shared_ptr<Stream>>&
DefaultStreams() {
  static auto* const streams =
      new std::map<std::pair<CUcontext, std::thread::id>,
                   std::shared_ptr<Stream>>;
  return *streams;
}

std::set<CUgraph>& Graphs() {
  static auto* const graphs = new std::set<CUgraph>;
  return *graphs;
}

// With TableLock().
std::shared_ptr<Stream> MakeStream() {
  last_handle += 0x10;
  auto created = std::make_shared<Stream>(
      CurrentContext(),
      CurrentSettings().seed + static_cast<unsigned>(last_handle));
  std::thread([created] { created->Run(); }).detach();
  return created;
}

}  // namespace

std::shared_ptr<Stream> FindStream(CUstream stream) {
  const std::lock_guard lock(TableLock());
  const auto handle = reinterpret_cast<uintptr_t>(stream);
  if (handle == kCuStreamLegacy || handle == kCuStreamPerThread) {
    std::shared_ptr<Stream>& made =
        DefaultStreams()[{CurrentContext(), handle == kCuStreamLegacy
                                                ? std::thread::id()
                                                : std::this_thread::get_id()}];
    if (made == nullptr) made = MakeStream();
    return made;
  }
  const auto found = Streams().find(stream);
  return found == Streams().end() || found->second->context != CurrentContext()
             ? nullptr
             : found->second;
}

int DeviceOf(const Stream& stream) { return stream.context->device; }

void Enqueue(Stream& stream, std::function<void()> work) {
  stream.Add(std::move(work));
}

bool ShouldStop() { return EndedBy() != CUDA_SUCCESS; }

CUresult Synchronize(Stream& stream) {
  stream.WaitUntilIdle();
  return EndedBy();
}

CUresult SynchronizeStreamsOf(CUcontext context) {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    const std::lock_guard lock(TableLock());
    for (const auto& [handle, stream] : Streams()) {
      if (stream->context == context) streams.push_back(stream);
    }
    for (const auto& [owner, stream] : DefaultStreams()) {
      if (stream->context == context) streams.push_back(stream);
    }
  }
  for (const auto& stream : streams) stream->WaitUntilIdle();
  return EndedBy();
}

void CloseStreamsOf(CUcontext context) {
  for (auto stream = Streams().begin(); stream != Streams().end();) {
    const auto next = std::next(stream);
    if (stream->second->context == context) {
      stream->second->Close();
      Streams().erase(stream);
    }
    stream = next;
  }
  std::erase_if(DefaultStreams(), [context](const auto& entry) {
    if (entry.second->context != context) return false;
    entry.second->Close();
    return true;
  });
}

void AddStreamLeaks(std::vector<std::string>& leaks) {
  for (const auto& [handle, stream] : Streams()) {
    leaks.push_back("stream of device " +
                    std::to_string(stream->context->device));
  }
  leaks.insert(leaks.end(), Graphs().size(), "graph");
}

void ResetStreams() {
  for (const auto& [handle, stream] : Streams()) stream->Close();
  for (const auto& [owner, stream] : DefaultStreams()) stream->Close();
  Streams().clear();
  DefaultStreams().clear();
  Graphs().clear();
}

void Pause() {
  const timespec time = {.tv_sec = 0, .tv_nsec = 50'000};
  nanosleep(&time, nullptr);
}

extern "C" {

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  TENON_FAKE_ENTER(cuStreamCreate, kContext);
  if (stream == nullptr || flags > kCuStreamNonBlocking) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(TableLock());
  std::shared_ptr<Stream> made = MakeStream();
  *stream = reinterpret_cast<CUstream>(last_handle);
  Streams()[*stream] = std::move(made);
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  TENON_FAKE_ENTER(cuStreamDestroy_v2, kContext);
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  found->Close();
  const std::lock_guard lock(TableLock());
  Streams().erase(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  TENON_FAKE_ENTER(cuStreamSynchronize, kContext);
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (found->SpoilsCapture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return Synchronize(*found);
}

CUresult cuStreamQuery(CUstream stream) {
  TENON_FAKE_ENTER(cuStreamQuery, kContext);
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (found->SpoilsCapture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return found->IsIdle() ? EndedBy() : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  TENON_FAKE_ENTER(cuStreamIsCapturing, kContext);
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *status = found->capture();
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  TENON_FAKE_ENTER(cuStreamBeginCapture_v2, kContext);
  const std::shared_ptr<Stream> found = FindStream(stream);
  // The legacy stream cannot be captured.
  if (found == nullptr ||
      reinterpret_cast<uintptr_t>(stream) == kCuStreamLegacy ||
      mode > CU_STREAM_CAPTURE_MODE_RELAXED ||
      found->capture() != CU_STREAM_CAPTURE_STATUS_NONE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  found->SetCapture(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  TENON_FAKE_ENTER(cuStreamEndCapture, kContext);
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (found == nullptr || graph == nullptr ||
      found->capture() == CU_STREAM_CAPTURE_STATUS_NONE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool is_valid = found->capture() == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  found->SetCapture(CU_STREAM_CAPTURE_STATUS_NONE);
  *graph = nullptr;
  if (!is_valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const std::lock_guard lock(TableLock());
  last_handle += 0x10;
  *graph = reinterpret_cast<CUgraph>(last_handle);
  Graphs().insert(*graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  TENON_FAKE_ENTER(cuGraphDestroy, kInitialized);
  const std::lock_guard lock(TableLock());
  return Graphs().erase(graph) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  TENON_FAKE_ENTER(cuLaunchHostFunc, kContext);
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  found->Add([function, data] {
    EnterHostFunction();
    function(data);
    LeaveHostFunction();
  });
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace tenon::cuda_ipc::fake
