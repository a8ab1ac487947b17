// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/fake/events.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tenon/cuda_ipc/fake/contexts.h"
#include "tenon/cuda_ipc/fake/exporter.h"
#include "tenon/cuda_ipc/fake/exports.h"
#include "tenon/cuda_ipc/fake/memory.h"
#include "tenon/cuda_ipc/fake/settings.h"
#include "tenon/cuda_ipc/fake/streams.h"

namespace tenon::cuda_ipc::fake {
namespace {

// In shared memory. All zeros is an event that has never been recorded, which
// is complete. A recorder that dies leaves `completed` behind for good.
struct State {
  std::atomic<uint32_t> recorded;
  std::atomic<uint32_t> completed;
  std::atomic<uint32_t> is_destroyed;  // By its creator.
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

struct Event {
  CUcontext context;
  unsigned flags;
  bool is_imported;
  std::shared_ptr<Memory> memory;

  State& state() const { return *reinterpret_cast<State*>(memory->data()); }
  bool HasCompleted(uint32_t recorded) const {
    return state().is_destroyed == 0 && state().completed >= recorded;
  }
};

std::map<CUevent, std::shared_ptr<Event>>& Events() {
  static auto* const events = new std::map<CUevent, std::shared_ptr<Event>>;
  return *events;
}

CUevent Add(Event event) {
  static uintptr_t last = 0xe7e90000;
  last += 0x10;
  const auto handle = reinterpret_cast<CUevent>(last);
  Events()[handle] = std::make_shared<Event>(std::move(event));
  return handle;
}

std::shared_ptr<Event> Find(CUevent event) {
  const std::lock_guard lock(TableLock());
  const auto found = Events().find(event);
  return found == Events().end() ? nullptr : found->second;
}

bool SupportsIpc(int device) {
  const auto& attributes = CurrentSettings().devices[device].attributes;
  const auto found = attributes.find(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
  return found != attributes.end() && found->second != 0;
}

void WaitFor(const Event& event, uint32_t recorded) {
  while (!event.HasCompleted(recorded) && !ShouldStop()) Pause();
}

}  // namespace

void AddEventLeaks(std::vector<std::string>& leaks) {
  for (const auto& [handle, event] : Events()) {
    leaks.push_back(event->is_imported ? "imported event" : "event");
  }
}

void ResetEvents() { Events().clear(); }

extern "C" {

CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  TENON_FAKE_ENTER(cuEventCreate, kContext);
  const bool is_interprocess = (flags & kCuEventInterprocess) != 0;
  constexpr unsigned kKnown =
      kCuEventBlockingSync | kCuEventDisableTiming | kCuEventInterprocess;
  if (event == nullptr || (flags & ~kKnown) != 0 ||
      (is_interprocess && (flags & kCuEventDisableTiming) == 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUresult result = CUDA_SUCCESS;
  std::shared_ptr<Memory> memory = Memory::Create(
      MemoryKind::kEvent, CurrentContext()->device, kHostPage, result);
  if (memory == nullptr) return result;
  const std::lock_guard lock(TableLock());
  *event = Add({.context = CurrentContext(),
                .flags = flags,
                .is_imported = false,
                .memory = std::move(memory)});
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  TENON_FAKE_ENTER(cuEventRecord, kContext);
  const std::shared_ptr<Event> found = Find(event);
  const std::shared_ptr<Stream> on = FindStream(stream);
  if (found == nullptr || on == nullptr || found->context != CurrentContext()) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const uint32_t recorded = ++found->state().recorded;
  Enqueue(*on, [found, recorded] {
    std::atomic<uint32_t>& completed = found->state().completed;
    uint32_t seen = completed;
    while (seen < recorded &&
           !completed.compare_exchange_weak(seen, recorded)) {
    }
  });
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
  TENON_FAKE_ENTER(cuEventQuery, kInitialized);
  const std::shared_ptr<Event> found = Find(event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return found->HasCompleted(found->state().recorded) ? CUDA_SUCCESS
                                                      : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
  TENON_FAKE_ENTER(cuEventSynchronize, kContext);
  const std::shared_ptr<Event> found = Find(event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  WaitFor(*found, found->state().recorded);
  return EndedBy();
}

CUresult cuEventDestroy_v2(CUevent event) {
  TENON_FAKE_ENTER(cuEventDestroy_v2, kContext);
  const std::shared_ptr<Event> found = Find(event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // Only importers see this: recorded work of this process holds the event.
  if (!found->is_imported && (found->flags & kCuEventInterprocess) != 0) {
    found->state().is_destroyed = 1;
  }
  const std::lock_guard lock(TableLock());
  Events().erase(event);
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  TENON_FAKE_ENTER(cuStreamWaitEvent, kContext);
  const std::shared_ptr<Event> found = Find(event);
  const std::shared_ptr<Stream> on = FindStream(stream);
  if (found == nullptr || on == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const uint32_t recorded = found->state().recorded;
  Enqueue(*on, [found, recorded] { WaitFor(*found, recorded); });
  return CUDA_SUCCESS;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  TENON_FAKE_ENTER(cuIpcGetEventHandle, kContext);
  const std::shared_ptr<Event> found = Find(event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (handle == nullptr || found->is_imported ||
      (found->flags & kCuEventInterprocess) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!SupportsIpc(found->context->device)) return CUDA_ERROR_NOT_SUPPORTED;
  WriteHandle(*found->memory, handle->reserved);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  TENON_FAKE_ENTER(cuIpcOpenEventHandle, kContext);
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!SupportsIpc(CurrentContext()->device)) return CUDA_ERROR_NOT_SUPPORTED;
  Exported exported;
  const CUresult result =
      OpenHandle(MemoryKind::kEvent, handle.reserved, exported);
  if (result != CUDA_SUCCESS) return result;
  close(exported.exporter);
  const std::lock_guard lock(TableLock());
  *event = Add({.context = CurrentContext(),
                .flags = kCuEventDisableTiming,
                .is_imported = true,
                .memory = std::move(exported.memory)});
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace tenon::cuda_ipc::fake
