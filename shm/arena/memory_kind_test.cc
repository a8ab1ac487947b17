// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Kinds of memory as a library of another memory has them, in forked children:
// a kind is registered for good.

#include "tenon/shm/arena/memory_kind.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/arena_testing.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/block_store.h"
#include "tenon/shm/arena/file_identity.h"
#include "tenon/shm/arena/internal/mapped_memory.h"
#include "tenon/shm/arena/memory_kind_id.h"
#include "tenon/shm/arena/stored_segment.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr MemoryKindId kDeviceKind = MemoryKindId{14};
constexpr DeviceIdentity kFirstDevice = {1};
constexpr size_t kKindBytes = 4096;

// Memory of a device, as far as arenas see it: mapped segments.
class DeviceMemory final : public StoredSegment {
 public:
  DeviceMemory(std::unique_ptr<StoredSegment> memory, bool is_other, int& maps)
      : StoredSegment(memory->size_bytes()),
        memory_(std::move(memory)),
        is_other_(is_other),
        maps_(maps) {}

  int fd() const override { return memory_->fd(); }
  absl::StatusOr<FileIdentity> Identify() const override {
    if (is_other_) return FileIdentity{1, 1};
    return memory_->Identify();
  }
  absl::Status Map() override {
    ++maps_;
    absl::Status mapped = memory_->Map();
    set_data(memory_->data());
    return mapped;
  }

 private:
  const std::unique_ptr<StoredSegment> memory_;
  const bool is_other_;
  int& maps_;
};

class DeviceKind final : public MemoryKind {
 public:
  DeviceKind() : MemoryKind(kDeviceKind) {}

  absl::StatusOr<DLDevice> DeviceOf(
      const DeviceIdentity& identity) const override {
    if (identity == kFirstDevice) return DLDevice{kDLCUDA, 3};
    return absl::FailedPreconditionError("this process has no such device");
  }
  absl::StatusOr<std::unique_ptr<StoredSegment>> Open(
      OfferedSegment offered) const override {
    seen_bytes = offered.bytes;
    seen_writable = offered.writable;
    seen_identity = offered.identity;
    const MappedKind mapped;
    TENON_ASSIGN_OR_RETURN(std::unique_ptr<StoredSegment> memory,
                           mapped.Open(std::move(offered)));
    return std::make_unique<DeviceMemory>(std::move(memory), is_other, maps);
  }

  bool is_other = false;
  mutable int maps = 0;
  mutable uint64_t seen_bytes = 0;
  mutable bool seen_writable = false;
  mutable DeviceIdentity seen_identity = {};
};

// An arena of that kind, with a block and its offer.
struct KindArena {
  explicit KindArena(MemoryKindId kind,
                     const DeviceIdentity& identity = kFirstDevice,
                     SegmentKind access = SegmentKind::kOwnerWritten) {
    const ArenaOptions options = {
        .name = "frames",
        .segment = {.strategy = SharingStrategy::kFileDescriptor},
        .kind = access,
        .max_blocks = 8192,
        .segment_bytes = 4 * kKindBytes};
    arena =
        Arena::Create(options,
                      std::make_unique<MappedStore>(
                          options, BlockStore::Facts{.kind = kind,
                                                     .identity = identity,
                                                     .device = {kDLCUDA, 0}}))
            .value();
    block = arena->TryAllocate(kKindBytes).value();
    offer = arena->Offer(block).value();
  }

  std::shared_ptr<Arena> arena;
  Block block;
  ArenaOffer offer;
};

TEST(MemoryKindTest, AnArenaOfAKindThatTheProgramLacksIsRefused) {
  const KindArena cuda(MemoryKindId::kCuda);
  const auto is_refused =
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("arena 'frames' is of kind 1 (CUDA)"),
                     HasSubstr("link //cuda_ipc:device_pool")));
  const size_t fds = CountOpenFds();
  EXPECT_THAT(AttachTo(cuda.offer), is_refused);
  ArenaTensorImporter importer;
  EXPECT_THAT(importer.Accept(cuda.offer.bytes, Travel(cuda.offer.fds)),
              is_refused);
  EXPECT_EQ(CountOpenFds(), fds);
  // One of a later version, and any number of a hostile owner.
  for (const uint64_t number : {uint64_t{13}, uint64_t{16}, UINT64_MAX}) {
    EXPECT_THAT(AttachTo(KindArena(MemoryKindId{number}).offer),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr(absl::StrCat("kind ", number, ","))));
  }
}

TEST(MemoryKindTest, IsRegisteredOnce) {
  EXPECT_TRUE(PassesInChild([] {
    const DeviceKind kind;
    EXPECT_THAT(RegisterMemoryKind(kind), IsOk());
    EXPECT_THAT(RegisterMemoryKind(kind), IsOk());
    EXPECT_THAT(FindMemoryKind(kDeviceKind, "frames"), IsOkAndHolds(&kind));
    const DeviceKind other;
    EXPECT_THAT(RegisterMemoryKind(other),
                StatusIs(absl::StatusCode::kAlreadyExists,
                         HasSubstr("kind 14 is registered")));
    for (const auto id :
         {MemoryKindId::kCpu, MemoryKindId{16}, MemoryKindId{UINT64_MAX}}) {
      EXPECT_THAT(RegisterMemoryKind(MappedKind(id)),
                  StatusIs(absl::StatusCode::kInvalidArgument));
    }
  }));
}

TEST(MemoryKindTest, OpensTheSegmentsOfItsArenas) {
  EXPECT_TRUE(PassesInChild([] {
    const DeviceKind kind;
    ASSERT_THAT(RegisterMemoryKind(kind), IsOk());
    KindArena owner(kDeviceKind);
    TENON_ASSERT_OK_AND_ASSIGN(const auto attached, AttachTo(owner.offer));
    EXPECT_EQ(kind.seen_bytes, 4 * kKindBytes);
    EXPECT_EQ(kind.seen_identity, kFirstDevice);
    EXPECT_FALSE(kind.seen_writable);
    EXPECT_EQ(kind.maps, 1);

    TENON_ASSERT_OK_AND_ASSIGN(BlockDescriptor message,
                               owner.block.Describe(100, 200));
    TENON_ASSERT_OK_AND_ASSIGN(Hold hold, attached->Claim(message));
    // The device's address: the CPU gets none.
    EXPECT_EQ(hold.data(), nullptr);
    EXPECT_TRUE(hold.bytes().empty());
    EXPECT_EQ(hold.size(), 200u);
    TENON_ASSERT_OK_AND_ASSIGN(message, owner.block.Describe());
    TENON_ASSERT_OK_AND_ASSIGN(const Hold whole, attached->Claim(message));
    EXPECT_NE(whole.address(), 0u);
    EXPECT_EQ(hold.address(), whole.address() + 100);
    hold.Reset();
    EXPECT_EQ(hold.address(), 0u);

    // Forwarded, and of a device that may be written.
    TENON_ASSERT_OK_AND_ASSIGN(const auto forwarded,
                               attached->Offer(message.segment));
    EXPECT_THAT(AttachTo(forwarded), IsOk());
    const KindArena shared(kDeviceKind, kFirstDevice,
                           SegmentKind::kSharedWritable);
    TENON_ASSERT_OK_AND_ASSIGN(const auto writer, AttachTo(shared.offer));
    EXPECT_TRUE(kind.seen_writable);
    TENON_ASSERT_OK_AND_ASSIGN(message, shared.block.Describe());
    TENON_ASSERT_OK_AND_ASSIGN(const Hold writable, writer->Claim(message));
    EXPECT_THAT(writable.mutable_data(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("memory of a device")));
  }));
}

TEST(MemoryKindTest, TensorsAreOnTheDeviceAsEachProcessNamesIt) {
  EXPECT_TRUE(PassesInChild([] {
    const DeviceKind kind;
    ASSERT_THAT(RegisterMemoryKind(kind), IsOk());
    const KindArena owner(kDeviceKind);
    TENON_ASSERT_OK_AND_ASSIGN(
        const Tensor sent,
        CreateTensor(*owner.arena, kDtypeOf<float>, {10}, Deadline::Passed()));
    EXPECT_TRUE(SameDevice(sent.device(), {kDLCUDA, 0}));
    EXPECT_THAT(
        sent.data<float>(),
        StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("cuda:0")));
    ArenaTensorImporter importer;
    TENON_ASSERT_OK_AND_ASSIGN(const auto offer, Offer(sent));
    ASSERT_THAT(importer.Accept(offer.bytes, Travel(offer.fds)), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const auto handle, Describe(sent));
    for (int i = 0; i < 2; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor got, importer.Claim(handle));
      EXPECT_TRUE(SameDevice(got.device(), {kDLCUDA, 3}));
      EXPECT_THAT(
          got.data<const float>(),
          StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("cuda:3")));
      TENON_ASSERT_OK_AND_ASSIGN(const auto forwarded, Describe(got));
      EXPECT_EQ(forwarded.block, handle.block);
      EXPECT_THAT(Offer(got), IsOk());
    }
  }));
}

TEST(MemoryKindTest, ADeviceThatTheProcessLacksIsAnError) {
  EXPECT_TRUE(PassesInChild([] {
    const DeviceKind kind;
    ASSERT_THAT(RegisterMemoryKind(kind), IsOk());
    EXPECT_THAT(AttachTo(KindArena(kDeviceKind, {2}).offer),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("no such device")));
    EXPECT_EQ(kind.maps, 0);
  }));
}

TEST(MemoryKindTest, OtherMemoryThanTheListedOneIsNotMapped) {
  EXPECT_TRUE(PassesInChild([] {
    DeviceKind kind;
    kind.is_other = true;
    ASSERT_THAT(RegisterMemoryKind(kind), IsOk());
    KindArena owner(kDeviceKind);
    EXPECT_THAT(AttachTo(owner.offer),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("its memory is not that of segment")));
    kind.is_other = false;
    EXPECT_THAT(
        AttachedArena::Attach(owner.offer.bytes, Travel(owner.offer.fds),
                              {.max_bytes = 4 * kKindBytes - 1}),
        StatusIs(absl::StatusCode::kResourceExhausted));
    EXPECT_EQ(kind.maps, 0);
    EXPECT_THAT(AttachTo(owner.offer), IsOk());
  }));
}

}  // namespace
}  // namespace tenon
