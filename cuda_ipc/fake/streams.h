// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Streams: a thread each, which may wait a random time before each operation.

#ifndef TENON_CUDA_IPC_FAKE_STREAMS_H_
#define TENON_CUDA_IPC_FAKE_STREAMS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tenon/cuda_ipc/cuda_api.h"

namespace tenon::cuda_ipc::fake {

class Stream;

// The stream of a handle, if it is one of the current context; else null.
std::shared_ptr<Stream> FindStream(CUstream stream);

int DeviceOf(const Stream& stream);

// Runs `work` on the stream's thread, after all earlier work. Work that waits
// polls ShouldStop().
void Enqueue(Stream& stream, std::function<void()> work);

// True once no work of this process will go on.
bool ShouldStop();

// Blocks until the stream has done all of its work. Returns the error that
// ended the work of this process, if it has ended.
CUresult Synchronize(Stream& stream);

// Blocks until all streams of the context have.
CUresult SynchronizeStreamsOf(CUcontext context);

// As cuStreamDestroy: they run on until their work is done. With TableLock().
void CloseStreamsOf(CUcontext context);

// With TableLock().
void AddStreamLeaks(std::vector<std::string>& leaks);
void ResetStreams();

// Sleeps for a moment, in a loop that waits for another process.
void Pause();

}  // namespace tenon::cuda_ipc::fake

#endif  // TENON_CUDA_IPC_FAKE_STREAMS_H_
