// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Fuzz target of a tensor receiver's parsers: records, bodies, and the list of
// a sender's descriptors. Each is compared with a second, plainer
// implementation; parsed values are encoded to the same bytes.
//
// The first byte of an input selects:
//   0 mod 3: a record
//   1 mod 3: the body of a message
//   2 mod 3: a byte, the number of descriptors, and the list
//
// As a test it replays testdata/tensor_wire_fuzz and mutations of it. As a
// fuzzer: clang++ -std=c++20 -DTENON_FUZZ -fsanitize=fuzzer,address,undefined,
// with the sources of //ipc/tensor_codec:tensor_fds and
// //ipc/tensor_codec:tensor_wire and their dependencies.

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/tensor_codec/tensor_fds.h"
#include "tenon/ipc/tensor_codec/tensor_wire.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor_spec.h"

#ifndef TENON_FUZZ
#include "gtest/gtest.h"
#include "tenon/shm/testing/fuzz_testing.h"
#endif

namespace tenon {
namespace {

std::span<const std::byte> AsBytes(absl::string_view bytes) {
  return std::as_bytes(std::span(bytes.data(), bytes.size()));
}

void CheckIsDataLoss(const absl::Status& status) {
  TENON_CHECK(absl::IsDataLoss(status), "an error is not kDataLoss");
  TENON_CHECK(!status.message().empty(), "an error has no message");
}

// Walks over bytes; false from the first missing byte on.
class Walk {
 public:
  explicit Walk(absl::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && at_ == bytes_.size(); }
  size_t at() const { return at_; }

  uint64_t Number(size_t bytes) {
    uint64_t value = 0;
    if (!Skip(bytes)) return 0;
    std::memcpy(&value, bytes_.data() + at_ - bytes, bytes);
    return value;
  }
  bool Skip(uint64_t bytes) {
    ok_ = ok_ && bytes <= bytes_.size() - at_;
    if (ok_) at_ += static_cast<size_t>(bytes);
    return ok_;
  }
  void Require(bool condition) { ok_ = ok_ && condition; }

 private:
  const absl::string_view bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

// ---- Bodies ----

void WalkStorage(Walk& walk) {
  switch (walk.Number(1)) {
    case 0:
    case 1:
      return;
    case 2:
      walk.Skip(48);
      return;
    case 3:
      walk.Skip(34);
      walk.Skip(walk.Number(1));
      return;
    case 4:
      walk.Skip(52);
      return;
    default:
      walk.Require(false);
  }
}

void WalkTensor(Walk& walk, uint64_t storages, bool strides) {
  walk.Require(walk.Number(4) < storages);
  walk.Skip(4);  // The dtype.
  const uint64_t rank = walk.Number(4);
  walk.Require(rank <= 8);
  walk.Skip(8);
  std::vector<uint64_t> dense(8);
  uint64_t stride = 1;
  std::vector<uint64_t> extents;
  for (uint64_t i = 0; i < rank && walk.ok(); ++i) {
    extents.push_back(walk.Number(8));
  }
  bool is_dense = true;
  for (size_t i = extents.size(); i-- > 0;) {
    dense[i] = stride;
    stride *= extents[i] == 0 ? 1 : extents[i];
  }
  for (uint64_t i = 0; strides && i < rank && walk.ok(); ++i) {
    if (walk.Number(8) != dense[i]) is_dense = false;
  }
  walk.Require(!strides || !is_dense);
}

void WalkField(Walk& walk, uint64_t storages) {
  switch (walk.Number(1)) {
    case 1:
    case 2:
      walk.Skip(8);
      return;
    case 3:
      walk.Skip(walk.Number(8));
      return;
    case 4:
      return WalkTensor(walk, storages, /*strides=*/true);
    case 5:
      return WalkTensor(walk, storages, /*strides=*/false);
    default:
      walk.Require(false);
  }
}

bool IsBody(absl::string_view body) {
  Walk walk(body);
  const uint64_t storages = walk.Number(4);
  const uint64_t fields = walk.Number(4);
  for (uint64_t i = 0; i < storages && walk.ok(); ++i) WalkStorage(walk);
  for (uint64_t i = 0; i < fields && walk.ok(); ++i) {
    WalkField(walk, storages);
  }
  return walk.at_end();
}

void FuzzBody(absl::string_view body) {
  TensorWire wire;
  const absl::Status parsed = ParseWire(AsBytes(body), &wire);
  TENON_CHECK(parsed.ok() == IsBody(body),
              "a body was refused, or something else taken for one");
  if (!parsed.ok()) return CheckIsDataLoss(parsed);
  std::string again(WireBytes(wire), '\0');
  TENON_CHECK(again.size() == body.size(), "a body changes its size");
  WriteWire(wire, std::as_writable_bytes(std::span(again)));
  TENON_CHECK(again == body, "what was read is not what is written");
  for (const WireField& field : wire.fields) {
    // May return anything, and must be safe to call.
    if (const auto* tensor = std::get_if<WireTensor>(&field)) {
      tensor->spec->CheckFits(4096).IgnoreError();
      TENON_CHECK(!tensor->spec->ToString().empty(), "a spec says nothing");
    }
  }
}

// ---- Records ----

bool IsRecord(absl::string_view record) {
  Walk walk(record);
  walk.Require(walk.Number(2) == 0x5154);
  walk.Require(walk.Number(1) == 2);
  const uint64_t form = walk.Number(1);
  const uint64_t bytes = walk.Number(4);
  walk.Require(form == 1 || (form == 2 && bytes == 56));
  return walk.Skip(bytes);
}

bool IsTensorRecord(absl::string_view record) {
  Walk walk(record);
  walk.Require(walk.Number(2) == 0x5154);
  walk.Require(walk.Number(1) == 2);
  walk.Require(walk.Number(1) == 3);
  const uint64_t bytes = walk.Number(4);
  walk.Skip(48);
  walk.Skip(4);  // The dtype.
  const uint64_t rank = walk.Number(4);
  walk.Require(rank <= 8);
  walk.Require(bytes == 48 + 16 + 8 * rank);
  walk.Skip(8);
  return walk.Skip(8 * rank);
}

bool IsShortRecord(absl::string_view record) {
  Walk walk(record);
  walk.Require(walk.Number(2) == 0x5154);
  walk.Require(walk.Number(1) == 2);
  walk.Require(walk.Number(1) == 4);
  walk.Skip(40);
  walk.Require(walk.Number(1) <= 8);
  return walk.Skip(11);
}

// A record of one tensor in a block. False if it is another one, or if its
// tensor is outside of the block.
bool FuzzTensorRecord(absl::string_view bytes) {
  WireTensorRecord found;
  if (!found.Parse(AsBytes(bytes))) return false;
  TENON_CHECK(IsTensorRecord(bytes) || IsShortRecord(bytes),
              "another record was taken for one");
  const TensorSpec spec = found.spec().spec();
  TENON_CHECK(spec.CheckFits(found.block().size).ok(),
              "a tensor outside of its block was accepted");
  std::string again(256, '\0');
  const size_t size = WriteTensorRecord(
      found.block(), spec, std::as_writable_bytes(std::span(again)));
  TENON_CHECK(size != 0, "what was read cannot be written");
  again.resize(size);
  const BlockDescriptor block = found.block();
  TENON_CHECK(found.Parse(AsBytes(again)) && found.block() == block &&
                  found.spec().spec() == spec,
              "what is written is not what was read");
  // The writer of short records writes the same, also after other records.
  WireWordsWriter writer;
  WireWords words;
  for (int i = 0; i < 2; ++i) {
    const bool is_short = writer.Write(block, spec, words);
    TENON_CHECK(is_short == (again[3] == 4) &&
                    (!is_short ||
                     std::memcmp(&words, again.data(), sizeof(words)) == 0),
                "the two writers differ");
    const TensorSpec scalar =
        TensorSpec::Contiguous(kDtypeOf<double>, {}).value();
    TENON_CHECK(writer.Write({.size = 64}, scalar, words), "a scalar");
  }
  // A short record has one form.
  TENON_CHECK(bytes[3] == 3 || again == bytes.substr(0, size),
              "what was read is not what is written");
  // The next record does not depend on the one before.
  std::string other(again);
  const size_t at = other[3] == 3 ? 8 + 40 : 40;  // The size.
  other[at] = static_cast<char>(other[at] ^ 1);
  WireTensorRecord fresh;
  TENON_CHECK(found.Parse(AsBytes(other)) == fresh.Parse(AsBytes(other)),
              "a record was parsed with the result of another one");
  TENON_CHECK(!spec.ToString().empty(), "a spec says nothing");
  return true;
}

void FuzzRecord(absl::string_view bytes) {
  if (FuzzTensorRecord(bytes)) {
    return CheckIsDataLoss(ParseWireRecord(AsBytes(bytes)).status());
  }
  const absl::StatusOr<WireRecord> record = ParseWireRecord(AsBytes(bytes));
  TENON_CHECK(record.ok() == IsRecord(bytes),
              "a record was refused, or something else taken for one");
  if (!record.ok()) return CheckIsDataLoss(record.status());
  if (!record->in_block) {
    const absl::string_view body(
        reinterpret_cast<const char*>(record->body.data()),
        record->body.size());
    TENON_CHECK(body.data() == bytes.data() + 8, "the body is elsewhere");
    return FuzzBody(body);
  }
  std::string again(kWireRecordLeastBytes, '\0');
  WriteBlockRecord(record->block, record->body_bytes,
                   std::as_writable_bytes(std::span(again)));
  TENON_CHECK(again == bytes.substr(0, again.size()),
              "what was read is not what is written");
}

// ---- The list of descriptors ----

bool IsOffer(absl::string_view offer) {
  Walk walk(offer);
  walk.Require(walk.Number(8) == 0x31726566666f6154);
  walk.Skip(20);
  walk.Require(walk.Number(4) <= 1);
  return walk.ok();
}

bool IsList(absl::string_view list, size_t fds) {
  Walk walk(list);
  while (walk.ok() && walk.at() < list.size()) {
    const uint64_t kind = walk.Number(1);
    walk.Require(kind == 1 || kind == 2);
    if (kind == 2) {
      walk.Skip(8);
      walk.Require(walk.Number(2) < fds);
      continue;
    }
    const uint64_t count = walk.Number(1);
    for (uint64_t n = 0; n < count; ++n) walk.Require(walk.Number(2) < fds);
    const uint64_t length = walk.Number(1);
    const size_t begin = walk.at();
    walk.Skip(length);
    walk.Require(walk.ok() &&
                 IsOffer(list.substr(begin, static_cast<size_t>(length))));
  }
  return walk.at_end();
}

int Duplicate() { return fcntl(0, F_DUPFD_CLOEXEC, 0); }

void FuzzList(absl::string_view input) {
  if (input.empty()) return;
  const auto count = static_cast<size_t>(input[0] & 7);
  const absl::string_view list = input.substr(1);
  const int before = UniqueFd(Duplicate()).get();
  {
    Message item = {.bytes = std::string(list.data(), list.size()), .fds = {}};
    for (size_t i = 0; i < count; ++i) item.fds.emplace_back(Duplicate());
    const auto found = ReceivedTensorFds::From(std::move(item));
    TENON_CHECK(found.ok() == IsList(list, count),
                "a list was refused, or something else taken for one");
    if (!found.ok()) CheckIsDataLoss(found.status());
  }
  TENON_CHECK(UniqueFd(Duplicate()).get() == before,
              "a descriptor was left open");
}

void FuzzOne(absl::string_view input) {
  if (input.empty()) return;
  const int which = static_cast<uint8_t>(input[0]) % 3;
  input.remove_prefix(1);
  if (which == 0) return FuzzRecord(input);
  if (which == 1) return FuzzBody(input);
  FuzzList(input);
}

}  // namespace
}  // namespace tenon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tenon::FuzzOne({reinterpret_cast<const char*>(data), size});
  return 0;
}

#ifndef TENON_FUZZ

namespace tenon {
namespace {

TEST(TensorWireFuzzTest, CorpusAndItsMutations) {
  ReplayCorpus(LLVMFuzzerTestOneInput,
               "ipc/tensor_codec/testdata/tensor_wire_fuzz",
               {.mutations = 300'000});
}

}  // namespace
}  // namespace tenon

#endif  // TENON_FUZZ
