// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Messages of a hostile peer in place of a tensor.

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/exchange/tensor_importer.h"
#include "tenon/shm/tensor/exchange/tensor_importer_testing.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

// A forged handle, with the descriptor of the honest one.
class HostileHandle : public TensorImporterTest {
 protected:
  HostileHandle() : honest_(Export(tensor_).value()) {}

  // Passes a handle through `lie`; it is rejected, and leaves nothing behind.
  template <typename Lie>
  absl::Status Try(Lie lie) {
    TensorImporter importer;
    const size_t fds = CountOpenFds();
    Delivery delivery = Deliver(honest_);
    lie(delivery);
    const absl::Status status =
        importer.Import(delivery.handle, std::move(delivery.fd)).status();
    EXPECT_EQ(importer.CountStorages(), 0u);
    EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
    return status;
  }

  template <typename Field, typename Value>
  absl::Status TryField(Field TensorHandle::*field, Value value) {
    return Try([=](Delivery& d) { d.handle.*field = value; });
  }

  TensorHandle::Kind OtherKind() const {
    return owner_written() ? TensorHandle::Kind::kSharedWritable
                           : TensorHandle::Kind::kOwnerWritten;
  }

  Tensor tensor_ = Counting({4, 3});
  ExportedTensor honest_;
};

auto Refused(const std::string& why) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
}

TEST_P(HostileHandle, HonestIsTaken) {
  Delivery delivery = Deliver(honest_);
  TensorImporter importer;
  EXPECT_THAT(importer.Import(delivery.handle, std::move(delivery.fd)), IsOk());
}

TEST_P(HostileHandle, IsNone) {
  EXPECT_THAT(TryField(&TensorHandle::magic, 0), Refused("bad magic 0x0"));
  EXPECT_THAT(TryField(&TensorHandle::version, 2),
              Refused("version 2; this program has version 1"));
  for (const int number : {0, 3, 255}) {
    const std::string text = std::to_string(number);
    EXPECT_THAT(TryField(&TensorHandle::strategy,
                         static_cast<TensorHandle::Strategy>(number)),
                Refused("unknown strategy " + text));
    EXPECT_THAT(
        TryField(&TensorHandle::kind, static_cast<TensorHandle::Kind>(number)),
        Refused("unknown segment kind " + text));
  }
}

TEST_P(HostileHandle, LiesAboutTheSize) {
  for (const uint64_t size :
       {uint64_t{48 + 1}, uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}}) {
    EXPECT_THAT(TryField(&TensorHandle::storage_bytes, size),
                Refused("storage_bytes is " + std::to_string(size) +
                        "; the segment has 48"));
  }
  // Smaller than the tensor, and zero.
  EXPECT_THAT(TryField(&TensorHandle::storage_bytes, 47), Refused("47 bytes"));
  EXPECT_THAT(TryField(&TensorHandle::storage_bytes, 0), Refused(""));
}

TEST_P(HostileHandle, HasASpecThatLeavesTheStorage) {
  const auto spec = [](absl::Span<const int64_t> shape, uint64_t offset) {
    return TensorSpec::Contiguous(kInt, shape, offset).value();
  };
  EXPECT_THAT(TryField(&TensorHandle::spec, spec({4, 4}, 0)),
              Refused("in a storage of 48 bytes"));
  EXPECT_THAT(TryField(&TensorHandle::spec, spec({1}, 48)),
              Refused("in a storage of 48 bytes"));
  EXPECT_THAT(TryField(&TensorHandle::spec, spec({0}, 52)),
              Refused("behind a storage of 48 bytes"));
  // With a size that would make it valid.
  EXPECT_THAT(Try([&](Delivery& d) {
                d.handle.spec = spec({4, 4}, 0);
                d.handle.storage_bytes = 64;
              }),
              Refused("storage_bytes is 64; the segment has 48"));
  EXPECT_THAT(Try([](Delivery& d) {
                std::memset(static_cast<void*>(&d.handle.spec), 0xff,
                            sizeof(d.handle.spec));
              }),
              Refused("rank -1"));
}

// A byte can be the storage of any number of elements.
TEST_P(HostileHandle, HasMoreElementsThanAnybodyCouldWalk) {
  const TensorSpec spec =
      TensorSpec::Strided(kInt, {int64_t{1} << 60}, {0}).value();
  EXPECT_THAT(TryField(&TensorHandle::spec, spec),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("this importer takes at most")));
}

// The kernel identifies the received segment: naming another storage, even one
// of the victim, does not give access to it.
TEST_P(HostileHandle, NamesAnotherStorage) {
  const Tensor other = Counting({4, 3});
  const ExportedTensor of_other = Export(other).value();
  TensorImporter importer;
  const Tensor known = Send(other, importer).value();
  Delivery delivery = Deliver(honest_);
  delivery.handle.id = of_other.handle.id;
  EXPECT_THAT(importer.Import(delivery.handle, std::move(delivery.fd)),
              Refused("but the received segment is"));
  EXPECT_THAT(Try([](Delivery& d) { d.handle.id.device = 0; }),
              Refused("segment 0:"));
  EXPECT_THAT(Try([](Delivery& d) { d.handle.id.inode = 1; }),
              Refused(":1, but"));
}

TEST_P(HostileHandle, ComesWithTheWrongDescriptor) {
  if (by_name()) {
    EXPECT_THAT(Try([](Delivery& d) { d.fd.Reset(dup(0)); }),
                Refused("with an unexpected descriptor"));
    return;
  }
  EXPECT_THAT(Try([](Delivery& d) { d.fd.Reset(); }),
              Refused("without a descriptor"));
  // Descriptors that are not memory have no seals.
  std::vector<UniqueFd> others;
  others.emplace_back(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  others.emplace_back(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  others.emplace_back(open("/dev/zero", O_RDWR | O_CLOEXEC));
  others.emplace_back(open("/", O_RDONLY | O_CLOEXEC));
  others.emplace_back(eventfd(0, EFD_CLOEXEC));
  others.emplace_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (const UniqueFd& other : others) {
    ASSERT_TRUE(other.valid());
    EXPECT_THAT(
        Try([&](Delivery& d) {
          d.fd.Reset(fcntl(other.get(), F_DUPFD_CLOEXEC, 0));
        }),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not memory")));
  }
}

TEST_P(HostileHandle, ComesWithASegmentOfAnotherTensor) {
  if (by_name()) return;
  const Tensor other = Counting({4, 3});
  EXPECT_THAT(Try([&](Delivery& d) {
                d.fd.Reset(fcntl(other.storage()->fd(), F_DUPFD_CLOEXEC, 0));
              }),
              Refused("but the received segment is"));
}

TEST_P(HostileHandle, ClaimsAnotherKind) {
  const absl::Status status = TryField(&TensorHandle::kind, OtherKind());
  if (by_name()) {
    // A name has no seals by which to detect it.
    EXPECT_THAT(status, IsOk());
  } else if (owner_written()) {
    // It cannot be mapped for writing.
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kPermissionDenied));
  } else {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("F_SEAL_FUTURE_WRITE")));
  }
}

TEST_P(HostileHandle, ContradictsAnEarlierOne) {
  TensorImporter importer;
  const Tensor known = Send(tensor_, importer).value();
  Delivery delivery = Deliver(honest_);
  delivery.handle.kind = OtherKind();
  const auto status =
      importer.Import(delivery.handle, std::move(delivery.fd)).status();
  if (owner_written() || by_name()) {
    EXPECT_THAT(status, Refused("differs from an earlier handle"));
  } else {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition));
  }
  EXPECT_EQ(importer.CountStorages(), 1u);
}

TEST_P(HostileHandle, ClaimsTheOtherStrategy) {
  EXPECT_THAT(TryField(&TensorHandle::strategy,
                       by_name() ? TensorHandle::Strategy::kFileDescriptor
                                 : TensorHandle::Strategy::kFileSystem),
              Refused(by_name() ? "it has a name" : "it has no name"));
}

TEST_P(HostileHandle, HasABadName) {
  const auto with_name = [&](const std::string& name) {
    return Try([&](Delivery& d) {
      if (by_name()) std::memset(d.handle.name, 0, sizeof(d.handle.name));
      name.copy(d.handle.name, sizeof(d.handle.name));
    });
  };
  if (!by_name()) {
    EXPECT_THAT(with_name("x"), Refused("it has a name"));
    EXPECT_THAT(with_name(std::string("\0x", 2)),
                Refused("not padded with zeros"));
    return;
  }
  EXPECT_THAT(with_name(std::string(208, 'x')),
              Refused("not padded with zeros"));
  EXPECT_THAT(with_name(std::string("x\0y", 3)),
              Refused("not padded with zeros"));
  EXPECT_THAT(with_name(""), Refused("it has no name"));
  for (const char* bad : {"../etc/passwd", "/x", ".hidden", "a/b", "a b"}) {
    EXPECT_THAT(with_name(bad), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(with_name(prefix_ + "-nobody"),
              StatusIs(absl::StatusCode::kNotFound));
}

// A named segment cannot be sealed: it may be smaller when it is received
// again.
TEST_P(HostileHandle, ShrankSinceTheLastOne) {
  if (!by_name()) return;
  TensorImporter importer;
  const Tensor known = Send(tensor_, importer).value();
  const UniqueFd fd(open(("/dev/shm/" + tensor_.storage()->name()).c_str(),
                         O_RDWR | O_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), 4), 0);
  Delivery delivery = Deliver(honest_);
  EXPECT_THAT(importer.Import(delivery.handle, UniqueFd()),
              Refused("storage_bytes is 48; the segment has 4"));
  delivery.handle.storage_bytes = 4;
  delivery.handle.spec = TensorSpec::Contiguous(kInt, {1}).value();
  EXPECT_THAT(importer.Import(delivery.handle, UniqueFd()),
              Refused("differs from an earlier handle"));
}

TEST_P(HostileHandle, HasBytesWithoutASegment) {
  const auto nothing = [](Delivery& d) {
    d.handle.storage_bytes = 0;
    d.handle.spec = TensorSpec();
  };
  // Then nothing else may be sent: no descriptor and no name.
  EXPECT_THAT(
      Try(nothing),
      Refused(by_name() ? "it has a name" : "with an unexpected descriptor"));
  EXPECT_THAT(Try([&](Delivery& d) {
                nothing(d);
                d.fd.Reset();
                std::memset(d.handle.name, 0, sizeof(d.handle.name));
              }),
              IsOk());
}

INSTANTIATE_TEST_SUITE_P(All, HostileHandle, AllImporterCases());

// Segments that the peer has not sealed, so that it could truncate them.
TEST(HostileSegmentTest, UnsealedIsRefused) {
  for (const int seals : {0, F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_GROW,
                          F_SEAL_SEAL, F_SEAL_SEAL | F_SEAL_GROW}) {
    UniqueFd fd(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(fd.get(), 48), 0);
    if (seals != 0) {
      ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    }
    const Tensor honest = Tensor::CreateShared(kInt, {12}).value();
    TensorHandle handle = Export(honest).value().handle;
    handle.id = Storage::Identify(fd.get(), "hostile").value();
    TensorImporter importer;
    EXPECT_THAT(importer.Import(handle, std::move(fd)),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("lacks required seals: F_SEAL_")))
        << seals;
  }
}

}  // namespace
}  // namespace tenon
