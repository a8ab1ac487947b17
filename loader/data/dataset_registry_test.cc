// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/dataset_registry.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/shm_arguments.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Constant : public Dataset {
 public:
  Constant(int64_t size, double value) : size_(size), value_(value) {}
  int64_t size() const override { return size_; }
  SampleSpec spec() const override { return SampleSpec().Add<double>("x"); }
  absl::Status Get(int64_t, SampleRandom&, Sample& sample) override {
    return sample.Set("x", value_);
  }
  double value() const { return value_; }

 private:
  int64_t size_;
  double value_;
};
TENON_LOADER_DATASET(Constant(int64_t, double));

class Named : public Constant {
 public:
  static absl::StatusOr<std::unique_ptr<Named>> Create(
      const std::string& name) {
    if (name.empty()) return absl::InvalidArgumentError("the name is empty");
    return std::unique_ptr<Named>(new Named(name));
  }

 protected:
  explicit Named(const std::string& name) : Constant(std::ssize(name), 0) {}
};
TENON_LOADER_DATASET(Named(std::string));

// Inherits Create(), which makes the base.
class Renamed : public Named {
 public:
  explicit Renamed(const std::string& name) : Named(name + name) {}
};
TENON_LOADER_DATASET(Renamed(std::string));

// Not registered, but its base is.
class Derived : public Constant {
 public:
  using Constant::Constant;
};
static_assert(RegisteredDataset<Constant>);
static_assert(RegisteredDataset<Renamed>);
static_assert(!RegisteredDataset<Derived>);

// Shares a tensor among all that make it.
class Shared : public Constant {
 public:
  explicit Shared(Tensor tensor) : Constant(1, 0), tensor_(std::move(tensor)) {}
  const Tensor& tensor() const { return tensor_; }

 private:
  Tensor tensor_;
};
TENON_LOADER_DATASET(Shared(Tensor));

template <typename D>
const D& As(const std::unique_ptr<Dataset>& dataset) {
  return dynamic_cast<const D&>(*dataset);
}

TEST(DatasetRecipeTest, ArgumentsAreConvertedAsInAnyCall) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto recipe,
                             DatasetRecipe::Of<Constant>(7, 1.5f));
  EXPECT_EQ(recipe.name(), "Constant");
  for (int i = 0; i < 2; ++i) {  // As often as wanted.
    TENON_ASSERT_OK_AND_ASSIGN(const auto dataset, recipe.Make());
    EXPECT_EQ(dataset->size(), 7);
    EXPECT_EQ(As<Constant>(dataset).value(), 1.5);
  }
}

TEST(DatasetRecipeTest, ByNameTheTypesMustMatch) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto recipe, DatasetRecipe::ByName("Constant", int64_t{3}, 2.0));
  TENON_ASSERT_OK_AND_ASSIGN(const auto dataset, recipe.Make());
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_THAT(
      DatasetRecipe::ByName("Constant", 3, 2.0),
      StatusIs(StatusCode::kInvalidArgument,
               AllOf(HasSubstr("dataset 'Constant' takes (long, double), got "
                               "(int, double)"))));
  EXPECT_THAT(DatasetRecipe::ByName("Constant"),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST(DatasetRecipeTest, ByNameWithAConfigurationString) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto recipe,
                             DatasetRecipe::ByName("Named", "four"));
  TENON_ASSERT_OK_AND_ASSIGN(const auto dataset, recipe.Make());
  EXPECT_EQ(dataset->size(), 4);
}

TEST(DatasetRecipeTest, AnUnknownNameListsTheKnownOnes) {
  EXPECT_THAT(DatasetRecipe::ByName("Nonsense"),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("'Nonsense'"),
                             HasSubstr("Constant, Named, Renamed, Shared"))));
}

TEST(DatasetRecipeTest, TheErrorOfCreateNamesTheDataset) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto recipe, DatasetRecipe::Of<Named>(""));
  EXPECT_THAT(recipe.Make(),
              StatusIs(StatusCode::kInvalidArgument,
                       "cannot make dataset 'Named': the name is empty"));
}

TEST(DatasetRecipeTest, AnInheritedCreateIsNotUsed) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto recipe,
                             DatasetRecipe::Of<Renamed>("four"));
  TENON_ASSERT_OK_AND_ASSIGN(const auto dataset, recipe.Make());
  EXPECT_EQ(As<Renamed>(dataset).size(), 8);
}

TEST(DatasetRecipeTest, FromPartsIsTheSame) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto recipe,
                             DatasetRecipe::Of<Constant>(7, 1.5));
  const DatasetRecipe other =
      DatasetRecipe::FromParts(recipe.name(), recipe.bytes(), {});
  TENON_ASSERT_OK_AND_ASSIGN(const auto dataset, other.Make());
  EXPECT_EQ(As<Constant>(dataset).value(), 1.5);
  EXPECT_THAT(DatasetRecipe::FromParts("Named", recipe.bytes(), {}).Make(),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(DatasetRecipe::FromParts("Constant", "garbage", {}).Make(),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST(DatasetRecipeTest, ATensorIsSharedByAllThatMakeIt) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                             Tensor::CreateShared(kDtypeOf<int64_t>, {1000}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto recipe,
                             DatasetRecipe::Of<Shared>(tensor));
  TENON_ASSERT_OK_AND_ASSIGN(const auto a, recipe.Make());
  TENON_ASSERT_OK_AND_ASSIGN(const auto b, recipe.Make());
  ASSERT_THAT(tensor.Fill(int64_t{5}), IsOk());
  EXPECT_EQ((*As<Shared>(a).tensor().data<const int64_t>())[999], 5);
  EXPECT_EQ((*As<Shared>(b).tensor().data<const int64_t>())[0], 5);
}

TEST(DatasetRecipeTest, ATensorInPrivateMemoryIsCopiedOnce) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                             Tensor::Create(kDtypeOf<int64_t>, {1000}));
  ASSERT_THAT(tensor.Fill(int64_t{5}), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const auto recipe,
                             DatasetRecipe::Of<Shared>(tensor));
  for (int i = 0; i < 3; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto dataset, recipe.Make());
    EXPECT_EQ((*As<Shared>(dataset).tensor().data<const int64_t>())[999], 5);
  }
}

}  // namespace
}  // namespace tenon::loader
