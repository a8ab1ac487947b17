// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/check_options.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/loader_options.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/spawn/settings/start_method.h"

namespace tenon::loader {
namespace {

absl::Status Refused(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("Loader::Create(): ", why));
}

// Options that are for workers.
absl::Status CheckWithoutWorkers(const LoaderOptions& options) {
  if (options.workers != 0) return absl::OkStatus();
  if (options.worker_init != nullptr) {
    return Refused(
        "worker_init without workers: it would not be called; set workers or "
        "leave worker_init unset");
  }
  if (options.overlap_epochs) {
    return Refused(
        "overlap_epochs without workers: the consumer makes each batch when it "
        "asks for it; set workers or leave overlap_epochs unset");
  }
  if (options.prefetch) {
    return Refused(
        "prefetch without workers: the consumer makes each batch when it asks "
        "for it; set workers or leave prefetch unset");
  }
  if (options.timeout != absl::InfiniteDuration()) {
    return Refused(
        "timeout without workers: it cannot interrupt the consumer itself; set "
        "workers or leave timeout unset");
  }
  return absl::OkStatus();
}

absl::Status CheckWorkerProgram(const LoaderOptions& options) {
  if (!options.worker_program) return absl::OkStatus();
  if (options.workers == 0 || options.worker_kind == WorkerKind::kThread) {
    return Refused(
        "worker_program without worker processes: there is no process to "
        "start; set workers and WorkerKind::kProcess, or leave worker_program "
        "unset");
  }
  if (options.worker_program->program.empty()) {
    return Refused(
        "worker_program without the path of a program; set "
        "WorkerProgram::program");
  }
  if (options.start_method.value_or(spawn::StartMethod::kSpawn) !=
      spawn::StartMethod::kSpawn) {
    return Refused(absl::StrCat(
        "worker_program with start_method '",
        spawn::StartMethodName(*options.start_method),
        "', which is for workers of this program; leave one of them unset"));
  }
  if (options.worker_init != nullptr) {
    return Refused(
        "worker_init with worker_program: the function is of this program; "
        "call it where the dataset is made, and leave worker_init unset");
  }
  return absl::OkStatus();
}

absl::Status CheckReplacement(const LoaderOptions& options) {
  if (options.max_restarts < 0 || options.max_restarts > 1000) {
    return Refused(absl::StrCat("max_restarts must be 0 to 1000, not ",
                                options.max_restarts));
  }
  if (options.sample_timeout < absl::Milliseconds(1)) {
    return Refused(absl::StrCat("sample_timeout must be 1ms or more, not ",
                                absl::FormatDuration(options.sample_timeout)));
  }
  for (const auto& [name, value] :
       {std::pair("recycle_after_samples", options.recycle_after_samples),
        std::pair("recycle_after_bytes", options.recycle_after_bytes)}) {
    if (value && *value < 1) {
      return Refused(absl::StrCat(name, " must be positive, not ", *value));
    }
  }
  if (options.sample_timeout != absl::InfiniteDuration() &&
      options.threads_per_worker > 1) {
    return Refused(
        "sample_timeout with threads_per_worker: a worker that makes several "
        "samples at the same time does not say how long each takes; leave one "
        "of them unset");
  }
  if (options.workers != 0 && options.worker_kind == WorkerKind::kProcess) {
    return absl::OkStatus();
  }
  const char* const what =
      options.on_worker_death != OnWorkerDeath::kFail      ? "on_worker_death"
      : options.sample_timeout != absl::InfiniteDuration() ? "sample_timeout"
      : options.recycle_after_samples ? "recycle_after_samples"
      : options.recycle_after_bytes   ? "recycle_after_bytes"
                                      : nullptr;
  if (what == nullptr) return absl::OkStatus();
  return Refused(absl::StrCat(
      what,
      " without worker processes: the consumer and its threads cannot be "
      "replaced; set workers and WorkerKind::kProcess, or leave ",
      what, " unset"));
}

}  // namespace

absl::Status CheckOptions(const LoaderOptions& options) {
  if (options.batch_size && *options.batch_size < 1) {
    return Refused(
        absl::StrCat("batch_size must be positive, not ", *options.batch_size,
                     "; leave it unset for samples without a batch dimension"));
  }
  if (!options.batch_size && options.drop_last) {
    return Refused(
        "drop_last without a batch_size: each sample is a batch of its own, "
        "and full; set batch_size or leave drop_last unset");
  }
  if (options.workers != kAuto &&
      (options.workers < 0 || options.workers > kMaxWorkers)) {
    return Refused(absl::StrCat("workers must be 0 to ", kMaxWorkers,
                                ", or kAuto, not ", options.workers));
  }
  if (options.threads_per_worker < 1 ||
      options.threads_per_worker > kMaxThreadsPerWorker) {
    return Refused(absl::StrCat("threads_per_worker must be 1 to ",
                                kMaxThreadsPerWorker, ", not ",
                                options.threads_per_worker));
  }
  if (options.prefetch &&
      (*options.prefetch < 1 || *options.prefetch > kMaxPrefetch)) {
    return Refused(absl::StrCat("prefetch must be 1 to ", kMaxPrefetch,
                                ", not ", *options.prefetch));
  }
  if (options.timeout <= absl::ZeroDuration()) {
    return Refused(absl::StrCat("timeout must be positive, not ",
                                absl::FormatDuration(options.timeout)));
  }
  if (options.shuffle && options.sampler != nullptr) {
    return Refused(
        "shuffle and sampler both give the order of an epoch; set one of them");
  }
  if (options.batch_sampler != nullptr &&
      (options.batch_size != 1 || options.shuffle ||
       options.sampler != nullptr || options.drop_last)) {
    return Refused(
        "batch_sampler gives whole batches; leave batch_size (1), shuffle, "
        "sampler and drop_last as they are");
  }
  if (options.memory_quota && *options.memory_quota < 1) {
    return Refused(absl::StrCat("memory_quota must be positive, not ",
                                *options.memory_quota));
  }
  if (options.failure_budget && *options.failure_budget < 0) {
    return Refused(absl::StrCat("failure_budget must be 0 or more, not ",
                                *options.failure_budget));
  }
  if (options.failure_budget &&
      options.on_sample_error == OnSampleError::kFail &&
      options.on_worker_death != OnWorkerDeath::kSkipSample) {
    return Refused(
        "failure_budget with on_sample_error kFail: each sample that fails is "
        "the error of its batch; set kSkip or kReplace, or leave "
        "failure_budget unset");
  }
  if (options.replay && (*options.replay < 1 || *options.replay > kMaxReplay)) {
    return Refused(absl::StrCat("replay must be 1 to ", kMaxReplay, ", not ",
                                *options.replay, "; leave it unset to train"));
  }
  if (options.trace_events < 0 || options.trace_events > kMaxTraceEvents) {
    return Refused(absl::StrCat("trace_events must be 0 to ", kMaxTraceEvents,
                                ", not ", options.trace_events));
  }
  TENON_RETURN_IF_ERROR(CheckWithoutWorkers(options));
  if (options.start_method &&
      (options.workers == 0 || options.worker_kind == WorkerKind::kThread)) {
    return Refused(
        "start_method without worker processes: there is no process to start; "
        "set workers and WorkerKind::kProcess, or leave start_method unset");
  }
  TENON_RETURN_IF_ERROR(CheckWorkerProgram(options));
  TENON_RETURN_IF_ERROR(CheckReplacement(options));
  return options.rank ? CheckRank("Loader::Create()", *options.rank)
                      : absl::OkStatus();
}

}  // namespace tenon::loader
