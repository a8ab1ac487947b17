// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Start: children that run a function with arguments.
//
//   absl::StatusOr<Processes> workers =
//       spawn::Start(8, "Train", {}, "resnet", rates, weights);
//   if (!workers.ok()) return workers.status();
//   absl::Status how = workers->Join();
//
// `function` is a TENON_SPAWN_FUNCTION (function.h), given by its name or as a
// pointer. It gets the index, then `arguments`: the same in each child. An
// argument passed by std::move() is moved from; all others are unchanged, and
// memory and locks among them are then shared.
//
// With a name, the arguments are sent with the types they have (5 is an int,
// and text is a std::string), and these must equal the parameters' types. With
// a pointer, they are converted to the parameters' types as in any call.

#ifndef TENON_SPAWN_PROCESS_START_H_
#define TENON_SPAWN_PROCESS_START_H_

#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/packed_call.h"
#include "tenon/spawn/arguments/plain_arguments.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/settings/process_options.h"

namespace tenon::spawn {

// Children that call the function: started with `options`, of which entry,
// argument and fds must be empty, and are filled in. Not for users.
// Errors: those of Start().
absl::StatusOr<Processes> StartCall(int nprocs, absl::string_view function,
                                    const std::string& signature,
                                    ProcessOptions options,
                                    absl::StatusOr<PackedArguments> arguments);
// The same for one child.
absl::StatusOr<Process> StartCall(absl::string_view function,
                                  const std::string& signature,
                                  ProcessOptions options,
                                  absl::StatusOr<PackedArguments> arguments);

// The name under which `function` is registered. Errors: kNotFound.
absl::StatusOr<std::string> NameOfFunction(void (*function)());

// Starts `nprocs` children. options.entry, argument and fds must be empty.
// Errors: kNotFound if the function is not registered; kInvalidArgument if it
// takes other types, naming both, if an argument that is exclusive to one
// process is given to several, or for options that are not empty; errors of
// packing an argument (ArgumentTraits); those of Processes::Start().
template <typename... A>
absl::StatusOr<Processes> Start(int nprocs, absl::string_view function,
                                ProcessOptions options, A&&... arguments) {
  return StartCall(nprocs, function, Signature<TravelsAs<A>...>(),
                   std::move(options),
                   PackCall<TravelsAs<A>...>(std::forward<A>(arguments)...));
}

template <typename R, typename... P, typename... A>
absl::StatusOr<Processes> Start(int nprocs, R (*function)(int, P...),
                                ProcessOptions options, A&&... arguments) {
  const absl::StatusOr<std::string> name =
      NameOfFunction(reinterpret_cast<void (*)()>(function));
  if (!name.ok()) return name.status();
  return StartCall(nprocs, *name, Signature<std::decay_t<P>...>(),
                   std::move(options),
                   PackCall<std::decay_t<P>...>(std::forward<A>(arguments)...));
}

// The same for a single child, whose index is options.index. Several of them
// with one fate: Processes::Of().
template <typename... A>
absl::StatusOr<Process> StartProcess(absl::string_view function,
                                     ProcessOptions options, A&&... arguments) {
  return StartCall(function, Signature<TravelsAs<A>...>(), std::move(options),
                   PackCall<TravelsAs<A>...>(std::forward<A>(arguments)...));
}

template <typename R, typename... P, typename... A>
absl::StatusOr<Process> StartProcess(R (*function)(int, P...),
                                     ProcessOptions options, A&&... arguments) {
  const absl::StatusOr<std::string> name =
      NameOfFunction(reinterpret_cast<void (*)()>(function));
  if (!name.ok()) return name.status();
  return StartCall(*name, Signature<std::decay_t<P>...>(), std::move(options),
                   PackCall<std::decay_t<P>...>(std::forward<A>(arguments)...));
}

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_PROCESS_START_H_
