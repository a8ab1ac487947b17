// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Named memory: run it twice at the same time with one name. The first process
// creates 1000 numbers and waits, the second one finds them. They are gone with
// the last process that has them. If that is killed, its name stays in /dev/shm
// until the next process asks for it, which finds no numbers.

#include <iostream>
#include <numeric>

#include "tenon/shm/base/exit_code.h"
#include "tenon/shm/value/array.h"

int main(int argc, char** argv) {
  const char* const name = argc > 1 ? argv[1] : "numbers";
  bool created = false;
  const auto numbers =
      tenon::Array<float>::OpenOrCreate(1000, {.name = name}, &created);
  if (!numbers.ok()) return tenon::ExitCode(numbers.status());
  const absl::Span<float> all = *numbers->data();
  if (created) {
    std::fill(all.begin(), all.end(), 0.5f);
    std::cout << "created " << name << "; Enter ends this" << std::endl;
    std::cin.get();
  } else {
    std::cout << "sum " << std::accumulate(all.begin(), all.end(), 0.0) << "\n";
  }
}
