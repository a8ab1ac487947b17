// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/fuzz_testing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tenon {
namespace {

using Corpus = std::vector<std::string>;

// Lengths and counts at which a reader goes wrong, if anywhere.
constexpr uint64_t kInteresting[] = {
    0,     1,      2,          16,         0x7f,       0x80,
    0xff,  0x7fff, 0xffff,     0x7fffffff, 0xffffffff, 1u << 31,
    ~0ull, ~7ull,  1ull << 63, 1ull << 32};

// Readable by the handler of SIGABRT.
const std::string* current_input = nullptr;

// Formats by hand and ignores errors: the process is about to end anyway.
void PrintInput(int) {
  if (current_input == nullptr) return;
  fprintf(stderr, "\ninput of %zu bytes:", current_input->size());
  for (const char c : *current_input) {
    fprintf(stderr, " %02x", static_cast<unsigned char>(c));
  }
  fprintf(stderr, "\n");
}

void RunOne(FuzzTarget target, const std::string& input) {
  // A copy of exactly its size, for AddressSanitizer to guard.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  current_input = &input;
  target(bytes.data(), bytes.size());
  current_input = nullptr;
}

Corpus ReadCorpus(const std::string& directory) {
  std::filesystem::path root = ".";
  const char* srcdir = getenv("TEST_SRCDIR");
  const char* workspace = getenv("TEST_WORKSPACE");
  if (srcdir != nullptr && workspace != nullptr) {
    root = std::filesystem::path(srcdir) / workspace;
  }
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(root / directory, error)) {
    paths.push_back(entry.path());
  }
  // The mutations depend on the order.
  std::sort(paths.begin(), paths.end());
  Corpus corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file),
                        std::istreambuf_iterator<char>());
  }
  return corpus;
}

class Mutator {
 public:
  Mutator(const Corpus& corpus, uint64_t seed)
      : corpus_(corpus), random_(seed) {}

  std::string Next() {
    std::string input = corpus_[Below(corpus_.size())];
    for (size_t i = 1 + Below(4); i > 0; --i) Mutate(&input);
    return input;
  }

 private:
  size_t Below(size_t limit) {
    return std::uniform_int_distribution<size_t>(0, limit - 1)(random_);
  }

  void Mutate(std::string* input) {
    switch (Below(6)) {
      case 0:
        return FlipBit(input);
      case 1:
        return Overwrite(input, kInteresting[Below(std::size(kInteresting))]);
      case 2:
        return Overwrite(input, input->size() - Below(input->size() + 1));
      case 3:
        return input->resize(Below(input->size() + 1));
      case 4:
        input->append(1 + Below(8), static_cast<char>(Below(256)));
        return;
      default:
        return Splice(input, corpus_[Below(corpus_.size())]);
    }
  }

  void FlipBit(std::string* input) {
    if (input->empty()) return;
    char& byte = (*input)[Below(input->size())];
    byte = static_cast<char>(byte ^ (1 << Below(8)));
  }

  // With 1, 2, 4 or 8 bytes of `value`, as far as there is room.
  void Overwrite(std::string* input, uint64_t value) {
    if (input->empty()) return;
    const size_t at = Below(input->size());
    const size_t size = std::min(size_t{1} << Below(4), input->size() - at);
    std::memcpy(input->data() + at, &value, size);
  }

  void Splice(std::string* input, const std::string& other) {
    input->resize(Below(input->size() + 1));
    input->append(other, Below(other.size() + 1));
  }

  const Corpus& corpus_;
  std::mt19937_64 random_;
};

}  // namespace

void ReplayCorpus(FuzzTarget target, const std::string& directory,
                  const ReplayOptions& options) {
  const Corpus corpus = ReadCorpus(directory);
  ASSERT_FALSE(corpus.empty()) << "no corpus in " << directory;
  const auto old_handler = signal(SIGABRT, PrintInput);
  for (const std::string& input : corpus) RunOne(target, input);
  Mutator mutator(corpus, options.seed);
  for (size_t i = 0; i < options.mutations; ++i) {
    RunOne(target, mutator.Next());
  }
  signal(SIGABRT, old_handler);
}

}  // namespace tenon
