// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The other process of wire_test.cc, and its loader's worker: joins what its
// descriptors from 3 on are, uses it, and prints how that went.
//
//   wire_peer channel|queue|arena

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/child/init.h"

namespace tenon {
namespace {

constexpr int kFirstFd = 3;

Deadline Soon() { return Deadline::After(absl::Seconds(60)); }

// Its item i is i.
class WireNumbers final : public loader::Dataset {
 public:
  explicit WireNumbers(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  loader::SampleSpec spec() const override {
    return loader::SampleSpec().Add<int64_t>("value");
  }
  absl::Status Get(int64_t index, loader::SampleRandom& /*random*/,
                   loader::Sample& sample) override {
    return sample.Set("value", index);
  }

 private:
  const int64_t size_;
};
TENON_LOADER_DATASET(WireNumbers(int64_t));

absl::Status UseChannel() {
  TENON_ASSIGN_OR_RETURN(Channel channel, Channel::Adopt(UniqueFd(kFirstFd)));
  TENON_ASSIGN_OR_RETURN(const Message message, channel.Receive(Soon()));
  return channel.Send(message.bytes, {}, Soon());
}

// Of the file that is the first descriptor.
std::string BytesOfHandle() {
  const UniqueFd file(kFirstFd);
  std::string bytes(4096, '\0');
  const ssize_t size = pread(file.get(), bytes.data(), bytes.size(), 0);
  bytes.resize(size < 0 ? 0 : static_cast<size_t>(size));
  return bytes;
}

std::vector<UniqueFd> FdsOfHandle() {
  std::vector<UniqueFd> fds;
  struct stat file;
  for (int fd = kFirstFd + 1; fstat(fd, &file) == 0; ++fd) fds.emplace_back(fd);
  return fds;
}

absl::Status UseQueue() {
  QueueHandle handle = {.bytes = BytesOfHandle(), .fds = FdsOfHandle()};
  TENON_ASSIGN_OR_RETURN(auto queue, Queue<uint64_t>::Open(std::move(handle)));
  TENON_ASSIGN_OR_RETURN(const uint64_t number, queue.Get(Soon()));
  return queue.Put(number + 1, Soon());
}

absl::Status UseArena() {
  std::vector<UniqueFd> fds = FdsOfHandle();
  return AttachedArena::Attach(BytesOfHandle(), std::move(fds)).status();
}

absl::Status Use(absl::string_view what) {
  if (what == "channel") return UseChannel();
  if (what == "queue") return UseQueue();
  if (what == "arena") return UseArena();
  return absl::InvalidArgumentError("want channel, queue or arena");
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  tenon::spawn::Init(argc, argv);  // As a worker it does not return.
  const absl::Status status = tenon::Use(argc == 2 ? argv[1] : "");
  std::printf("%s", status.ToString().c_str());
  return 0;
}
