// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Fuzz target of TensorImporter: a handle's bytes are a peer's. The result is a
// tensor inside the storage that the kernel reports, or an error that leaves no
// descriptor open.
//
// An input is a byte of flags and a handle (384 bytes); missing bytes are 0.
// The flags select fields to be corrected, so that later checks are reached: 1:
// the magic number and the version; 2: the identity; 4: the size; and 8: that
// the descriptor comes along.
//
// As a test it replays testdata/tensor_importer_fuzz and mutations of it. As a
// fuzzer: clang++ -std=c++20 -DTENON_FUZZ -fsanitize=fuzzer,address,undefined,
// with the sources of //shm/tensor/exchange:tensor_importer and its
// dependencies.

#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/exchange/tensor_importer.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

#ifndef TENON_FUZZ
#include "gtest/gtest.h"
#include "tenon/shm/testing/fuzz_testing.h"
#endif

namespace tenon {
namespace {

constexpr size_t kStorageBytes = 4096;

struct Input {
  uint8_t flags = 0;
  char handle[sizeof(TensorHandle)] = {};
};
static_assert(sizeof(Input) == 1 + sizeof(TensorHandle));

int Duplicate(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 0); }

// The number of the next descriptor: unchanged if none leaked.
int NextFd() { return UniqueFd(Duplicate(0)).get(); }

// The storage of an honest peer, of which every byte is the same.
const Tensor& Honest() {
  static const Tensor& tensor = *[] {
    auto* const made = new Tensor(
        Tensor::CreateShared(
            kDtypeOf<uint8_t>, {kStorageBytes},
            {.segment = {.strategy = SharingStrategy::kFileDescriptor}})
            .value());
    TENON_CHECK(made->Fill(uint8_t{0x5a}).ok(), "cannot fill a tensor");
    return made;
  }();
  return tensor;
}

TensorHandle HandleOf(const Input& in) {
  const TensorHandle honest = Export(Honest()).value().handle;
  TensorHandle handle =
      TensorHandle::Parse({in.handle, sizeof(in.handle)}).value();
  if (in.flags & 1) {
    handle.magic = honest.magic;
    handle.version = honest.version;
  }
  if (in.flags & 2) handle.id = honest.id;
  if (in.flags & 4) handle.storage_bytes = honest.storage_bytes;
  return handle;
}

void CheckEnds(const Tensor& tensor) {
  if (tensor.spec().elements() == 0) return;
  for (const int64_t end : {0, -1}) {
    const std::vector<int64_t> index(tensor.spec().rank(), end);
    const auto element = tensor.at<const std::byte>(index);
    TENON_CHECK(element.ok(), "an element is not there");
    const auto size = static_cast<size_t>(tensor.spec().element_bytes());
    TENON_CHECK(std::all_of(*element, *element + size,
                            [](std::byte b) { return b == std::byte{0x5a}; }),
                "an element is not in the storage");
  }
}

void CheckImported(const Tensor& tensor, const TensorHandle& handle) {
  const Storage& storage = *tensor.storage();
  TENON_CHECK(tensor.is_shared(), "a private tensor came out");
  TENON_CHECK(storage.id() ? storage.id() == Honest().storage()->id() &&
                                 storage.size_bytes() == kStorageBytes
                           : storage.size_bytes() == 0,
              "a storage came out that nobody has sent");
  TENON_CHECK(tensor.spec() == handle.spec, "another tensor came out");
  CheckEnds(tensor);
  const absl::StatusOr<Tensor> row = tensor.Select(0, -1);
  if (row.ok()) CheckEnds(*row);
}

void FuzzOne(const Input& in) {
  const TensorHandle handle = HandleOf(in);
  const int next_fd = NextFd();
  {
    UniqueFd fd;
    if (in.flags & 8) fd.Reset(Duplicate(Honest().storage()->fd()));
    TensorImporter importer;
    const absl::StatusOr<Tensor> tensor =
        importer.Import(handle, std::move(fd));
    if (tensor.ok()) {
      CheckImported(*tensor, handle);
    } else {
      TENON_CHECK(!tensor.status().message().empty(), "an error is silent");
      TENON_CHECK(importer.CountStorages() == 0, "a storage is left");
    }
  }
  TENON_CHECK(NextFd() == next_fd, "a descriptor was left open");
}

}  // namespace
}  // namespace tenon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tenon::Input in;
  if (size > 0) std::memcpy(&in, data, std::min(size, sizeof(in)));
  tenon::Honest();
  tenon::FuzzOne(in);
  return 0;
}

#ifndef TENON_FUZZ

namespace tenon {
namespace {

TEST(TensorImporterFuzzTest, CorpusAndItsMutations) {
  ReplayCorpus(LLVMFuzzerTestOneInput,
               "shm/tensor/exchange/testdata/tensor_importer_fuzz",
               {.mutations = 100'000});
}

}  // namespace
}  // namespace tenon

#endif  // TENON_FUZZ
