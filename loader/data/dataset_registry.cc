// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/dataset_registry.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/data/catching.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/shm/base/duplicate_fd.h"
#include "tenon/shm/base/name_registry.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/arguments/packed_call.h"

namespace tenon::loader {
namespace {

struct Registered {
  std::string signature;
  MakeDataset make;
};

constinit NameRegistry<Registered> datasets("TENON_LOADER_DATASET");

absl::StatusOr<Registered> Find(absl::string_view name) {
  const std::optional<Registered> found = datasets.Find(name);
  if (found) return *found;
  return absl::NotFoundError(
      absl::StrCat("no dataset is registered as '", name,
                   "'; there are: ", absl::StrJoin(datasets.Names(), ", ")));
}

}  // namespace

bool RegisterDataset(absl::string_view declaration, std::string signature,
                     MakeDataset make) {
  const absl::string_view name =
      absl::StripAsciiWhitespace(declaration.substr(0, declaration.find('(')));
  datasets.Add(name, {std::move(signature), make});
  return true;
}

absl::StatusOr<std::string> NameOfDataset(MakeDataset make) {
  const std::optional<std::string> name = datasets.FindName(
      [&](const Registered& dataset) { return dataset.make == make; });
  if (name) return *name;
  return absl::NotFoundError(
      "the dataset is not registered yet: TENON_LOADER_DATASET registers it "
      "before main() begins");
}

absl::StatusOr<DatasetRecipe> DatasetRecipe::Pack(
    absl::string_view name, const std::string& signature,
    absl::StatusOr<spawn::PackedArguments> arguments) {
  TENON_ASSIGN_OR_RETURN(const Registered dataset, Find(name));
  if (dataset.signature != signature) {
    return spawn::SignatureMismatch(absl::StrCat("dataset '", name, "'"),
                                    dataset.signature, signature);
  }
  return PackUnchecked(name, std::move(arguments));
}

absl::StatusOr<DatasetRecipe> DatasetRecipe::PackUnchecked(
    absl::string_view name, absl::StatusOr<spawn::PackedArguments> arguments) {
  if (arguments.ok() && !arguments->exclusive.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dataset '", name, "': ", arguments->exclusive,
        " can be given to one process only, and each worker makes the dataset "
        "anew"));
  }
  if (arguments.ok()) {
    arguments = spawn::EncloseTensors(*std::move(arguments));
  }
  if (!arguments.ok()) {
    return absl::Status(
        arguments.status().code(),
        absl::StrCat("dataset '", name, "': ", arguments.status().message()));
  }
  return FromParts(std::string(name), std::move(arguments->bytes),
                   std::move(arguments->fds));
}

DatasetRecipe DatasetRecipe::FromParts(std::string name, std::string bytes,
                                       std::vector<UniqueFd> fds) {
  DatasetRecipe recipe;
  recipe.name_ = std::move(name);
  recipe.bytes_ = std::move(bytes);
  recipe.fds_ = std::move(fds);
  return recipe;
}

std::vector<int> DatasetRecipe::fds() const {
  std::vector<int> fds;
  for (const UniqueFd& fd : fds_) fds.push_back(fd.get());
  return fds;
}

absl::StatusOr<std::unique_ptr<Dataset>> DatasetRecipe::Make() const {
  TENON_ASSIGN_OR_RETURN(const Registered registered, Find(name_));
  std::vector<UniqueFd> copies;
  for (const UniqueFd& fd : fds_) {
    TENON_ASSIGN_OR_RETURN(UniqueFd copy,
                           DuplicateFd(fd.get(), "an argument of a dataset"));
    copies.push_back(std::move(copy));
  }
  absl::StatusOr<std::unique_ptr<Dataset>> made =
      Catching("the constructor or Create()",
               [&] { return registered.make(bytes_, std::move(copies)); });
  if (made.ok() && *made == nullptr) {
    made = absl::InternalError("Create() returned a null pointer");
  }
  if (made.ok()) return made;
  return absl::Status(made.status().code(),
                      absl::StrCat("cannot make dataset '", name_,
                                   "': ", made.status().message()));
}

}  // namespace tenon::loader
