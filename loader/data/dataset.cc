// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/dataset.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace tenon::loader {
namespace {

// Filled before main() by one thread, read-only afterwards. Never destroyed:
// other static destructors may still look into it.
std::map<std::string, DatasetFactory>& Registry() {
  static auto& registry = *new std::map<std::string, DatasetFactory>();
  return registry;
}

}  // namespace

std::span<std::byte> Sample::bytes(size_t f) const {
  const int64_t size = layout_.sample_bytes(f);
  return {batch_ + layout_.offset(f) + i_ * size, static_cast<size_t>(size)};
}

void Sample::CheckElementSize(size_t f, size_t size) const {
  const FieldSpec& field = layout_.fields()[f];
  const size_t want = size_t{field.dtype.bits} / 8 * field.dtype.lanes;
  if (size != want) {
    ABSL_RAW_LOG(FATAL, "Sample::field<T>: T has %zu bytes, field '%s' has %zu",
                 size, field.name.c_str(), want);
  }
}

bool RegisterDataset(absl::string_view name, DatasetFactory factory) {
  if (!Registry().emplace(std::string(name), factory).second) {
    ABSL_RAW_LOG(FATAL, "two datasets are registered as '%s'",
                 std::string(name).c_str());
  }
  return true;
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeDataset(absl::string_view name,
                                                     absl::string_view config) {
  const auto found = Registry().find(std::string(name));
  if (found == Registry().end()) {
    return absl::NotFoundError(
        absl::StrCat("no dataset is registered as '", name, "'; there are: ",
                     absl::StrJoin(Registry(), ", ",
                                   [](std::string* out, const auto& entry) {
                                     out->append(entry.first);
                                   })));
  }
  try {
    return found->second(config);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("the factory of dataset '", name,
                                            "' threw: ", error.what()));
  }
}

}  // namespace tenon::loader
