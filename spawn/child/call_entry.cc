// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/call_entry.h"

#include <exception>
#include <functional>
#include <string>
#include <typeinfo>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/demangle.h"
#include "tenon/spawn/child/entry.h"

namespace tenon::spawn {
namespace {

ThrowStack throw_stack = nullptr;

EntryOutcome Uncaught(const std::type_info& type, const std::string& what) {
  const char* const how_to_have_a_stack =
      throw_stack == nullptr ? " (for its stack, link //spawn or "
                               "//spawn/child:throw_stack)"
                             : "";
  return {absl::InternalError(absl::StrCat("uncaught exception ",
                                           Demangle(type.name()), what,
                                           how_to_have_a_stack)),
          CaughtStack()};
}

}  // namespace

void SetThrowStack(ThrowStack function) { throw_stack = function; }

std::string CaughtStack() {
  return throw_stack != nullptr ? throw_stack() : std::string();
}

EntryOutcome CatchAll(const std::function<absl::Status()>& body,
                      const std::function<void(EntryOutcome)>& on_unwinding) {
  try {
    return {body(), ""};
  } catch (const std::exception& e) {
    return Uncaught(typeid(e), absl::StrCat(": ", e.what()));
  } catch (const std::string& text) {
    return Uncaught(typeid(text), absl::StrCat(": ", text));
  } catch (const char* text) {
    return Uncaught(typeid(text), absl::StrCat(": ", text ? text : "null"));
  } catch (...) {
    const std::type_info* type = abi::__cxa_current_exception_type();
    if (type != nullptr) return Uncaught(*type, "");
    // Not a C++ exception. It must not be swallowed by leaving this block, and
    // must not continue either: the process would stay, without its main
    // thread.
    on_unwinding({absl::InternalError(
                      "the entry point ended its thread (pthread_exit() or "
                      "pthread_cancel())"),
                  ""});
    throw;
  }
}

EntryOutcome CallEntry(EntryFunction function, Child& child,
                       const std::function<void(EntryOutcome)>& on_unwinding) {
  return CatchAll([&] { return function(child); }, on_unwinding);
}

}  // namespace tenon::spawn
