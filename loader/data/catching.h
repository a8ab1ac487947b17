// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Catching: exceptions of the user's functions as statuses.

#ifndef TENON_LOADER_DATA_CATCHING_H_
#define TENON_LOADER_DATA_CATCHING_H_

#include <exception>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/spawn/child/call_entry.h"

namespace tenon::loader {

// The stack of the throw, on lines of its own; empty unless the program links
// //spawn/child:throw_stack. Called in a catch clause.
inline std::string StackOfThrow() {
  const std::string stack = spawn::CaughtStack();
  return stack.empty() ? stack : absl::StrCat("\n", stack);
}

// The result of call(), a Status or a StatusOr. An exception becomes kInternal
// with its text, behind `what`, such as "Dataset::Get()".
template <typename Call>
auto Catching(absl::string_view what, Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception& error) {
    return absl::InternalError(
        absl::StrCat(what, " threw: ", error.what(), StackOfThrow()));
  } catch (...) {
    return absl::InternalError(absl::StrCat(
        what, " threw something that is no std::exception", StackOfThrow()));
  }
}

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_CATCHING_H_
