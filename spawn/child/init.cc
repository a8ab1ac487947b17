// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/init.h"

#include "absl/strings/string_view.h"
#include "tenon/spawn/child/child_main.h"
#include "tenon/spawn/supervisor/program.h"
#include "tenon/spawn/supervisor/supervisor_image.h"

namespace tenon::spawn {

void Init(int argc, char** argv, const InitOptions& options) {
  SetExecuteFromMemory(options.execute_from_memory);
  RememberProgram(argc > 0 ? argv[0] : "");
  if (argc == 2 && absl::string_view(argv[1]) == kChildFlag) RunChildMain();
}

bool IsInitialized() { return IsProgramRemembered(); }

}  // namespace tenon::spawn
