// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The messages between the daemon of names and its clients: the payloads of a
// channel's frames (frame.h), which have a magic number, a version and a
// length.
//
//   request   kind (32 bits) | version (32 bits) | name
//   reply     status | version (32 bits) | counts (64 bits each)
//
// A name is a length of 64 bits and its bytes; only kKeepName and kReleaseName
// have one. Kind, status and version keep their offsets in all versions, so
// that a client and a daemon of two builds can report the mismatch.

#ifndef TENON_SHM_MANAGER_MANAGER_MESSAGE_H_
#define TENON_SHM_MANAGER_MANAGER_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/carried_version.h"
#include "tenon/shm/base/cplusplus_20.h"
#include "tenon/shm_manager/manager_stats.h"

namespace tenon {

inline uint32_t ManagerVersion() { return CarriedVersion(1); }
// The longest message, in bytes: a reply with a text of kMaxManagerText.
inline constexpr size_t kMaxManagerMessage = 1024;
inline constexpr size_t kMaxManagerText = 512;

enum class ManagerRequestKind : uint32_t {
  kAttach = 1,       // The first one of each client.
  kKeepName = 2,     // The daemon becomes a holder of the name.
  kReleaseName = 3,  // It ceases to be one.
  kQueryStats = 4,
};

struct ManagerRequest {
  ManagerRequestKind kind = ManagerRequestKind::kAttach;
  uint32_t version = ManagerVersion();
  std::string name;
};

struct ManagerReply {
  absl::Status status;  // Its message is cut to kMaxManagerText.
  uint32_t version = ManagerVersion();
  ManagerStats stats;
};

std::string EncodeManagerRequest(const ManagerRequest& request);
std::string EncodeManagerReply(const ManagerReply& reply);

// `bytes` may be anything. Errors: kDataLoss naming the malformed part. What
// follows the version is parsed only if that is ManagerVersion().
absl::StatusOr<ManagerRequest> ParseManagerRequest(absl::string_view bytes);
absl::StatusOr<ManagerReply> ParseManagerReply(absl::string_view bytes);

}  // namespace tenon

#endif  // TENON_SHM_MANAGER_MANAGER_MESSAGE_H_
