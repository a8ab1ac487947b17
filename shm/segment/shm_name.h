// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names in /dev/shm: how Tenon makes, checks, lists and removes them.
//
//   TENON_ASSIGN_OR_RETURN(std::string name, MakeShmName("camera"));
//   // camera-1f0c5e0a9d3b47d28a6be1537cf4028e
//
// A name is "<prefix>-<32 hex digits>": the random part has 128 bits, so no
// process can guess or occupy one in advance. No function here looks into a
// file.

#ifndef TENON_SHM_SEGMENT_SHM_NAME_H_
#define TENON_SHM_SEGMENT_SHM_NAME_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

inline constexpr size_t kMaxShmNameLength = 200;  // NAME_MAX is 255.
inline constexpr size_t kMaxShmPrefixLength = 160;

// OK if `name` is a valid name: 1 to 200 characters out of [A-Za-z0-9._-], the
// first one not a dot (so neither a path nor a hidden file).
// Errors: kInvalidArgument.
absl::Status CheckShmName(absl::string_view name);

// The same for a prefix, which has at most 160 characters.
absl::Status CheckShmPrefix(absl::string_view prefix);

// An unused name: `prefix`, a dash and 128 random bits in hex.
// Errors: kInvalidArgument for a bad prefix.
absl::StatusOr<std::string> MakeShmName(absl::string_view prefix);

// Whether MakeShmName() may have made `name`: it ends in a dash and 32 hex
// digits.
bool IsMadeShmName(absl::string_view name);

// OK if a program may choose `name` (SegmentOptions::name): as CheckShmName(),
// and not IsMadeShmName(). Errors: kInvalidArgument.
absl::Status CheckChosenShmName(absl::string_view name);

// The names in /dev/shm that begin with `prefix`, sorted, each once. A
// snapshot: names come and go. No /dev/shm at all is an empty list.
// Errors: kInvalidArgument for a bad prefix; opendir()'s and readdir()'s.
absl::StatusOr<std::vector<std::string>> ListShmNames(absl::string_view prefix);

// The same of all names, those of other programs included, that are as
// CheckShmName() wants them. Errors: opendir()'s and readdir()'s.
absl::StatusOr<std::vector<std::string>> ListAllShmNames();

// Removes a name; not an error if it does not exist.
// Errors: kInvalidArgument for a bad name, kPermissionDenied if it is another
// user's.
absl::Status RemoveShmName(absl::string_view name);

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_SHM_NAME_H_
