// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The loader's worker process: entry point "tenon.loader.worker". Its
// descriptors are its end of the channel, the control memory, its note, and
// those of the dataset's arguments. "tenon.loader.describe" sends an empty
// message, then the facts of a dataset; its descriptors are the same without
// the two.

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/worker/dataset_facts.h"
#include "tenon/loader/worker/load_plugin.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/loader/worker/run_worker.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/spawn/child/entry.h"

namespace tenon::loader {
namespace {

// The recipe, with the descriptors from number `first_fd` on; after the plugin
// has been loaded.
absl::StatusOr<DatasetRecipe> RecipeOf(const WorkerSetup& setup,
                                       spawn::Child& child, size_t first_fd) {
  TENON_RETURN_IF_ERROR(LoadPlugin(setup.plugin));
  std::vector<UniqueFd> fds;
  for (size_t i = first_fd; i < child.fd_count(); ++i) {
    fds.push_back(child.TakeFd(i));
  }
  return DatasetRecipe::FromParts(setup.dataset, setup.arguments,
                                  std::move(fds));
}

absl::Status RunWorkerProcess(spawn::Child& child) {
  TENON_ASSIGN_OR_RETURN(const WorkerSetup setup,
                         DecodeWorkerSetup(child.argument_view()));
  TENON_ASSIGN_OR_RETURN(Channel channel, Channel::Adopt(child.TakeFd(0)));
  TENON_ASSIGN_OR_RETURN(
      const Segment segment,
      Segment::Adopt(child.TakeFd(1), SegmentKind::kOwnerWritten));
  if (segment.size_bytes() < sizeof(WorkerControl)) {
    return absl::DataLossError(
        absl::StrCat("control memory of ", segment.size_bytes(),
                     " bytes; want ", sizeof(WorkerControl)));
  }
  TENON_ASSIGN_OR_RETURN(const ReadOnlyMapping control, segment.MapReadOnly());
  TENON_ASSIGN_OR_RETURN(
      const Segment note_segment,
      Segment::Adopt(child.TakeFd(2), SegmentKind::kSharedWritable));
  if (note_segment.size_bytes() < sizeof(WorkerNote)) {
    return absl::DataLossError(
        absl::StrCat("note of ", note_segment.size_bytes(), " bytes; want ",
                     sizeof(WorkerNote)));
  }
  TENON_ASSIGN_OR_RETURN(const WritableMapping note,
                         note_segment.MapWritable());
  TENON_ASSIGN_OR_RETURN(const DatasetRecipe recipe, RecipeOf(setup, child, 3));
  return RunWorker(child.index(), setup, recipe, std::move(channel),
                   *reinterpret_cast<const WorkerControl*>(control.data()),
                   *reinterpret_cast<WorkerNote*>(note.data()));
}

absl::Status DescribeOnce(spawn::Child& child) {
  TENON_ASSIGN_OR_RETURN(const WorkerSetup setup,
                         DecodeWorkerSetup(child.argument_view()));
  TENON_ASSIGN_OR_RETURN(Channel channel, Channel::Adopt(child.TakeFd(0)));
  // The consumer has one limit for the program and another for the dataset.
  TENON_RETURN_IF_ERROR(channel.Send("", {}, Deadline::Never()));
  TENON_ASSIGN_OR_RETURN(const DatasetRecipe recipe, RecipeOf(setup, child, 1));
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset, recipe.Make());
  TENON_ASSIGN_OR_RETURN(const DatasetFacts facts, FactsOf(*dataset));
  return channel.Send(Encode(facts), {}, Deadline::Never());
}

TENON_SPAWN_ENTRY("tenon.loader.worker", RunWorkerProcess);
TENON_SPAWN_ENTRY("tenon.loader.describe", DescribeOnce);

}  // namespace
}  // namespace tenon::loader
