// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The environment of a child. Not for users.

#ifndef TENON_SPAWN_SETTINGS_ENVIRONMENT_H_
#define TENON_SPAWN_SETTINGS_ENVIRONMENT_H_

#include <string>
#include <utility>
#include <vector>

namespace tenon::spawn {

// This process's environment with `added`, which replaces variables of the same
// name: "NAME=value" each. As thread-safe as getenv().
std::vector<std::string> MergedEnvironment(
    const std::vector<std::pair<std::string, std::string>>& added);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SETTINGS_ENVIRONMENT_H_
