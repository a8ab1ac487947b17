// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A program that does not call spawn::Init(), and does not end.

#include <unistd.h>

int main() {
  for (;;) pause();
}
