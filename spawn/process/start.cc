// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/process/start.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/packed_call.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/settings/process_options.h"

namespace tenon::spawn {
namespace {

absl::Status Annotate(absl::string_view function, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("cannot start '", function,
                                                  "': ", status.message()));
}

// A missing function is reported at the start, with a list of the registered
// ones.
absl::Status CheckSignature(absl::string_view function,
                            const std::string& signature) {
  if (FindEntry(function) == nullptr) return absl::OkStatus();
  const std::optional<std::string> takes = EntrySignature(function);
  if (!takes) {
    return absl::InvalidArgumentError(
        "it is a TENON_SPAWN_ENTRY, which takes ProcessOptions::argument and "
        "fds (Process::Start()), not typed arguments");
  }
  if (*takes == signature) return absl::OkStatus();
  return SignatureMismatch("the function", *takes, signature);
}

// Returns the hooks of the arguments.
absl::StatusOr<std::vector<StartHook>> FillIn(
    absl::string_view function, const std::string& signature,
    absl::StatusOr<PackedArguments> arguments, int nprocs,
    ProcessOptions& options) {
  TENON_RETURN_IF_ERROR(CheckSignature(function, signature));
  TENON_RETURN_IF_ERROR(arguments.status());
  if (!options.entry.empty() || !options.argument.empty() ||
      !options.fds.empty()) {
    return absl::InvalidArgumentError(
        "options.entry, argument and fds must be empty: Start() sets them");
  }
  if (nprocs > 1 && !arguments->exclusive.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(arguments->exclusive,
                     " can be given to only one process, not to ", nprocs));
  }
  TENON_ASSIGN_OR_RETURN(PackedArguments sent,
                         EncloseTensors(*std::move(arguments)));
  options.entry = std::string(function);
  options.argument = std::move(sent.bytes);
  options.fds = std::move(sent.fds);
  return std::move(sent.on_start);
}

void Call(const std::vector<StartHook>& hooks, const Process& process) {
  for (const StartHook& hook : hooks) hook(process.pid(), process.end_fd());
}

}  // namespace

absl::StatusOr<Processes> StartCall(int nprocs, absl::string_view function,
                                    const std::string& signature,
                                    ProcessOptions options,
                                    absl::StatusOr<PackedArguments> arguments) {
  const auto hooks =
      FillIn(function, signature, std::move(arguments), nprocs, options);
  if (!hooks.ok()) return Annotate(function, hooks.status());
  TENON_ASSIGN_OR_RETURN(Processes started,
                         Processes::Start(nprocs, std::move(options)));
  for (size_t i = 0; i < started.nprocs(); ++i) Call(*hooks, started[i]);
  return started;
}

absl::StatusOr<Process> StartCall(absl::string_view function,
                                  const std::string& signature,
                                  ProcessOptions options,
                                  absl::StatusOr<PackedArguments> arguments) {
  const auto hooks =
      FillIn(function, signature, std::move(arguments), 1, options);
  if (!hooks.ok()) return Annotate(function, hooks.status());
  TENON_ASSIGN_OR_RETURN(Process started, Process::Start(std::move(options)));
  Call(*hooks, started);
  return started;
}

absl::StatusOr<std::string> NameOfFunction(void (*function)()) {
  std::optional<std::string> name = EntryNameOf(function);
  if (name) return *std::move(name);
  return absl::NotFoundError(
      "this function is not registered: write TENON_SPAWN_FUNCTION(its name); "
      "below it");
}

}  // namespace tenon::spawn
