// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of the daemon to its clients, in a /dev/shm of its own: requests
// beside a bare round trip between two processes, and the time from a client's
// death to the end of its name.

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm_manager/manager.h"
#include "tenon/shm_manager/manager_client.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kRawBytes = 64;  // About as many as a request has.

Deadline Soon() { return Deadline::After(absl::Seconds(10)); }

double Seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

double Median(std::vector<double> samples) {
  const auto middle =
      samples.begin() + static_cast<ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// A daemon and a process that sends back what it gets; both killed at exit.
class World {
 public:
  static World& Get() {
    static World world;
    return world;
  }

  ~World() {
    for (const pid_t pid : {daemon_, echo_}) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }

  const std::string& path() const { return path_; }

  absl::Status RoundTrip() {
    char bytes[kRawBytes] = {};
    if (send(sockets_[0], bytes, sizeof(bytes), 0) == kRawBytes &&
        recv(sockets_[0], bytes, sizeof(bytes), 0) == kRawBytes) {
      return absl::OkStatus();
    }
    return absl::InternalError("the echo has ended");
  }

 private:
  World() {
    TENON_CHECK(EnterOwnMountNamespace() && MountTmpfs("/dev/shm", "size=64m"),
                "no /dev/shm of its own");
    char name[] = "/tmp/tenon_manager_XXXXXX";
    TENON_CHECK(mkdtemp(name) != nullptr, "mkdtemp");
    folder_ = name;
    path_ = absl::StrCat(folder_, "/socket");
    daemon_ = fork();
    if (daemon_ == 0) {
      const auto manager = Manager::Create(path_, {});
      _exit(manager.ok() && (*manager)->Run(-1).ok() ? 0 : 1);
    }
    TENON_CHECK(
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets_) == 0,
        "socketpair");
    echo_ = fork();
    if (echo_ == 0) {
      char bytes[kRawBytes];
      while (recv(sockets_[1], bytes, sizeof(bytes), 0) == kRawBytes) {
        if (send(sockets_[1], bytes, sizeof(bytes), 0) != kRawBytes) break;
      }
      _exit(0);
    }
  }

  std::string folder_;
  std::string path_;
  pid_t daemon_ = -1;
  pid_t echo_ = -1;
  int sockets_[2];
};

// The daemon may be starting.
absl::StatusOr<ManagerClient> Attach() {
  const Deadline deadline = Soon();
  for (;;) {
    auto client = ManagerClient::Attach({.path = World::Get().path()}, Soon());
    if (!absl::IsUnavailable(client.status()) || deadline.has_passed()) {
      return client;
    }
    usleep(1000);
  }
}

absl::StatusOr<Segment> CreateNamed() {
  return Segment::CreateSharedWritable(
      4096, {.strategy = SharingStrategy::kFileSystem});
}

// Alternates `ours` with a bare round trip; in wall time, as two processes
// share the work.
template <typename Ours>
void MeasureBesideRoundTrip(benchmark::State& state, Ours&& ours) {
  std::vector<double> of_ours, of_limit;
  for (auto _ : state) {
    const Clock::time_point begin = Clock::now();
    absl::Status status = ours();
    const Clock::time_point middle = Clock::now();
    if (status.ok()) status = World::Get().RoundTrip();
    of_ours.push_back(Seconds(middle - begin));
    of_limit.push_back(Seconds(Clock::now() - middle));
    state.SetIterationTime(of_ours.back());
    if (!status.ok()) {
      state.SkipWithError(status.ToString().c_str());
      return;
    }
  }
  if (of_ours.empty()) return;
  const double limit = Median(std::move(of_limit));
  state.counters["limit_us"] = limit * 1e6;
  state.counters["vs_limit"] = Median(std::move(of_ours)) / limit;
}

void Fail(benchmark::State& state, const absl::Status& status) {
  state.SkipWithError(status.ToString().c_str());
}

void BM_AttachDetach(benchmark::State& state) {
  World::Get();
  MeasureBesideRoundTrip(state, [] { return Attach().status(); });
}
BENCHMARK(BM_AttachDetach)->UseManualTime()->Unit(benchmark::kMicrosecond);

// A request of which the daemon only sends the reply.
void BM_QueryStats(benchmark::State& state) {
  World::Get();
  auto client = Attach();
  if (!client.ok()) return Fail(state, client.status());
  MeasureBesideRoundTrip(state,
                         [&] { return client->QueryStats(Soon()).status(); });
}
BENCHMARK(BM_QueryStats)->UseManualTime()->Unit(benchmark::kMicrosecond);

// Each half of it is one request.
void BM_KeepAndReleaseName(benchmark::State& state) {
  World::Get();
  auto client = Attach();
  const auto segment = CreateNamed();
  if (!client.ok()) return Fail(state, client.status());
  if (!segment.ok()) return Fail(state, segment.status());
  MeasureBesideRoundTrip(state, [&]() -> absl::Status {
    TENON_RETURN_IF_ERROR(client->KeepName(segment->name(), Soon()));
    return client->ReleaseName(segment->name(), Soon());
  });
}
BENCHMARK(BM_KeepAndReleaseName)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

// From SIGKILL of an attached process until its name is gone, with 1 or 1000
// names that others hold.
void BM_KilledUntilRemoved(benchmark::State& state) {
  World::Get();
  std::vector<Segment> others;
  for (int64_t i = 0; i < state.range(0); ++i) {
    auto segment = CreateNamed();
    if (!segment.ok()) return Fail(state, segment.status());
    others.push_back(*std::move(segment));
  }
  for (auto _ : state) {
    int ends[2];
    if (pipe(ends) != 0) return Fail(state, absl::InternalError("pipe"));
    const pid_t child = fork();
    if (child == 0) {
      const auto client = Attach();
      const auto segment = CreateNamed();
      if (!client.ok() || !segment.ok()) _exit(1);
      const std::string path = absl::StrCat("/dev/shm/", segment->name());
      if (write(ends[1], path.data(), path.size()) < 0) _exit(1);
      for (;;) pause();
    }
    close(ends[1]);
    char path[256] = {};
    const ssize_t got = read(ends[0], path, sizeof(path) - 1);
    close(ends[0]);
    const Clock::time_point begin = Clock::now();
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    if (got <= 0) return Fail(state, absl::InternalError("the client failed"));
    struct stat file;
    while (stat(path, &file) == 0) usleep(50);
    state.SetIterationTime(Seconds(Clock::now() - begin));
  }
}
BENCHMARK(BM_KilledUntilRemoved)
    ->Arg(1)
    ->Arg(1000)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tenon
