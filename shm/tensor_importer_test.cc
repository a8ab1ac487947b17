// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor_importer.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/dtype.h"
#include "tenon/shm/process_testing.h"
#include "tenon/shm/segment.h"
#include "tenon/shm/sharing_strategy.h"
#include "tenon/shm/status_matchers.h"
#include "tenon/shm/storage.h"
#include "tenon/shm/tensor.h"
#include "tenon/shm/tensor_handle.h"
#include "tenon/shm/tensor_spec.h"
#include "tenon/shm/unique_fd.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr DLDataType kInt = kDtypeOf<int32_t>;

// What a channel would deliver: the handle's bytes, and a descriptor of its
// own.
struct Delivery {
  TensorHandle handle;
  UniqueFd fd;
};

Delivery Deliver(const ExportedTensor& exported) {
  Delivery delivery = {
      .handle = TensorHandle::Parse(exported.handle.AsBytes()).value(),
      .fd = UniqueFd()};
  for (const int fd : exported.fds()) {
    delivery.fd.Reset(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  return delivery;
}

absl::StatusOr<Tensor> Send(const Tensor& tensor, TensorImporter& importer) {
  Delivery delivery = Deliver(Export(tensor).value());
  return importer.Import(delivery.handle, std::move(delivery.fd));
}

struct Case {
  SegmentKind kind;
  SharingStrategy strategy;
};

class TensorImporterTest : public testing::TestWithParam<Case> {
 protected:
  // 0, 1, 2, ... in a segment.
  Tensor Counting(absl::Span<const int64_t> shape) {
    Tensor tensor =
        Tensor::CreateShared(kInt, shape,
                             {.kind = GetParam().kind,
                              .segment = {.strategy = GetParam().strategy,
                                          .name_prefix = prefix_}})
            .value();
    const auto elements = tensor.data<int32_t>().value();
    std::iota(elements.begin(), elements.end(), 0);
    return tensor;
  }

  bool by_name() const {
    return GetParam().strategy == SharingStrategy::kFileSystem;
  }
  bool owner_written() const {
    return GetParam().kind == SegmentKind::kOwnerWritten;
  }

  const std::string prefix_ = UniqueTestPrefix();
};

// ---- What should happen ----

TEST_P(TensorImporterTest, ArrivesInAnotherProcess) {
  const Tensor tensor = Counting({3, 4});
  const ExportedTensor exported =
      Export(tensor.Transpose(0, 1).value()).value();
  EXPECT_EQ(exported.fd >= 0, !by_name());
  EXPECT_TRUE(PassesInChild([&] {
    // The child has nothing but the bytes and a descriptor.
    Delivery delivery = Deliver(exported);
    TensorImporter importer;
    const auto received =
        importer.Import(delivery.handle, std::move(delivery.fd));
    ASSERT_THAT(received, IsOk());
    EXPECT_EQ(received->spec().ToString(), "int32[4, 3] with strides [1, 4]");
    EXPECT_EQ(*received->at<const int32_t>({3, 2}).value(), 11);
    EXPECT_EQ(received->writable(), !owner_written());
    if (owner_written()) {
      EXPECT_THAT(received->at<int32_t>({0, 0}),
                  StatusIs(absl::StatusCode::kFailedPrecondition));
    } else {
      *received->at<int32_t>({0, 0}).value() = 100;
    }
  }));
  EXPECT_EQ(*tensor.at<const int32_t>({0, 0}).value(),
            owner_written() ? 0 : 100);
}

TEST_P(TensorImporterTest, ViewsSentSeparatelyAreOfOneStorage) {
  const Tensor tensor = Counting({4, 5});
  TensorImporter importer;
  const size_t fds = CountOpenFds();
  const auto rows = Send(tensor.Slice(0, {.start = 2}).value(), importer);
  ASSERT_THAT(rows, IsOk());
  const auto column = Send(tensor.Select(1, 4).value(), importer);
  ASSERT_THAT(column, IsOk());
  EXPECT_EQ(rows->storage(), column->storage());
  EXPECT_NE(rows->storage(), tensor.storage());
  EXPECT_EQ(importer.CountStorages(), 1u);
  // One descriptor, and none for a name.
  EXPECT_TRUE(
      Becomes([&] { return CountOpenFds() <= fds + (by_name() ? 0 : 1); }));
  *tensor.at<int32_t>({3, 4}).value() = -7;
  EXPECT_EQ(*rows->at<const int32_t>({1, 4}).value(), -7);
  EXPECT_EQ(rows->at<const int32_t>({1, 4}).value(),
            column->at<const int32_t>({3}).value());
}

TEST_P(TensorImporterTest, MayBePassedOn) {
  const Tensor tensor = Counting({6});
  TensorImporter second;
  const auto b = Send(tensor, second);
  ASSERT_THAT(b, IsOk());
  TensorImporter third;
  const auto c = Send(b->Slice(0, {.start = 4}).value(), third);
  ASSERT_THAT(c, IsOk());
  EXPECT_EQ(c->storage()->id(), tensor.storage()->id());
  EXPECT_THAT(c->data<const int32_t>().value(), ElementsAre(4, 5));
}

TEST_P(TensorImporterTest, StoragesThatDiedAreForgotten) {
  const Tensor tensor = Counting({4});
  TensorImporter importer;
  const size_t fds = CountOpenFds();
  for (int i = 0; i < 3; ++i) {
    const auto received = Send(tensor, importer);
    ASSERT_THAT(received, IsOk());
    EXPECT_EQ(importer.CountStorages(), 1u);
  }
  EXPECT_EQ(importer.CountStorages(), 0u);
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
}

TEST_P(TensorImporterTest, WhatComesBackIsWhatWasSent) {
  const Tensor tensor = Counting({6});
  TensorImporter importer;
  importer.Recognize(tensor);
  importer.Recognize(tensor.Select(0, 0).value());
  EXPECT_EQ(importer.CountStorages(), 1u);
  TensorImporter peer;
  const Tensor there = Send(tensor, peer).value();
  const auto back = Send(there.Slice(0, {.start = 3}).value(), importer);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->storage(), tensor.storage());
  EXPECT_TRUE(back->writable());
}

TEST_P(TensorImporterTest, WithoutElementsNothingIsSentAlong) {
  const auto tensor = Tensor::CreateShared(
      kInt, {0, 3},
      {.kind = GetParam().kind, .segment = {.strategy = GetParam().strategy}});
  ASSERT_THAT(tensor, IsOk());
  const ExportedTensor exported = Export(*tensor).value();
  EXPECT_THAT(exported.fds(), IsEmpty());
  TensorImporter importer;
  const auto received = Send(*tensor, importer);
  ASSERT_THAT(received, IsOk());
  EXPECT_EQ(received->spec().ToString(), "int32[0, 3]");
  EXPECT_TRUE(received->is_shared());
  EXPECT_THAT(Send(*received, importer), IsOk());
}

TEST_P(TensorImporterTest, OfAStorageWithElementsAViewMayHaveNone) {
  const Tensor tensor = Counting({4});
  TensorImporter importer;
  const auto received = Send(tensor.Slice(0, {.start = 4}).value(), importer);
  ASSERT_THAT(received, IsOk());
  EXPECT_EQ(received->spec().elements(), 0);
}

// The sender's tensor may be gone on arrival if a descriptor was sent.
TEST_P(TensorImporterTest, WhatKeepsItAliveOnTheWay) {
  Tensor tensor = Counting({4});
  Delivery delivery = Deliver(Export(tensor).value());
  tensor = Tensor();
  TensorImporter importer;
  const auto received =
      importer.Import(delivery.handle, std::move(delivery.fd));
  if (by_name()) {
    EXPECT_THAT(received, StatusIs(absl::StatusCode::kNotFound));
  } else {
    ASSERT_THAT(received, IsOk());
    EXPECT_THAT(received->data<const int32_t>().value(),
                ElementsAre(0, 1, 2, 3));
  }
}

TEST_P(TensorImporterTest, ManyThreadsGetOneStorage) {
  const Tensor tensor = Counting({8, 8});
  TensorImporter importer;
  std::vector<Tensor> received(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < received.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 100; ++n) {
        const auto one = Send(tensor.Select(0, n % 8).value(), importer);
        ASSERT_THAT(one, IsOk());
        ASSERT_EQ(*one->at<const int32_t>({0}).value(), n % 8 * 8);
        if (n == 99) received[i] = *one;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& one : received) {
    EXPECT_EQ(one.storage(), received[0].storage());
  }
  EXPECT_EQ(importer.CountStorages(), 1u);
}

// ---- What a peer may send instead ----

// A handle that lies, with the descriptor that belongs to the honest one.
class HostileHandle : public TensorImporterTest {
 protected:
  HostileHandle() : honest_(Export(tensor_).value()) {}

  // What `lie` does to a handle is refused, and leaves nothing behind.
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
  EXPECT_THAT(TryField(&TensorHandle::magic, 0), Refused("it is none"));
  EXPECT_THAT(TryField(&TensorHandle::version, 2),
              Refused("version 2; this program knows 1"));
  for (const int number : {0, 3, 255}) {
    const std::string text = std::to_string(number);
    EXPECT_THAT(TryField(&TensorHandle::strategy,
                         static_cast<TensorHandle::Strategy>(number)),
                Refused("no strategy is " + text));
    EXPECT_THAT(
        TryField(&TensorHandle::kind, static_cast<TensorHandle::Kind>(number)),
        Refused("no kind of segment is " + text));
  }
}

TEST_P(HostileHandle, LiesAboutTheSize) {
  for (const uint64_t size :
       {uint64_t{48 + 1}, uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}}) {
    EXPECT_THAT(
        TryField(&TensorHandle::storage_bytes, size),
        Refused("said to have " + std::to_string(size) + " bytes, and has 48"));
  }
  // Smaller than the tensor, and nothing at all.
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
  // With a size that would make it right.
  EXPECT_THAT(Try([&](Delivery& d) {
                d.handle.spec = spec({4, 4}, 0);
                d.handle.storage_bytes = 64;
              }),
              Refused("said to have 64 bytes, and has 48"));
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

// What came is what the kernel says it is: naming another storage, be it one
// that the victim has, gets none.
TEST_P(HostileHandle, NamesAnotherStorage) {
  const Tensor other = Counting({4, 3});
  const ExportedTensor of_other = Export(other).value();
  TensorImporter importer;
  const Tensor known = Send(other, importer).value();
  Delivery delivery = Deliver(honest_);
  delivery.handle.id = of_other.handle.id;
  EXPECT_THAT(importer.Import(delivery.handle, std::move(delivery.fd)),
              Refused("but what came is segment"));
  EXPECT_THAT(Try([](Delivery& d) { d.handle.id.device = 0; }),
              Refused("segment 0:"));
  EXPECT_THAT(Try([](Delivery& d) { d.handle.id.inode = 1; }),
              Refused(":1, but"));
}

TEST_P(HostileHandle, ComesWithTheWrongDescriptor) {
  if (by_name()) {
    EXPECT_THAT(Try([](Delivery& d) { d.fd.Reset(dup(0)); }),
                Refused("that it has no use for"));
    return;
  }
  EXPECT_THAT(Try([](Delivery& d) { d.fd.Reset(); }),
              Refused("without a descriptor"));
  // Of what is no memory at all: asked for its seals, it has none.
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
              Refused("but what came is segment"));
}

TEST_P(HostileHandle, ClaimsAnotherKind) {
  const absl::Status status = TryField(&TensorHandle::kind, OtherKind());
  if (by_name()) {
    // A name has no seals that could tell.
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
    EXPECT_THAT(status, Refused("contradicts an earlier one"));
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
    EXPECT_THAT(with_name(std::string("\0x", 2)), Refused("end in zeros"));
    return;
  }
  EXPECT_THAT(with_name(std::string(208, 'x')), Refused("end in zeros"));
  EXPECT_THAT(with_name(std::string("x\0y", 3)), Refused("end in zeros"));
  EXPECT_THAT(with_name(""), Refused("it has no name"));
  for (const char* bad : {"../etc/passwd", "/x", ".hidden", "a/b", "a b"}) {
    EXPECT_THAT(with_name(bad), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(with_name(prefix_ + "-nobody"),
              StatusIs(absl::StatusCode::kNotFound));
}

// A named segment cannot be sealed: it may be smaller when it comes again.
TEST_P(HostileHandle, ShrankSinceTheLastOne) {
  if (!by_name()) return;
  TensorImporter importer;
  const Tensor known = Send(tensor_, importer).value();
  const UniqueFd fd(open(("/dev/shm/" + tensor_.storage()->name()).c_str(),
                         O_RDWR | O_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), 4), 0);
  Delivery delivery = Deliver(honest_);
  EXPECT_THAT(importer.Import(delivery.handle, UniqueFd()),
              Refused("said to have 48 bytes, and has 4"));
  delivery.handle.storage_bytes = 4;
  delivery.handle.spec = TensorSpec::Contiguous(kInt, {1}).value();
  EXPECT_THAT(importer.Import(delivery.handle, UniqueFd()),
              Refused("contradicts an earlier one"));
}

TEST_P(HostileHandle, HasBytesWithoutASegment) {
  const auto nothing = [](Delivery& d) {
    d.handle.storage_bytes = 0;
    d.handle.spec = TensorSpec();
  };
  // Then nothing else may come: no descriptor and no name.
  EXPECT_THAT(Try(nothing),
              Refused(by_name() ? "it has a name" : "that it has no use for"));
  EXPECT_THAT(Try([&](Delivery& d) {
                nothing(d);
                d.fd.Reset();
                std::memset(d.handle.name, 0, sizeof(d.handle.name));
              }),
              IsOk());
}

INSTANTIATE_TEST_SUITE_P(
    All, TensorImporterTest,
    testing::Values(
        Case{SegmentKind::kSharedWritable, SharingStrategy::kFileDescriptor},
        Case{SegmentKind::kSharedWritable, SharingStrategy::kFileSystem},
        Case{SegmentKind::kOwnerWritten, SharingStrategy::kFileDescriptor},
        Case{SegmentKind::kOwnerWritten, SharingStrategy::kFileSystem}));
INSTANTIATE_TEST_SUITE_P(
    All, HostileHandle,
    testing::Values(
        Case{SegmentKind::kSharedWritable, SharingStrategy::kFileDescriptor},
        Case{SegmentKind::kSharedWritable, SharingStrategy::kFileSystem},
        Case{SegmentKind::kOwnerWritten, SharingStrategy::kFileDescriptor},
        Case{SegmentKind::kOwnerWritten, SharingStrategy::kFileSystem}));

// Segments that the peer has not sealed, so that it could pull them away.
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
                         HasSubstr("missing F_SEAL_")))
        << seals;
  }
}

// ---- Limits ----

TEST(TensorImporterLimitsTest, OfStorages) {
  TensorImporter importer({.max_storages = 2});
  std::vector<Tensor> sent;
  std::vector<Tensor> received;
  for (int i = 0; i < 3; ++i) {
    sent.push_back(Tensor::CreateShared(kInt, {4}).value());
  }
  received.push_back(Send(sent[0], importer).value());
  received.push_back(Send(sent[1], importer).value());
  EXPECT_THAT(Send(sent[2], importer),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("2 of at most 2 storages")));
  // Those it has may come again, and one that goes makes room.
  EXPECT_THAT(Send(sent[1], importer), IsOk());
  received.pop_back();
  EXPECT_THAT(Send(sent[2], importer), IsOk());
}

TEST(TensorImporterLimitsTest, OfBytes) {
  TensorImporter importer({.max_bytes = 1000});
  const Tensor most = Tensor::CreateShared(kInt, {200}).value();
  const Tensor some = Tensor::CreateShared(kInt, {50}).value();
  const Tensor more = Tensor::CreateShared(kInt, {51}).value();
  const Tensor too_many = Tensor::CreateShared(kInt, {251}).value();
  EXPECT_THAT(Send(too_many, importer),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("at most 1000")));
  // Of a storage that is too large, a view that is not.
  EXPECT_THAT(Send(too_many.Select(0, 0).value(), importer),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("0 of at most 1000 bytes")));
  Tensor received = Send(most, importer).value();
  EXPECT_THAT(Send(more, importer),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("800 of at most 1000 bytes")));
  EXPECT_THAT(Send(some, importer), IsOk());
  received = Tensor();
  EXPECT_THAT(Send(more, importer), IsOk());
}

// More than it takes until the dead ones are looked for.
TEST(TensorImporterLimitsTest, ManyThatComeAndGo) {
  TensorImporter importer({.max_bytes = 400, .max_storages = 10});
  const size_t fds = CountOpenFds();
  for (int i = 0; i < 1000; ++i) {
    const Tensor tensor = Tensor::CreateShared(kInt, {10}).value();
    const auto received = Send(tensor, importer);
    ASSERT_THAT(received, IsOk());
  }
  EXPECT_EQ(importer.CountStorages(), 0u);
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
}

TEST(TensorImporterLimitsTest, RecognizedOnesDoNotCount) {
  TensorImporter importer({.max_storages = 1});
  std::vector<Tensor> own;
  for (int i = 0; i < 350; ++i) {
    own.push_back(Tensor::CreateShared(kInt, {1}).value());
    importer.Recognize(own.back());
    if (own.size() == 100) own.clear();
  }
  EXPECT_EQ(importer.CountStorages(), own.size());
  importer.Recognize(Tensor::Create(kInt, {1}).value());
  importer.Recognize(Tensor());
  EXPECT_EQ(importer.CountStorages(), own.size());
  EXPECT_THAT(Send(Tensor::CreateShared(kInt, {1}).value(), importer), IsOk());
  EXPECT_THAT(Send(own[0], importer), IsOk());
}

}  // namespace
}  // namespace tenon
