// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// DLPack with the real torch, in one process and in both directions. Skipped
// where no Python has it:
//
//   ./bazelw test --test_env=TENON_TORCH_PYTHON=/opt/venv/bin/python
//       //cuda_ipc:torch_dlpack_test

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_tensor.h"
#include "tenon/cuda_ipc/fake/fake_driver.h"
#include "tenon/cuda_ipc/python_testing.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/dlpack.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/third_party/dlpack/dlpack_versioned.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The differences between the two forms, as Python has them.
template <typename Managed>
struct CapsuleForm;

template <>
struct CapsuleForm<DLManagedTensorVersioned> {
  static constexpr char kName[] = "dltensor_versioned";
  static constexpr char kUsedName[] = "used_dltensor_versioned";
  static constexpr char kArguments[] = "max_version=(1, 0)";
  static auto To(const Tensor& tensor) { return ToDLPack(tensor); }
};

template <>
struct CapsuleForm<DLManagedTensor> {
  static constexpr char kName[] = "dltensor";
  static constexpr char kUsedName[] = "used_dltensor";
  static constexpr char kArguments[] = "";
  static auto To(const Tensor& tensor) { return ToLegacyDLPack(tensor); }
};

Python* python = nullptr;

// The fake's driver is found by DeviceContexts::OfProcess().
FakeDriver& Fake() {
  static FakeDriver& fake = *new FakeDriver();
  return fake;
}

template <typename Managed>
class TorchDLPackTest : public ::testing::Test {
 protected:
  using Form = CapsuleForm<Managed>;
  using Owner = std::unique_ptr<Managed, DLPackDeleter>;

  void SetUp() override {
    const absl::StatusOr<Python*> started = Python::Start();
    if (!started.ok()) GTEST_SKIP() << started.status().message();
    python = *started;
    deleted = 0;
  }
  void TearDown() override {
    if (python != nullptr) Run("gc.collect()");
  }

  static std::string Run(const std::string& statement) {
    return python->Run(statement);
  }

  // The capsule of a tensor is the variable c. Its destructor calls the deleter
  // if no consumer has renamed it, which DLPack demands of a producer.
  static void Lend(const Tensor& tensor) {
    auto lent = Form::To(tensor);
    ASSERT_THAT(lent, IsOk());
    managed = lent->release();
    of_tenon = std::exchange(managed->deleter, [](Managed* self) {
      ++deleted;
      of_tenon(self);
    });
    python->Set("c", python->NewCapsule(managed, Form::kName, [](PyObject* c) {
      void* const data = python->CapsuleData(c, Form::kName);
      if (data != nullptr) {
        DLPackDeleter()(static_cast<Managed*>(data));
      }
    }));
  }

  // Consumes the capsule that is the variable c, as torch does.
  static absl::StatusOr<Tensor> Take() {
    PyObject* const capsule = python->Get("c");
    void* const data = python->CapsuleData(capsule, Form::kName);
    if (data == nullptr) return absl::NotFoundError("no capsule");
    python->RenameCapsule(capsule, Form::kUsedName);
    return FromDLPack(Owner(static_cast<Managed*>(data)));
  }

  static inline int deleted = 0;
  static inline Managed* managed = nullptr;
  static inline void (*of_tenon)(Managed* self) = nullptr;
};

using CapsuleForms =
    ::testing::Types<DLManagedTensorVersioned, DLManagedTensor>;
TYPED_TEST_SUITE(TorchDLPackTest, CapsuleForms);

// Of its first element, on its device.
std::string AddressOf(const Tensor& tensor) {
  return absl::StrCat(
      reinterpret_cast<uintptr_t>(tensor.storage()->Address().value()) +
      static_cast<uintptr_t>(tensor.spec().byte_offset()));
}

struct Dtype {
  DLDataType ours;
  std::string torchs;
};
// All that both have: torch has no others of whole bytes.
std::vector<Dtype> Dtypes() {
  constexpr uint8_t kBfloat = kDLBfloat;
  return {{{kDLInt, 8, 1}, "torch.int8"},
          {{kDLInt, 16, 1}, "torch.int16"},
          {{kDLInt, 32, 1}, "torch.int32"},
          {{kDLInt, 64, 1}, "torch.int64"},
          {{kDLUInt, 8, 1}, "torch.uint8"},
          {{kDLUInt, 16, 1}, "torch.uint16"},
          {{kDLUInt, 32, 1}, "torch.uint32"},
          {{kDLUInt, 64, 1}, "torch.uint64"},
          {{kDLFloat, 16, 1}, "torch.float16"},
          {{kDLFloat, 32, 1}, "torch.float32"},
          {{kDLFloat, 64, 1}, "torch.float64"},
          {{kBfloat, 16, 1}, "torch.bfloat16"},
          {{kDLComplex, 32, 1}, "torch.complex32"},
          {{kDLComplex, 64, 1}, "torch.complex64"},
          {{kDLComplex, 128, 1}, "torch.complex128"},
          {{kBoolCode, 8, 1}, "torch.bool"},
          // DLPack 1.1: kDLFloat8_e4m3fn and its kin.
          {{10, 8, 1}, "torch.float8_e4m3fn"},
          {{11, 8, 1}, "torch.float8_e4m3fnuz"},
          {{12, 8, 1}, "torch.float8_e5m2"},
          {{13, 8, 1}, "torch.float8_e5m2fnuz"},
          {{14, 8, 1}, "torch.float8_e8m0fnu"}};
}

// ---- To torch ----

TYPED_TEST(TorchDLPackTest, TorchTakesEachDtype) {
  for (const Dtype& dtype : Dtypes()) {
    SCOPED_TRACE(dtype.torchs);
    const Tensor tensor = Tensor::Create(dtype.ours, {2, 3}).value();
    this->Lend(tensor);
    EXPECT_EQ(this->Run("t = torch.from_dlpack(c); del c"), "ok");
    EXPECT_EQ(this->Run("t.dtype"), dtype.torchs);
    EXPECT_EQ(this->Run("t.data_ptr()"), AddressOf(tensor));
    EXPECT_EQ(this->Run("del t"), "ok");
  }
  EXPECT_EQ(this->deleted, static_cast<int>(Dtypes().size()));
}

TYPED_TEST(TorchDLPackTest, TorchTakesViews) {
  const Tensor whole = Tensor::Create(kDtypeOf<int32_t>, {4, 3, 2}).value();
  const Tensor view =
      whole.Transpose(0, 1).value().Slice(1, {.start = 1, .step = 2}).value();
  ASSERT_THAT(view.Fill(7), IsOk());
  this->Lend(view);
  EXPECT_EQ(this->Run("t = torch.from_dlpack(c)"), "ok");
  EXPECT_EQ(this->Run("t.shape, t.stride(), t.device.type"),
            "(torch.Size([3, 2, 2]), (2, 12, 1), 'cpu')");
  EXPECT_EQ(this->Run("t.data_ptr()"), AddressOf(view));
  EXPECT_EQ(this->Run("t.sum().item()"), "84");
  // Writes are seen in both directions.
  EXPECT_EQ(this->Run("t[2, 1, 0] = 9"), "ok");
  EXPECT_EQ(*whole.template at<const int32_t>({3, 2, 0}).value(), 9);
  EXPECT_EQ(this->Run("del t, c"), "ok");
  EXPECT_EQ(this->deleted, 1);
}

TYPED_TEST(TorchDLPackTest, TorchTakesScalarsAndEmptyTensors) {
  this->Lend(Tensor::CopyOf({2.5}, {}).value());
  EXPECT_EQ(this->Run("torch.from_dlpack(c).item()"), "2.5");
  this->Lend(Tensor::Create(kDtypeOf<float>, {2, 0, 3}).value());
  EXPECT_EQ(this->Run("torch.from_dlpack(c).shape"), "torch.Size([2, 0, 3])");
  EXPECT_EQ(this->Run("del c"), "ok");
  EXPECT_EQ(this->deleted, 2);
}

TYPED_TEST(TorchDLPackTest, TorchKeepsTheMemoryAndReturnsItOnce) {
  Tensor tensor = Tensor::CopyOf({1, 2, 3, 4, 5, 6}, {6}).value();
  const std::weak_ptr<Storage> storage = tensor.storage();
  this->Lend(tensor);
  EXPECT_EQ(this->Run("t = torch.from_dlpack(c)"), "ok");
  EXPECT_STREQ(python->CapsuleName(python->Get("c")),
               CapsuleForm<TypeParam>::kUsedName);
  EXPECT_THAT(this->Run("torch.from_dlpack(c)"),
              AllOf(StartsWith("error: "), HasSubstr("consumed only once")));
  tensor = Tensor();
  EXPECT_EQ(this->Run("del c"), "ok");
  EXPECT_EQ(this->Run("view = t[3:]; del t"), "ok");
  EXPECT_EQ(this->Run("view.tolist()"), "[4, 5, 6]");
  EXPECT_EQ(this->deleted, 0);
  EXPECT_FALSE(storage.expired());
  EXPECT_EQ(this->Run("del view"), "ok");
  EXPECT_EQ(this->deleted, 1);
  EXPECT_TRUE(storage.expired());
}

TYPED_TEST(TorchDLPackTest, ACapsuleThatIsNotTakenReturnsTheMemory) {
  Tensor tensor = Tensor::Create(kDtypeOf<float>, {6}).value();
  const std::weak_ptr<Storage> storage = tensor.storage();
  this->Lend(tensor);
  tensor = Tensor();
  EXPECT_FALSE(storage.expired());
  EXPECT_EQ(this->Run("del c"), "ok");
  EXPECT_EQ(this->deleted, 1);
  EXPECT_TRUE(storage.expired());
}

TYPED_TEST(TorchDLPackTest, SharedMemoryGoesToTorch) {
  const Tensor tensor = Tensor::CreateShared(kDtypeOf<float>, {6}).value();
  this->Lend(tensor);
  EXPECT_EQ(this->Run("t = torch.from_dlpack(c); t.fill_(2); del t, c"), "ok");
  EXPECT_THAT(tensor.template data<const float>().value(), Each(2.0f));
  EXPECT_EQ(this->deleted, 1);
}

TYPED_TEST(TorchDLPackTest, TorchRefusesAndReturnsTheMemory) {
  const auto expect_refused = [this](const Tensor& tensor,
                                     const std::string& why) {
    SCOPED_TRACE(why);
    this->deleted = 0;
    this->Lend(tensor);
    EXPECT_THAT(this->Run("torch.from_dlpack(c)"),
                AllOf(StartsWith("error: "), HasSubstr(why)));
    EXPECT_EQ(this->Run("del c"), "ok");
    EXPECT_EQ(this->deleted, 1);
  };
  const Tensor numbers = Tensor::Create(kDtypeOf<int32_t>, {6}).value();
  expect_refused(Tensor::FromSpec(
                     TensorSpec::Anchored(kDtypeOf<int32_t>, {6}, {-1}).value(),
                     numbers.storage())
                     .value(),
                 "stride");
  expect_refused(Tensor::Create({kDLFloat, 32, 4}, {6}).value(), "lanes");
  expect_refused(Tensor::Create({kDLFloat, 24, 1}, {6}).value(), "24");
}

// torch on a machine without a driver.
TYPED_TEST(TorchDLPackTest, TorchWithoutADeviceRefusesDeviceMemory) {
  if (this->Run("torch.cuda.is_available()") != "False") {
    GTEST_SKIP() << "torch has a device";
  }
  Fake().SetEnvironment();
  const Tensor tensor =
      Tensor::Create(kDtypeOf<float>, {6}).value().To({kDLCUDA, 1}).value();
  this->Lend(tensor);
  EXPECT_EQ(this->managed->dl_tensor.device.device_type, kDLCUDA);
  EXPECT_EQ(this->managed->dl_tensor.device.device_id, 1);
  EXPECT_EQ(
      absl::StrCat(reinterpret_cast<uintptr_t>(this->managed->dl_tensor.data)),
      AddressOf(tensor));
  EXPECT_THAT(this->Run("torch.from_dlpack(c)"),
              AllOf(StartsWith("error: "),
                    AnyOf(HasSubstr("NVIDIA"), HasSubstr("CUDA"))));
  EXPECT_EQ(this->Run("del c"), "ok");
  EXPECT_EQ(this->deleted, 1);
}

// ---- From torch ----

TYPED_TEST(TorchDLPackTest, EachDtypeComesFromTorch) {
  for (const Dtype& dtype : Dtypes()) {
    SCOPED_TRACE(dtype.torchs);
    ASSERT_EQ(this->Run(absl::StrCat(
                  "t = torch.empty(2, 3, dtype=", dtype.torchs, ")")),
              "ok");
    ASSERT_EQ(this->Run(absl::StrCat("c = t.__dlpack__(",
                                     CapsuleForm<TypeParam>::kArguments, ")")),
              "ok");
    const absl::StatusOr<Tensor> tensor = this->Take();
    ASSERT_THAT(tensor, IsOk());
    EXPECT_TRUE(SameDtype(tensor->spec().dtype(), dtype.ours))
        << DtypeName(tensor->spec().dtype());
    EXPECT_THAT(tensor->spec().shape(), ElementsAre(2, 3));
    EXPECT_TRUE(IsOnCpu(tensor->device()));
    EXPECT_TRUE(tensor->writable());
    EXPECT_EQ(AddressOf(*tensor), this->Run("t.data_ptr()"));
  }
  EXPECT_EQ(this->Run("del t, c"), "ok");
}

TYPED_TEST(TorchDLPackTest, ViewsComeFromTorch) {
  ASSERT_EQ(this->Run("t = torch.arange(24, dtype=torch.int32)"
                      ".reshape(4, 3, 2).transpose(0, 1)[:, 1::2]"),
            "ok");
  ASSERT_EQ(this->Run(absl::StrCat("c = t.__dlpack__(",
                                   CapsuleForm<TypeParam>::kArguments, ")")),
            "ok");
  const absl::StatusOr<Tensor> tensor = this->Take();
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->spec().shape(), ElementsAre(3, 2, 2));
  EXPECT_THAT(tensor->spec().strides(), ElementsAre(2, 12, 1));
  EXPECT_EQ(*tensor->template at<const int32_t>({2, 1, 1}).value(), 23);
  ASSERT_THAT(tensor->Fill(1), IsOk());
  EXPECT_EQ(this->Run("t.sum().item()"), "12");
  EXPECT_EQ(this->Run("del t, c"), "ok");
}

// torch's tensor keeps `owner`, whose references show when torch lets it go.
TYPED_TEST(TorchDLPackTest, TorchsMemoryIsKeptAndReturnedOnce) {
  ASSERT_EQ(this->Run("owner = bytearray(range(8))"), "ok");
  const std::string free = this->Run("sys.getrefcount(owner)");
  ASSERT_EQ(this->Run("t = torch.frombuffer(owner, dtype=torch.uint8)"), "ok");
  const std::string lent = this->Run("sys.getrefcount(owner)");
  ASSERT_NE(lent, free);
  ASSERT_EQ(this->Run(absl::StrCat("c = t.__dlpack__(",
                                   CapsuleForm<TypeParam>::kArguments, ")")),
            "ok");
  Tensor view = this->Take().value().Slice(0, {.start = 6}).value();
  EXPECT_EQ(this->Run("del t, c"), "ok");
  EXPECT_EQ(this->Run("sys.getrefcount(owner)"), lent);
  EXPECT_THAT(view.template data<const uint8_t>().value(), ElementsAre(6, 7));
  view = Tensor();
  EXPECT_EQ(this->Run("sys.getrefcount(owner)"), free);
}

// What torch has and Tenon has not: elements smaller than a byte.
TYPED_TEST(TorchDLPackTest, TorchsPackedDtypesAreRefusedAndReturned) {
  ASSERT_EQ(this->Run("owner = bytearray(8)"), "ok");
  const std::string free = this->Run("sys.getrefcount(owner)");
  ASSERT_EQ(this->Run("t = torch.frombuffer(owner, dtype=torch.uint8)"
                      ".view(torch.float4_e2m1fn_x2)"),
            "ok");
  ASSERT_EQ(this->Run(absl::StrCat("c = t.__dlpack__(",
                                   CapsuleForm<TypeParam>::kArguments, ")")),
            "ok");
  EXPECT_THAT(this->Take(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dtype")));
  EXPECT_EQ(this->Run("del t, c"), "ok");
  EXPECT_EQ(this->Run("sys.getrefcount(owner)"), free);
}

TYPED_TEST(TorchDLPackTest, ATensorComesBackFromTorch) {
  const Tensor tensor = Tensor::CopyOf({1, 2, 3}, {3}).value();
  this->Lend(tensor);
  ASSERT_EQ(this->Run("t = torch.from_dlpack(c)"), "ok");
  ASSERT_EQ(
      this->Run(absl::StrCat("c = t.__dlpack__(",
                             CapsuleForm<TypeParam>::kArguments, "); del t")),
      "ok");
  {
    const Tensor back = this->Take().value();
    EXPECT_EQ(AddressOf(back), AddressOf(tensor));
    EXPECT_EQ(this->deleted, 0);
  }
  EXPECT_EQ(this->deleted, 1);
}

// ---- Differences of the two forms ----

using VersionedTorchDLPackTest = TorchDLPackTest<DLManagedTensorVersioned>;
using LegacyTorchDLPackTest = TorchDLPackTest<DLManagedTensor>;

Tensor ReadOnly() {
  static int32_t numbers[] = {3, 3, 3, 3};
  return Tensor::FromSpec(
             TensorSpec::Contiguous(kDtypeOf<int32_t>, {4}).value(),
             Storage::FromLent({.data = reinterpret_cast<std::byte*>(numbers),
                                .size_bytes = sizeof(numbers),
                                .writable = false,
                                .lender = nullptr}))
      .value();
}

// The class of a Python package of Tenon would have these methods.
constexpr char kLender[] = R"(class Lender:
    def __init__(self, c): self.c = c
    def __dlpack_device__(self): return (1, 0)
    def __dlpack__(self, **asked):
        self.asked = asked
        return self.c
)";

// torch 2.15 ignores the flag, numpy does not.
TEST_F(VersionedTorchDLPackTest, ReadOnlyTensorsAreMarked) {
  Lend(ReadOnly());
  EXPECT_EQ(managed->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  ASSERT_EQ(Run("t = torch.from_dlpack(c)"), "ok");
  EXPECT_EQ(Run("t.tolist()"), "[3, 3, 3, 3]");
  RecordProperty("torch_writes_read_only_tensors", Run("t[0] = 3"));
  EXPECT_EQ(Run("del t, c"), "ok");
  EXPECT_EQ(deleted, 1);
  if (Run("import numpy") != "ok") return;
  ASSERT_EQ(Run(kLender), "ok");
  Lend(ReadOnly());
  ASSERT_EQ(Run("n = numpy.from_dlpack(Lender(c))"), "ok");
  EXPECT_EQ(Run("n.tolist()"), "[3, 3, 3, 3]");
  EXPECT_EQ(Run("n.flags.writeable"), "False");
  EXPECT_EQ(Run("del n, c"), "ok");
  EXPECT_EQ(deleted, 2);
}

TEST_F(VersionedTorchDLPackTest, TorchAsksForTheVersionedForm) {
  ASSERT_EQ(Run(kLender), "ok");
  Lend(Tensor::CopyOf({1, 2}, {2}).value());
  ASSERT_EQ(Run("lender = Lender(c); t = torch.from_dlpack(lender)"), "ok");
  EXPECT_EQ(Run("lender.asked"), "{'max_version': (1, 0)}");
  EXPECT_EQ(Run("t.tolist()"), "[1, 2]");
  EXPECT_EQ(Run("del t, c, lender"), "ok");
  EXPECT_EQ(deleted, 1);
}

TEST_F(VersionedTorchDLPackTest, TorchsReadOnlyTensorsStayReadOnly) {
  if (Run("from torch.utils.dlpack import ReadOnlyTensorWrapper") != "ok") {
    GTEST_SKIP() << "this torch has no read-only tensors";
  }
  ASSERT_EQ(Run("c = ReadOnlyTensorWrapper(torch.ones(3)).__dlpack__()"), "ok");
  const absl::StatusOr<Tensor> tensor = Take();
  ASSERT_THAT(tensor, IsOk());
  EXPECT_FALSE(tensor->writable());
  EXPECT_THAT(tensor->data<float>(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(tensor->data<const float>().value(), Each(1.0f));
}

TEST_F(LegacyTorchDLPackTest, ReadOnlyTensorsDoNotGoToTorch) {
  EXPECT_THAT(ToLegacyDLPack(ReadOnly()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("use the versioned form")));
}

}  // namespace
}  // namespace tenon::cuda_ipc
