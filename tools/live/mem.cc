// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/live/mem.h"

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/queue_query.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/arena/query/ledger_query.h"
#include "tenon/shm/process/process_info.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/cli/quantity.h"
#include "tenon/tools/cli/table.h"
#include "tenon/tools/cli/terminal_text.h"
#include "tenon/tools/live/ps.h"
#include "tenon/tools/live/segments.h"

namespace tenon::tools {
namespace {

constexpr size_t kNoQuota = std::numeric_limits<size_t>::max();

std::string OwnerText(pid_t owner) {
  if (owner == 0) return "owner ended; nothing is reclaimed any more";
  return absl::StrCat("owner ", owner, " ", TerminalText(NameOf(owner)), " (",
                      StateOf(owner), ")");
}

std::string SumText(const char* what, const BlockSum& sum) {
  return absl::StrCat(what, " ", sum.blocks, " (", FormatBytes(sum.bytes), ")");
}

std::string HoldersText(const ArenaReport& arena, size_t width) {
  if (arena.holders.empty()) return "  no holders\n";
  Table table({">HOLDER", "NAME", "STATE", ">BLOCKS", ">BYTES", ">OLDEST"});
  for (const HolderUse& holder : arena.holders) {
    table.AddRow(
        {holder.pid == 0 ? "?" : absl::StrCat(holder.pid),
         absl::StrCat(holder.name, holder.column.is_zero() ? " (owner)" : ""),
         holder.state, absl::StrCat(holder.blocks), FormatBytes(holder.bytes),
         FormatAge(holder.oldest)});
  }
  return table.ToText(2, width);
}

// Empty for memory of the CPU, as most arenas are.
std::string MemoryText(const ArenaReport& arena) {
  if (arena.memory == "CPU") return "";
  return absl::StrCat(" in memory of ", arena.memory,
                      arena.device.empty() ? "" : ", device ", arena.device);
}

std::string ArenaText(const ArenaReport& arena, size_t width) {
  const std::string facts = absl::StrCat(
      "arena '", TerminalText(arena.name), "'", MemoryText(arena), ", ",
      OwnerText(arena.owner), "\n  ", SharingStrategyName(arena.strategy),
      arena.shared_writable ? ", shared-writable" : ", owner-written", ", ",
      arena.segments, arena.segments == 1 ? " segment of " : " segments of ",
      FormatBytes(arena.segment_bytes),
      arena.quota_bytes == kNoQuota
          ? ""
          : absl::StrCat(", quota ", FormatBytes(arena.quota_bytes)),
      "\n  blocks: ", SumText("in use", arena.in_use), ", ",
      SumText("lent", arena.lent), ", ", SumText("resting", arena.resting),
      ", ", SumText("free", arena.free), "\n");
  return absl::StrCat(FoldLines(facts, width), HoldersText(arena, width));
}

Json SumJson(const BlockSum& sum) {
  return {{"blocks", sum.blocks}, {"bytes", sum.bytes}};
}

Json HolderJson(const HolderUse& holder) {
  return {{"pid", holder.pid},
          {"name", holder.name},
          {"state", holder.state},
          {"is_owner", holder.column.is_zero()},
          {"blocks", holder.blocks},
          {"bytes", holder.bytes},
          {"oldest_ms", absl::ToInt64Milliseconds(holder.oldest)}};
}

Json ArenaJson(const ArenaReport& arena) {
  Json holders = Json::array();
  for (const HolderUse& holder : arena.holders) {
    holders.push_back(HolderJson(holder));
  }
  return {
      {"id", arena.arena.ToString()},
      {"name", arena.name},
      {"owner",
       {{"pid", arena.owner},
        {"name", NameOf(arena.owner)},
        {"state", arena.owner == 0 ? "ended" : StateOf(arena.owner)}}},
      {"memory", arena.memory},
      {"device", arena.device.empty() ? Json(nullptr) : Json(arena.device)},
      {"strategy", std::string(SharingStrategyName(arena.strategy))},
      {"shared_writable", arena.shared_writable},
      {"quota_bytes",
       arena.quota_bytes == kNoQuota ? Json(nullptr) : Json(arena.quota_bytes)},
      {"segments", arena.segments},
      {"segment_bytes", arena.segment_bytes},
      {"in_use", SumJson(arena.in_use)},
      {"lent", SumJson(arena.lent)},
      {"resting", SumJson(arena.resting)},
      {"free", SumJson(arena.free)},
      {"holders", std::move(holders)}};
}

const char* TypeName(QueueType type) {
  switch (type) {
    case QueueType::kItems:
      return "items";
    case QueueType::kTasks:
      return "tasks";
    case QueueType::kTensors:
      return "tensors";
    case QueueType::kPipe:
      return "pipe";
  }
  return "unknown";
}

size_t Present(const QueueReport& queue) {
  return static_cast<size_t>(
      std::count_if(queue.slots.begin(), queue.slots.end(),
                    [](const QueueSlotReport& slot) { return slot.present; }));
}

std::vector<pid_t> WorkersOf(const loader::LoaderStats& loader) {
  std::vector<pid_t> pids;
  pids.reserve(loader.workers.size());
  for (const loader::ProcessStats& worker : loader.workers) {
    pids.push_back(worker.pid);
  }
  return pids;
}

std::string QueuesText(const std::vector<QueueReport>& queues, size_t width) {
  if (queues.empty()) return "";
  Table table({"QUEUE", "OF", ">ITEMS", "?>CAPACITY", "?>ITEM", "?>MEMBERS",
               ">MEMORY", "OPEN IN"});
  for (const QueueReport& queue : queues) {
    table.AddRow({absl::StrCat(queue.name, queue.closed ? " (closed)" : ""),
                  TypeName(queue.type), absl::StrCat(queue.items),
                  absl::StrCat(queue.capacity, " each"),
                  FormatBytes(queue.item_bytes),
                  absl::StrCat(Present(queue), " of ", queue.max_participants),
                  FormatBytes(queue.bytes), PidsText(queue.pids)});
  }
  return absl::StrCat("\n", table.ToText(0, width));
}

std::string LoadersText(const std::vector<loader::LoaderStats>& loaders,
                        size_t width) {
  if (loaders.empty()) return "";
  Table table({"LOADER OF", ">CONSUMER", ">BATCHES", ">BATCH", "WORKERS"});
  for (const loader::LoaderStats& loader : loaders) {
    table.AddRow(
        {loader.consumer.dataset, absl::StrCat(loader.consumer.pid),
         absl::StrCat(loader.consumer.batches), absl::StrCat(loader.batch_size),
         loader.workers.empty() ? "none" : PidsText(WorkersOf(loader))});
  }
  return absl::StrCat("\n", table.ToText(0, width));
}

Json LoaderJson(const loader::LoaderStats& loader) {
  return {{"dataset", loader.consumer.dataset},
          {"consumer_pid", loader.consumer.pid},
          {"batches", loader.consumer.batches},
          {"batch_size", loader.batch_size},
          {"worker_pids", WorkersOf(loader)}};
}

Json QueueJson(const QueueReport& queue) {
  Json slots = Json::array();
  for (const QueueSlotReport& slot : queue.slots) {
    slots.push_back({{"place", slot.slot},
                     {"present", slot.present},
                     {"put", slot.put},
                     {"items", slot.items}});
  }
  return {{"id", queue.id.ToString()},
          {"name", queue.name},
          {"type", TypeName(queue.type)},
          {"items", queue.items},
          {"capacity", queue.capacity},
          {"item_bytes", queue.item_bytes},
          {"bytes", queue.bytes},
          {"max_participants", queue.max_participants},
          {"closed", queue.closed},
          {"places", std::move(slots)},
          {"pids", queue.pids}};
}

}  // namespace

MemView OnlyOf(pid_t pid, const MemView& view) {
  MemView left = view;
  std::erase_if(left.ledger.arenas, [pid](const ArenaReport& arena) {
    return arena.owner != pid &&
           std::none_of(
               arena.holders.begin(), arena.holders.end(),
               [pid](const HolderUse& holder) { return holder.pid == pid; });
  });
  std::erase_if(left.ledger.attached, [pid](const AttachedProcess& attached) {
    return attached.pid != pid;
  });
  std::erase_if(left.queues.queues, [pid](const QueueReport& queue) {
    return !std::binary_search(queue.pids.begin(), queue.pids.end(), pid);
  });
  std::erase_if(left.loaders.loaders, [pid](const loader::LoaderStats& loader) {
    const std::vector<pid_t> workers = WorkersOf(loader);
    return loader.consumer.pid != pid &&
           std::find(workers.begin(), workers.end(), pid) == workers.end();
  });
  std::erase_if(left.segments, [pid](const SegmentRow& segment) {
    return !std::binary_search(segment.pids.begin(), segment.pids.end(), pid);
  });
  return left;
}

bool IsEmpty(const MemView& view) {
  return view.ledger.arenas.empty() && view.queues.queues.empty() &&
         view.loaders.loaders.empty() && view.segments.empty();
}

std::string MemText(const MemView& view, size_t width) {
  std::string text;
  for (const ArenaReport& arena : view.ledger.arenas) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", ArenaText(arena, width));
  }
  if (text.empty()) text = "no process of this user has an arena\n";
  return absl::StrCat(text, QueuesText(view.queues.queues, width),
                      LoadersText(view.loaders.loaders, width),
                      SegmentsText(view.segments, width),
                      HiddenText(view.ledger.hidden));
}

Json MemJson(const MemView& view) {
  Json arenas = Json::array();
  for (const ArenaReport& arena : view.ledger.arenas) {
    arenas.push_back(ArenaJson(arena));
  }
  Json queues = Json::array();
  for (const QueueReport& queue : view.queues.queues) {
    queues.push_back(QueueJson(queue));
  }
  Json loaders = Json::array();
  for (const loader::LoaderStats& loader : view.loaders.loaders) {
    loaders.push_back(LoaderJson(loader));
  }
  return {{"arenas", std::move(arenas)},
          {"queues", std::move(queues)},
          {"loaders", std::move(loaders)},
          {"segments", SegmentsJson(view.segments)},
          {"hidden_pids", view.ledger.hidden}};
}

}  // namespace tenon::tools
