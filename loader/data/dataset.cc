// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/dataset.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/name_registry.h"

namespace tenon::loader {
namespace {

constinit NameRegistry<DatasetFactory> datasets("TENON_LOADER_DATASET");

}  // namespace

std::span<std::byte> Sample::bytes(size_t f) const {
  const int64_t size = layout_.sample_bytes(f);
  return {batch_ + layout_.offset(f) + i_ * size, static_cast<size_t>(size)};
}

void Sample::CheckElementSize(size_t f, size_t size) const {
  const FieldSpec& field = layout_.fields()[f];
  const size_t want = size_t{field.dtype.bits} / 8 * field.dtype.lanes;
  if (size != want) {
    Abort(absl::StrCat("Sample::field<T>: T has ", size, " bytes, field '",
                       field.name, "' has ", want));
  }
}

bool RegisterDataset(absl::string_view name, DatasetFactory factory) {
  datasets.Add(name, factory);
  return true;
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeDataset(absl::string_view name,
                                                     absl::string_view config) {
  const std::optional<DatasetFactory> factory = datasets.Find(name);
  if (!factory) {
    return absl::NotFoundError(
        absl::StrCat("no dataset is registered as '", name,
                     "'; there are: ", absl::StrJoin(datasets.Names(), ", ")));
  }
  try {
    return (*factory)(config);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("the factory of dataset '", name,
                                            "' threw: ", error.what()));
  }
}

}  // namespace tenon::loader
