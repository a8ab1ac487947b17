// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/arena_offer.h"

#include <string.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon {
namespace {

// In front of the name.
struct Header {
  static constexpr uint64_t kMagic = 0x31726566666f6154;  // "Taoffer1".

  uint64_t magic = kMagic;
  RandomId arena;
  uint32_t segment = 0;
  uint32_t by_name = 0;
};
static_assert(std::is_trivially_copyable_v<Header>);
static_assert(std::has_unique_object_representations_v<Header>);

}  // namespace

std::string ArenaOfferFacts::ToBytes() const {
  Header header;
  header.arena = arena;
  header.segment = segment;
  header.by_name = strategy == SharingStrategy::kFileSystem;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes += name;
  return bytes;
}

absl::StatusOr<ArenaOfferFacts> ArenaOfferFacts::FromBytes(
    absl::string_view bytes) {
  Header header;
  if (bytes.size() < sizeof(header)) {
    return absl::InvalidArgumentError(
        absl::StrCat("malformed arena offer: ", bytes.size(),
                     " bytes; want at least ", sizeof(header)));
  }
  memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != Header::kMagic || header.by_name > 1) {
    return absl::InvalidArgumentError(
        "malformed arena offer, or one of another version of Tenon");
  }
  ArenaOfferFacts facts;
  facts.arena = header.arena;
  facts.segment = header.segment;
  if (header.by_name == 1) {
    // Segment::Open() checks the name.
    facts.strategy = SharingStrategy::kFileSystem;
    facts.name = std::string(bytes.substr(sizeof(header)));
  }
  return facts;
}

}  // namespace tenon
