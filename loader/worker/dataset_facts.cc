// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/dataset_facts.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dlpack/dlpack.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/loader/data/catching.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/settings/process_options.h"

namespace tenon::loader {
namespace {

constexpr char kNoSamples[] =
    "this dataset has no samples: only the loader's worker program can make it";

class Described : public Dataset {
 public:
  explicit Described(DatasetFacts facts) : facts_(std::move(facts)) {}
  int64_t size() const override { return facts_.size; }
  SampleSpec spec() const override { return facts_.spec; }
  absl::Status Get(int64_t, SampleRandom&, Sample&) override {
    return absl::UnimplementedError(kNoSamples);
  }
  bool thread_safe() const override { return facts_.thread_safe; }

 private:
  DatasetFacts facts_;
};

class DescribedIterable : public IterableDataset {
 public:
  explicit DescribedIterable(DatasetFacts facts) : facts_(std::move(facts)) {}
  int64_t shards() const override { return facts_.shards; }
  int64_t open_shards() const override { return facts_.open_shards; }
  SampleSpec spec() const override { return facts_.spec; }
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t,
                                                     int64_t) override {
    return absl::UnimplementedError(kNoSamples);
  }

 private:
  DatasetFacts facts_;
};

absl::StatusOr<SampleSpec::Field> GetField(ArchiveReader& reader) {
  SampleSpec::Field field;
  TENON_ASSIGN_OR_RETURN(field.name, reader.GetString());
  DLDataType dtype = {};
  TENON_ASSIGN_OR_RETURN(dtype.code, reader.Get<uint8_t>());
  TENON_ASSIGN_OR_RETURN(dtype.bits, reader.Get<uint8_t>());
  TENON_ASSIGN_OR_RETURN(dtype.lanes, reader.Get<uint16_t>());
  TENON_ASSIGN_OR_RETURN(const uint64_t dimensions, reader.Get<uint64_t>());
  std::vector<int64_t> shape;
  // Ends with the bytes at the latest.
  for (uint64_t i = 0; i < dimensions; ++i) {
    TENON_ASSIGN_OR_RETURN(const int64_t extent, reader.Get<int64_t>());
    shape.push_back(extent);
  }
  TENON_ASSIGN_OR_RETURN(field.tensor, TensorSpec::Contiguous(dtype, shape));
  TENON_ASSIGN_OR_RETURN(const uint8_t kind, reader.Get<uint8_t>());
  if (kind > static_cast<uint8_t>(FieldKind::kOutput)) {
    return absl::DataLossError(absl::StrCat("unknown kind of field ", kind));
  }
  field.kind = static_cast<FieldKind>(kind);
  TENON_ASSIGN_OR_RETURN(field.padding, reader.GetString());
  TENON_ASSIGN_OR_RETURN(field.row_length, reader.Get<int64_t>());
  return field;
}

absl::StatusOr<DatasetFacts> Get(ArchiveReader& reader) {
  DatasetFacts facts;
  TENON_ASSIGN_OR_RETURN(const uint64_t fields, reader.Get<uint64_t>());
  for (uint64_t i = 0; i < fields; ++i) {
    TENON_ASSIGN_OR_RETURN(SampleSpec::Field field, GetField(reader));
    facts.spec.Add(std::move(field));
  }
  TENON_RETURN_IF_ERROR(facts.spec.status());
  TENON_ASSIGN_OR_RETURN(facts.size, reader.Get<int64_t>());
  TENON_ASSIGN_OR_RETURN(facts.shards, reader.Get<int64_t>());
  TENON_ASSIGN_OR_RETURN(facts.open_shards, reader.Get<int64_t>());
  TENON_ASSIGN_OR_RETURN(const uint8_t thread_safe, reader.Get<uint8_t>());
  if (thread_safe > 1) {
    return absl::DataLossError(
        absl::StrCat("bool of value ", static_cast<int>(thread_safe)));
  }
  facts.thread_safe = thread_safe != 0;
  TENON_RETURN_IF_ERROR(reader.Finish());
  return facts;
}

// `how` the process was without it.
absl::Status LacksInit(absl::string_view process, const WorkerProgram& program,
                       absl::string_view how) {
  return absl::FailedPreconditionError(
      absl::StrCat(process, ": program '", program.program, "' ", how,
                   " a call of tenon::spawn::Init(); call it at the top of "
                   "main, or set WorkerProgram::program to "
                   "//loader:tenon_loader_worker"));
}

absl::Status NotMade(absl::string_view process, const DatasetRecipe& recipe,
                     absl::Duration patience) {
  return absl::DeadlineExceededError(absl::StrCat(
      process, " has not made dataset '", recipe.name(), "' within ",
      absl::FormatDuration(patience), "; raise LoaderOptions::timeout"));
}

}  // namespace

absl::StatusOr<DatasetFacts> FactsOf(const Dataset& dataset) {
  DatasetFacts facts;
  TENON_ASSIGN_OR_RETURN(
      facts.spec,
      Catching("spec() of the dataset",
               [&]() -> absl::StatusOr<SampleSpec> { return dataset.spec(); }));
  TENON_RETURN_IF_ERROR(facts.spec.status());
  TENON_ASSIGN_OR_RETURN(facts.size, Catching("size() of the dataset",
                                              [&]() -> absl::StatusOr<int64_t> {
                                                return dataset.size();
                                              }));
  TENON_ASSIGN_OR_RETURN(
      facts.thread_safe,
      Catching("thread_safe() of the dataset", [&]() -> absl::StatusOr<bool> {
        return dataset.thread_safe();
      }));
  const auto* const iterable = dynamic_cast<const IterableDataset*>(&dataset);
  if (iterable == nullptr) return facts;
  TENON_ASSIGN_OR_RETURN(
      facts.shards,
      Catching("shards() of the dataset", [&]() -> absl::StatusOr<int64_t> {
        return iterable->shards();
      }));
  TENON_ASSIGN_OR_RETURN(facts.open_shards,
                         Catching("open_shards() of the dataset",
                                  [&]() -> absl::StatusOr<int64_t> {
                                    return iterable->open_shards();
                                  }));
  if (facts.shards >= 1 || facts.shards == kShardPerWorker) return facts;
  return absl::InvalidArgumentError(absl::StrCat(
      "the dataset has ", facts.shards, " shards; want 1 to ", kMaxShards));
}

std::string Encode(const DatasetFacts& facts) {
  ArchiveWriter writer;
  writer.Put(static_cast<uint64_t>(facts.spec.fields().size()));
  for (const SampleSpec::Field& field : facts.spec.fields()) {
    writer.PutString(field.name);
    const DLDataType dtype = field.tensor.dtype();
    writer.Put(dtype.code);
    writer.Put(dtype.bits);
    writer.Put(dtype.lanes);
    writer.Put(static_cast<uint64_t>(field.tensor.shape().size()));
    for (const int64_t extent : field.tensor.shape()) writer.Put(extent);
    writer.Put(field.kind);
    writer.PutString(field.padding);
    writer.Put(field.row_length);
  }
  writer.Put(facts.size);
  writer.Put(facts.shards);
  writer.Put(facts.open_shards);
  writer.Put(static_cast<uint8_t>(facts.thread_safe));
  return std::move(writer).bytes();
}

absl::StatusOr<DatasetFacts> DecodeDatasetFacts(absl::string_view bytes) {
  ArchiveReader reader(bytes);
  absl::StatusOr<DatasetFacts> facts = Get(reader);
  if (facts.ok() && facts->shards >= kShardPerWorker) return facts;
  return absl::DataLossError(
      absl::StrCat("malformed facts of a dataset: ",
                   facts.ok() ? absl::StrCat(facts->shards, " shards; want ",
                                             kShardPerWorker, " or more")
                              : std::string(facts.status().message())));
}

std::unique_ptr<Dataset> DatasetOf(DatasetFacts facts) {
  if (facts.shards == 0) return std::make_unique<Described>(std::move(facts));
  return std::make_unique<DescribedIterable>(std::move(facts));
}

absl::StatusOr<std::unique_ptr<Dataset>> DescribeDataset(
    const WorkerProgram& program, const DatasetRecipe& recipe,
    absl::Duration patience, absl::Duration start_patience) {
  TENON_ASSIGN_OR_RETURN(auto ends, Channel::CreatePair());
  WorkerSetup setup;
  setup.batch_size = 1;
  setup.dataset = recipe.name();
  setup.arguments = recipe.bytes();
  setup.plugin = program.plugin;
  std::vector<int> fds = {ends.second.fd()};
  for (const int fd : recipe.fds()) fds.push_back(fd);
  // Its stderr says why a library has ended the process.
  spawn::ProcessOptions options = {.entry = "tenon.loader.describe",
                                   .program = program.program,
                                   .argument = Encode(setup),
                                   .ignore_interrupt = true,
                                   .keep_stderr_tail = true};
  absl::StatusOr<std::vector<spawn::Process>> processes =
      spawn::Process::StartEach(options, {&fds, 1});
  // It has ended before it got its descriptors.
  if (absl::IsUnavailable(processes.status())) {
    return LacksInit(processes.status().message(), program, "has ended before");
  }
  TENON_RETURN_IF_ERROR(processes.status());
  spawn::Process& process = processes->front();
  ends.second.Release().Reset();
  // An empty message when it runs, then the facts.
  absl::StatusOr<Message> message =
      ends.first.Receive(Deadline::After(start_patience), 0);
  if (absl::IsDeadlineExceeded(message.status())) {
    return LacksInit(
        process.Describe(), program,
        absl::StrCat("has run for ", absl::FormatDuration(start_patience),
                     " without"));
  }
  const bool has_run = message.ok();
  const Deadline deadline = patience == absl::InfiniteDuration()
                                ? Deadline::Never()
                                : Deadline::After(patience);
  if (has_run) message = ends.first.Receive(deadline, 0);
  if (absl::IsDeadlineExceeded(message.status())) {
    return NotMade(process.Describe(), recipe, patience);
  }
  const absl::Status ended = process.Join(deadline);
  if (absl::IsDeadlineExceeded(ended)) {
    return NotMade(process.Describe(), recipe, patience);
  }
  TENON_RETURN_IF_ERROR(ended);
  if (!has_run && absl::IsUnavailable(message.status())) {
    return LacksInit(process.Describe(), program, "has ended before");
  }
  if (!message.ok()) {
    return absl::Status(
        message.status().code(),
        absl::StrCat(process.Describe(), ": ", message.status().message()));
  }
  TENON_ASSIGN_OR_RETURN(DatasetFacts facts,
                         DecodeDatasetFacts(message->bytes));
  return DatasetOf(std::move(facts));
}

}  // namespace tenon::loader
