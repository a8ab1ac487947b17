// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/process/start.h"

#include <optional>
#include <string>
#include <utility>

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

// One that is not there is found missing by whoever starts it, with a list of
// those that are.
absl::Status CheckSignature(absl::string_view function,
                            const std::string& signature) {
  if (FindEntry(function) == nullptr) return absl::OkStatus();
  const std::optional<std::string> takes = EntrySignature(function);
  if (!takes) {
    return absl::InvalidArgumentError(
        "it is a TENON_SPAWN_ENTRY, which takes ProcessOptions::argument and "
        "fds (Process::Start()), no typed arguments");
  }
  if (*takes == signature) return absl::OkStatus();
  return SignatureMismatch("the function", *takes, signature);
}

absl::Status FillIn(absl::string_view function, const std::string& signature,
                    absl::StatusOr<PackedArguments> arguments, int nprocs,
                    ProcessOptions& options) {
  TENON_RETURN_IF_ERROR(CheckSignature(function, signature));
  TENON_RETURN_IF_ERROR(arguments.status());
  if (!options.entry.empty() || !options.argument.empty() ||
      !options.fds.empty()) {
    return absl::InvalidArgumentError(
        "options.entry, argument and fds are what Start() fills in");
  }
  if (nprocs > 1 && !arguments->only_for_one.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(arguments->only_for_one, " can be given to one process; ",
                     "there are ", nprocs));
  }
  TENON_ASSIGN_OR_RETURN(PackedArguments sent,
                         EncloseTensors(*std::move(arguments)));
  options.entry = std::string(function);
  options.argument = std::move(sent.bytes);
  options.fds = std::move(sent.fds);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Processes> StartPacked(
    int nprocs, absl::string_view function, const std::string& signature,
    ProcessOptions options, absl::StatusOr<PackedArguments> arguments) {
  const absl::Status filled =
      FillIn(function, signature, std::move(arguments), nprocs, options);
  if (!filled.ok()) return Annotate(function, filled);
  return Processes::Start(nprocs, std::move(options));
}

absl::StatusOr<Process> StartPackedProcess(
    absl::string_view function, const std::string& signature,
    ProcessOptions options, absl::StatusOr<PackedArguments> arguments) {
  const absl::Status filled =
      FillIn(function, signature, std::move(arguments), 1, options);
  if (!filled.ok()) return Annotate(function, filled);
  return Process::Start(std::move(options));
}

absl::StatusOr<std::string> NameOfFunction(void (*function)()) {
  std::optional<std::string> name = EntryNameOf(function);
  if (name) return *std::move(name);
  return absl::NotFoundError(
      "this function is not registered: write TENON_SPAWN_FUNCTION(its name); "
      "below it");
}

}  // namespace tenon::spawn
