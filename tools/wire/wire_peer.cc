// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The other process of wire_test.cc, its child, and its loader's worker: joins
// the object of its descriptors from 3 on, uses it, and prints the status.
//
//   wire_peer channel|ring|queue|tensor_queue|device_tensor|arena
//   wire_peer names SOCKET

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
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_reader.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm_manager/manager_client.h"
#include "tenon/spawn/child/function.h"
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

absl::Status UseTensorQueue() {
  QueueHandle handle = {.bytes = BytesOfHandle(), .fds = FdsOfHandle()};
  TENON_ASSIGN_OR_RETURN(auto queue, TensorQueue::Open(std::move(handle)));
  TENON_ASSIGN_OR_RETURN(const Tensor tensor, queue->GetTensor(Soon()));
  TENON_ASSIGN_OR_RETURN(const float* first, tensor.at<const float>({0}));
  return queue->Put(TensorMessage().Add(*first + 1), Soon());
}

// Of a CUDA tensor, by the driver of $TENON_LIBCUDA.
absl::Status UseDeviceTensor() {
  QueueHandle handle = {.bytes = BytesOfHandle(), .fds = FdsOfHandle()};
  TENON_ASSIGN_OR_RETURN(auto queue, TensorQueue::Open(std::move(handle)));
  TENON_ASSIGN_OR_RETURN(const Tensor there, queue->GetTensor(Soon()));
  TENON_ASSIGN_OR_RETURN(const Tensor here, there.ToCpu());
  TENON_ASSIGN_OR_RETURN(const int64_t* first, here.at<const int64_t>({0}));
  return queue->Put(TensorMessage().Add(*first + 1), Soon());
}

absl::Status UseRing() {
  TENON_ASSIGN_OR_RETURN(
      RingOffer offer, RingOffer::FromMessage(BytesOfHandle(), FdsOfHandle()));
  return RingReader::Attach(std::move(offer)).status();
}

absl::Status UseArena() {
  std::vector<UniqueFd> fds = FdsOfHandle();
  return AttachedArena::Attach(BytesOfHandle(), std::move(fds)).status();
}

absl::Status AttachToNames(const std::string& socket) {
  return ManagerClient::Attach({.path = socket}, Soon()).status();
}

absl::Status Use(absl::string_view what, const std::string& socket) {
  if (what == "channel") return UseChannel();
  if (what == "queue") return UseQueue();
  if (what == "ring") return UseRing();
  if (what == "tensor_queue") return UseTensorQueue();
  if (what == "device_tensor") return UseDeviceTensor();
  if (what == "arena") return UseArena();
  if (what == "names") return AttachToNames(socket);
  return absl::InvalidArgumentError(
      "want channel, ring, queue, tensor_queue, device_tensor, arena or names");
}

absl::Status Live(int /*index*/) { return absl::OkStatus(); }
TENON_SPAWN_FUNCTION(Live);

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  tenon::spawn::Init(argc, argv);  // As a worker it does not return.
  const absl::Status status =
      tenon::Use(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
  std::printf("%s", status.ToString().c_str());
  return 0;
}
