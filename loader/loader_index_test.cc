// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A large index of a dataset, in sealed memory that all workers map.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <numeric>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/sealed_tensor.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/shm_arguments.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A descriptor of this process for the file, or -1.
int FdOfInode(uint64_t inode) {
  for (int fd = 0; fd < 1024; ++fd) {
    struct stat about = {};
    if (fstat(fd, &about) == 0 && about.st_ino == inode) return fd;
  }
  return -1;
}

// The ways of changing the index that succeeded, of a process that has it.
std::string AttackMemory(const int64_t* memory, size_t size, uint64_t inode) {
  std::string succeeded;
  const auto attempt = [&](absl::string_view name, bool success) {
    if (success) absl::StrAppend(&succeeded, name, " ");
  };
  auto* const page = const_cast<int64_t*>(memory);
  constexpr int kWritable = PROT_READ | PROT_WRITE;
  attempt("mprotect", mprotect(page, size, kWritable) == 0);
  const UniqueFd own_memory(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  const int64_t wrong = -1;
  attempt("mem", pwrite(own_memory.get(), &wrong, sizeof(wrong),
                        reinterpret_cast<off_t>(page)) >= 0);
  const int fd = FdOfInode(inode);
  if (fd < 0) return "there is no descriptor";
  const UniqueFd again(
      open(absl::StrCat("/proc/self/fd/", fd).c_str(), O_RDWR | O_CLOEXEC));
  for (const int file : {fd, again.get()}) {
    attempt("pwrite", pwrite(file, &wrong, sizeof(wrong), 0) >= 0);
    attempt("mmap",
            mmap(nullptr, size, kWritable, MAP_SHARED, file, 0) != MAP_FAILED);
    attempt("ftruncate", ftruncate(file, 0) == 0);
    attempt("punch", fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               0, static_cast<off_t>(size)) == 0);
    attempt("unseal", fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) == 0);
  }
  attempt("remove", madvise(page, size, MADV_REMOVE) == 0);
  return succeeded;
}

// Item i is the i-th element, as "value", and "attacks", what AttackMemory()
// returned in this process. With `writes` item 3 writes to the memory.
class IndexedBy : public Dataset {
 public:
  IndexedBy(Tensor index, bool writes)
      : index_(std::move(index)), writes_(writes) {
    const auto values = Values();
    sum_ = std::accumulate(values.begin(), values.end(), int64_t{0});
    attacks_ = AttackMemory(values.data(), values.size() * sizeof(int64_t),
                            index_.storage()->id()->inode);
  }
  int64_t size() const override { return index_.spec().shape()[0]; }
  SampleSpec spec() const override {
    return SampleSpec().Add<int64_t>("value").Add<int64_t>("sum").AddText(
        "attacks");
  }
  absl::Status Get(int64_t index, SampleRandom&, Sample& sample) override {
    const int64_t& value = Values()[static_cast<size_t>(index)];
    if (writes_ && index == 3) const_cast<volatile int64_t&>(value) = 7;
    TENON_RETURN_IF_ERROR(sample.Set("value", value));
    TENON_RETURN_IF_ERROR(sample.Set("sum", sum_));
    return sample.SetText("attacks", attacks_);
  }

 private:
  absl::Span<const int64_t> Values() const {
    return *index_.data<const int64_t>();
  }

  Tensor index_;
  bool writes_;
  int64_t sum_ = 0;
  std::string attacks_;
};
TENON_LOADER_DATASET(IndexedBy(Tensor, bool));

// What /proc/PID/smaps says of the mappings of a file, in KiB.
struct MappedMemory {
  int mappings = 0;
  int writable = 0;
  int64_t rss = 0;
  int64_t pss = 0;
  int64_t anonymous = 0;
};

MappedMemory MemoryOfInode(const std::string& pid, uint64_t inode) {
  MappedMemory memory;
  std::ifstream smaps(absl::StrCat("/proc/", pid, "/smaps"));
  bool is_it = false;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first.back() != ':') {  // "7f00-7f10 r--s 00000000 00:01 4711 /..."
      std::string permissions, offset, device;
      uint64_t number = 0;
      words >> permissions >> offset >> device >> number;
      is_it = number == inode;
      memory.mappings += is_it;
      memory.writable += is_it && permissions[1] == 'w';
      continue;
    }
    int64_t kib = 0;
    if (!is_it || !(words >> kib)) continue;
    if (first == "Rss:") memory.rss += kib;
    if (first == "Pss:") memory.pss += kib;
    if (first == "Anonymous:") memory.anonymous += kib;
  }
  return memory;
}

std::vector<int64_t> Squares(int64_t size) {
  std::vector<int64_t> values(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i)
    values[static_cast<size_t>(i)] = i * i % 97;
  return values;
}

class LoaderIndexTest : public ::testing::TestWithParam<SharingStrategy> {
 protected:
  void SetUp() override { SetSharingStrategy(GetParam()); }
  void TearDown() override { SetSharingStrategy(before_); }

 private:
  const SharingStrategy before_ = GetSharingStrategy();
};

INSTANTIATE_TEST_SUITE_P(Strategies, LoaderIndexTest,
                         ::testing::Values(SharingStrategy::kFileDescriptor,
                                           SharingStrategy::kFileSystem),
                         [](const auto& test) {
                           return std::string(SharingStrategyName(test.param));
                         });

TEST_P(LoaderIndexTest, AllWorkersMapTheSameMemoryAndNoneWritesIt) {
  constexpr int64_t kSize = 1 << 20;
  constexpr int64_t kKib = kSize * int64_t{sizeof(int64_t)} / 1024;
  constexpr int kWorkers = 3;
  const std::vector<int64_t> values = Squares(kSize);
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor index, SealedTensor<int64_t>(values));
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto loader,
      Loader::Create<IndexedBy>({.batch_size = 16, .workers = kWorkers}, index,
                                false));
  EpochRange epoch = loader->Epoch(0);
  const int64_t sum = std::accumulate(values.begin(), values.end(), int64_t{0});
  for (int i = 0; i < kWorkers; ++i) {  // One of each.
    TENON_ASSERT_OK_AND_ASSIGN(const std::optional<Batch> batch,
                               epoch.Next(Watchdog()));
    ASSERT_TRUE(batch);
    for (int64_t j = 0; j < 16; ++j) {
      EXPECT_EQ((*batch->data<int64_t>("value"))[static_cast<size_t>(j)],
                values[static_cast<size_t>(16 * i + j)]);
    }
    EXPECT_EQ((*batch->data<int64_t>("sum"))[0], sum);
    EXPECT_EQ(*batch->text("attacks", 0), "");
  }
  ASSERT_TRUE(index.storage()->id());
  const uint64_t inode = index.storage()->id()->inode;
  int64_t pss = 0;
  for (const pid_t pid : loader->worker_pids()) {
    const MappedMemory memory = MemoryOfInode(absl::StrCat(pid), inode);
    EXPECT_EQ(memory.mappings, 1);
    EXPECT_EQ(memory.writable, 0);
    EXPECT_EQ(memory.rss, kKib);  // It has read all of it.
    EXPECT_EQ(memory.anonymous, 0);
    pss += memory.pss;
  }
  pss += MemoryOfInode("self", inode).pss;
  EXPECT_LE(pss, kKib + 64);
  EXPECT_EQ(MemoryOfInode("self", inode).writable, 0);
}

TEST_P(LoaderIndexTest, AWriteEndsItsWorker) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor index,
                             SealedTensor<int64_t>(Squares(100)));
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto loader,
      Loader::Create<IndexedBy>({.batch_size = 2, .workers = 2}, index, true));
  absl::Status last;
  for (const absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    last = batch.status();
  }
  // Under AddressSanitizer the handler of the one raises the other.
  EXPECT_THAT(last,
              StatusIs(StatusCode::kAborted,
                       AnyOf(HasSubstr("SIGSEGV"), HasSubstr("SIGABRT"))));
  EXPECT_EQ((*index.data<const int64_t>())[3], 9);
}

TEST_P(LoaderIndexTest, TheConsumerCannotWriteItEither) {
  const std::vector<int64_t> values = Squares(10'000);
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor index, SealedTensor<int64_t>(values));
  EXPECT_FALSE(index.writable());
  EXPECT_THAT(index.data<int64_t>(), StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_EQ(AttackMemory(index.data<const int64_t>()->data(),
                         values.size() * sizeof(int64_t),
                         index.storage()->id()->inode),
            "");
  EXPECT_THAT(*index.data<const int64_t>(),
              ::testing::ElementsAreArray(values));
}

// What the attacks do to a tensor that is not sealed.
TEST_P(LoaderIndexTest, AnotherSharedTensorIsChanged) {
  const std::vector<int64_t> values = Squares(10'000);
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor shared,
      Tensor::CreateSharedFrom(
          kDtypeOf<int64_t>, {10'000}, std::as_bytes(std::span(values)),
          {.segment = {.strategy = SharingStrategy::kFileDescriptor}}));
  const std::string succeeded = AttackMemory(
      shared.data<const int64_t>()->data(), values.size() * sizeof(int64_t),
      shared.storage()->id()->inode);
  for (const char* const attack :
       {"mprotect ", "mem ", "pwrite ", "mmap ", "punch ", "remove "}) {
    EXPECT_THAT(succeeded, HasSubstr(attack));
  }
}

TEST_P(LoaderIndexTest, MayHaveAnyShapeThatFits) {
  constexpr std::byte kBytes[6] = {};
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor matrix,
                             SealedTensor(kDtypeOf<uint8_t>, {2, 3}, kBytes));
  EXPECT_THAT(matrix.spec().shape(), ElementsAre(2, 3));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor empty,
                             SealedTensor(absl::Span<const float>()));
  EXPECT_THAT(empty.spec().shape(), ElementsAre(0));
  EXPECT_THAT(SealedTensor(kDtypeOf<uint8_t>, {2, 4}, kBytes),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("SealedTensor(): 6 bytes for a tensor of "
                                 "uint8[2, 4]; want 8")));
}

}  // namespace
}  // namespace tenon::loader
