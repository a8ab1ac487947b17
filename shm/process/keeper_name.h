// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The name of a keeper (keeper.h). The supervisor's program includes this
// header, so it may include none.

#ifndef TENON_SHM_PROCESS_KEEPER_NAME_H_
#define TENON_SHM_PROCESS_KEEPER_NAME_H_

namespace tenon {

// Followed by the keeper's pid in its own pid namespace, in decimal: at most 7
// digits, as the kernel's limit of names is 15 characters.
inline constexpr char kKeeperName[] = "tenon-k";

}  // namespace tenon

#endif  // TENON_SHM_PROCESS_KEEPER_NAME_H_
