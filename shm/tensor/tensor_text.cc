// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors as text.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {
namespace {

constexpr int64_t kMostElements = 16;

using AppendElement = void (*)(std::string& text, const std::byte* element);

template <typename T>
void AppendAs(std::string& text, const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof(value));
  absl::StrAppend(&text, value);
}

template <typename... T>
AppendElement FirstOf(DLDataType dtype) {
  AppendElement found = nullptr;
  static_cast<void>(
      ((SameDtype(dtype, kDtypeOf<T>) && (found = AppendAs<T>) != nullptr) ||
       ...));
  return found;
}

// Null for a dtype whose elements are not shown.
AppendElement AppenderOf(DLDataType dtype) {
  if (dtype.code == kBoolCode && dtype.bits == 8) dtype.code = kDLUInt;
  return FirstOf<float, double, uint8_t, int8_t, uint16_t, int16_t, uint32_t,
                 int32_t, uint64_t, int64_t>(dtype);
}

// The next index in row-major order.
void Advance(absl::Span<const int64_t> shape, absl::Span<int64_t> index) {
  for (size_t d = shape.size(); d-- > 0;) {
    if (++index[d] < shape[d]) return;
    index[d] = 0;
  }
}

}  // namespace

std::string Tensor::ToString() const {
  std::string text = spec_.ToString();
  if (!SameDevice(device(), kCpuDevice)) {
    absl::StrAppend(&text, " on ", DeviceName(device()));
  }
  const AppendElement append = AppenderOf(spec_.dtype());
  if (append == nullptr || !is_on_cpu()) return text;
  const int64_t shown = std::min(spec_.elements(), kMostElements);
  std::array<int64_t, TensorSpec::kMaxRank> all{};
  const auto index = absl::MakeSpan(all).first(spec_.shape().size());
  std::string elements;
  for (int64_t i = 0; i < shown; ++i) {
    const absl::StatusOr<const std::byte*> element = at<const std::byte>(index);
    if (!element.ok()) return text;
    if (i > 0) elements += ", ";
    append(elements, *element);
    Advance(spec_.shape(), index);
  }
  absl::StrAppend(&text, " {", elements);
  if (shown < spec_.elements()) {
    absl::StrAppend(&text, ", ... ", spec_.elements() - shown, " more");
  }
  return text += "}";
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << tensor.ToString();
}

}  // namespace tenon
