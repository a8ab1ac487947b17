// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/sample.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "dlpack/dlpack.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/shm/tensor/dtype.h"

namespace tenon::loader {

absl::Status SampleSpan::InData(const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("Sample::data(): ", status.message()));
}

absl::Status SampleSpan::NoField(int f) const {
  return absl::NotFoundError(absl::StrCat("Sample::data(): there is no field ",
                                          f, "; there are ", fields_,
                                          " fields"));
}

absl::Status SampleSpan::NotInPart(absl::string_view name) {
  return absl::NotFoundError(
      absl::StrCat("Sample::data(): field '", name,
                   "' is not among those of this part of the sample"));
}

absl::Status SampleSpan::WrongDtype(const BatchLayout::Field& field,
                                    DLDataType used) {
  return absl::InvalidArgumentError(
      absl::StrCat("Sample::data(): field '", field.name, "' has elements of ",
                   DtypeName(field.tensor.spec().dtype()),
                   " and was accessed as ", DtypeName(used)));
}

absl::Status SampleSpan::NotOneElement(size_t elements) {
  return absl::InvalidArgumentError(
      absl::StrCat("Sample::Set(): the field has ", elements,
                   " elements; Set() writes one: use data() for more"));
}

}  // namespace tenon::loader
