// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/internal/pool_starter.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/spawn/pool/internal/pool_poller.h"
#include "tenon/spawn/pool/internal/pool_protocol.h"
#include "tenon/spawn/pool/internal/pool_workers.h"
#include "tenon/spawn/pool/pool_options.h"
#include "tenon/spawn/process/process.h"

namespace tenon::spawn {

PoolStarter::PoolStarter(PoolOptions options, const PoolPoller& poller)
    : options_(std::move(options)), poller_(poller) {}

absl::StatusOr<PoolStarter::Workers> PoolStarter::Start(size_t count) {
  count = std::min(count, Process::kSupervisedTogether);
  absl::StatusOr<Workers> started = StartTogether(count);
  if (started.ok() || count == 1) return started;
  return StartTogether(1);  // A limit may leave room for one.
}

absl::StatusOr<PoolStarter::Workers> PoolStarter::StartTogether(size_t count) {
  std::vector<Channel> channels;
  std::vector<Channel> workers_ends;
  std::vector<std::vector<int>> fds;
  for (size_t i = 0; i < count; ++i) {
    TENON_ASSIGN_OR_RETURN(auto ends,
                           Channel::CreatePair({.allow_sockets = true}));
    fds.push_back({ends.second.fd()});
    channels.push_back(std::move(ends.first));
    workers_ends.push_back(std::move(ends.second));
  }
  options_.process.index = static_cast<int>(started());
  TENON_ASSIGN_OR_RETURN(std::vector<Process> processes,
                         Process::StartEach(options_.process, fds));
  started_.fetch_add(count, std::memory_order_relaxed);
  Workers workers;
  for (size_t i = 0; i < count; ++i) {
    workers.emplace_back(new PoolWorkers::Worker{std::move(processes[i]),
                                                 std::move(channels[i])});
    TENON_RETURN_IF_ERROR(Initialize(*workers.back()));
  }
  TENON_RETURN_IF_ERROR(Watch(workers));
  return workers;
}

absl::Status PoolStarter::Initialize(PoolWorkers::Worker& worker) {
  if (options_.initializer.function.empty()) return absl::OkStatus();
  worker.phase = PoolWorkers::Phase::kInitializing;
  TENON_ASSIGN_OR_RETURN(
      const PackedBatch batch,
      PackedBatch::Of(PoolWorkers::kInitializerBatch,
                      options_.initializer.function,
                      {&*options_.initializer.arguments, 1}));
  const absl::Status sent = batch.Send(worker.channel, Deadline::Passed());
  // If it has died its end is noticed, and counted.
  return absl::IsUnavailable(sent) ? absl::OkStatus() : sent;
}

absl::Status PoolStarter::Watch(const Workers& workers) {
  absl::Status watched;
  for (const auto& worker : workers) {
    watched.Update(poller_.Add(worker->channel.fd(), worker->channel_key()));
    watched.Update(poller_.Add(worker->process.end_fd(), worker->end_key()));
  }
  if (watched.ok()) return watched;
  for (const auto& worker : workers) {
    poller_.Remove(worker->channel.fd());
    poller_.Remove(worker->process.end_fd());
  }
  return watched;
}

}  // namespace tenon::spawn
