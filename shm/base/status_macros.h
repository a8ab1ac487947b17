// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TENON_RETURN_IF_ERROR and TENON_ASSIGN_OR_RETURN: for .cc files and tests,
// never in a public header. (Debian 12's Abseil has no status_macros.h.)
//
//   TENON_RETURN_IF_ERROR(tensor.Fill(0.5f));
//   TENON_ASSIGN_OR_RETURN(Tensor image, tensor.Select(0, 5));

#ifndef TENON_SHM_BASE_STATUS_MACROS_H_
#define TENON_SHM_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/cplusplus_20.h"

// Returns the status of `expr` from the enclosing function if it is not OK.
#define TENON_RETURN_IF_ERROR(expr)                \
  do {                                             \
    absl::Status tenon_status_ = (expr);           \
    if (!tenon_status_.ok()) return tenon_status_; \
  } while (false)

// Evaluates `expr`, a StatusOr; returns its status if it is not OK, else moves
// its value into `lhs`, which may declare a variable. A `lhs` that contains a
// comma needs parentheses or an alias.
#define TENON_ASSIGN_OR_RETURN(lhs, expr) \
  TENON_ASSIGN_OR_RETURN_(TENON_CONCAT_(tenon_or_, __LINE__), lhs, expr)

#define TENON_ASSIGN_OR_RETURN_(value_or, lhs, expr)       \
  auto value_or = (expr);                                  \
  if (!value_or.ok()) return std::move(value_or).status(); \
  lhs = *std::move(value_or)

#define TENON_CONCAT_(a, b) TENON_CONCAT_INNER_(a, b)
#define TENON_CONCAT_INNER_(a, b) a##b

#endif  // TENON_SHM_BASE_STATUS_MACROS_H_
