// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The half of the crash record that resolves addresses to names. The parent
// runs the same program, usually with the same libraries, at other addresses:
// so an address is turned into a file and an offset, and the offset into an
// address of this process, whose symbol the dynamic linker knows.

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/demangle.h"
#include "tenon/spawn/report/crash_record.h"

namespace tenon::spawn {
namespace {

// A line of /proc/PID/maps: "start-end perms offset device inode   path".
struct MapLine {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t offset = 0;
  std::string path;
};

std::optional<MapLine> ParseLine(absl::string_view text) {
  MapLine line;
  const size_t path = text.find('/');
  if (path == absl::string_view::npos) return std::nullopt;
  line.path = std::string(text.substr(path));
  const std::pair<absl::string_view, absl::string_view> range_and_rest =
      absl::StrSplit(text, absl::MaxSplits(' ', 1));
  const std::pair<absl::string_view, absl::string_view> range =
      absl::StrSplit(range_and_rest.first, absl::MaxSplits('-', 1));
  const size_t offset = range_and_rest.second.find(' ');
  if (offset == absl::string_view::npos) return std::nullopt;
  const absl::string_view from_offset =
      range_and_rest.second.substr(offset + 1);
  if (!absl::SimpleHexAtoi(range.first, &line.start) ||
      !absl::SimpleHexAtoi(range.second, &line.end) ||
      !absl::SimpleHexAtoi(from_offset.substr(0, from_offset.find(' ')),
                           &line.offset)) {
    return std::nullopt;
  }
  return line;
}

// The line whose range contains `address`.
std::optional<MapLine> Find(uint64_t address, absl::string_view maps) {
  for (const absl::string_view text : absl::StrSplit(maps, '\n')) {
    std::optional<MapLine> line = ParseLine(text);
    if (line && line->start <= address && address < line->end) return line;
  }
  return std::nullopt;
}

// Searches for the address of a file's offset in this process.
struct Search {
  const MapLine& line;
  uint64_t file_offset;
  uint64_t here = 0;  // The result.
  bool is_first = true;
};

int LookAtModule(dl_phdr_info* module, size_t, void* argument) {
  Search& search = *static_cast<Search*>(argument);
  // The program itself comes first and has no name; if it has been replaced on
  // disk, the kernel appends a mark to the path.
  const bool is_program = search.is_first && module->dlpi_name[0] == '\0';
  search.is_first = false;
  std::string name = module->dlpi_name;
  if (is_program) {
    const std::unique_ptr<char, void (*)(void*)> path(
        realpath("/proc/self/exe", nullptr), std::free);
    name = path != nullptr ? path.get() : "";
  } else {
    const std::unique_ptr<char, void (*)(void*)> path(
        realpath(module->dlpi_name, nullptr), std::free);
    if (path != nullptr) name = path.get();
  }
  if (name != search.line.path) return 0;
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || search.file_offset < part.p_offset ||
        search.file_offset - part.p_offset >= part.p_filesz) {
      continue;
    }
    search.here =
        module->dlpi_addr + part.p_vaddr + (search.file_offset - part.p_offset);
    return 1;
  }
  return 0;
}

}  // namespace

std::string DescribeAddress(uint64_t address, absl::string_view maps) {
  const std::optional<MapLine> line = Find(address, maps);
  if (!line) return "?";
  const uint64_t file_offset = address - line->start + line->offset;
  const std::string place =
      absl::StrCat("(", line->path, "+0x", absl::Hex(file_offset), ")");
  Search search = {.line = *line, .file_offset = file_offset};
  dl_iterate_phdr(LookAtModule, &search);
  Dl_info symbol = {};
  // NOLINTBEGIN(performance-no-int-to-ptr): dladdr() takes an address.
  if (search.here == 0 ||
      dladdr(reinterpret_cast<void*>(search.here), &symbol) == 0 ||
      symbol.dli_sname == nullptr) {
    // NOLINTEND(performance-no-int-to-ptr)
    return place;
  }
  const uint64_t within =
      search.here - reinterpret_cast<uintptr_t>(symbol.dli_saddr);
  return absl::StrCat(Demangle(symbol.dli_sname), "+0x", absl::Hex(within), " ",
                      place);
}

}  // namespace tenon::spawn
