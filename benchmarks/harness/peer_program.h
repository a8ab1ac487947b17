// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PeerProgram: a subject that is a program of its own, so that no code of a
// peer is built or linked here. The program is DIR/bin/NAME, where DIR is the
// folder of tools/install_peers. It starts the second process of its pair
// itself.
//
//   started as   NAME --row=handover.4k.new.spin --cores=0,1
//   it prints    ready iceoryx2 0.10.0
//        or      unsupported THE REASON
//   it reads     turn 512
//   it prints    ns 640.5            for one hand-over of that turn
//   at the end of its input it ends, with its other process.
//
// Between turns both of its processes sleep: others are measured then.

#ifndef TENON_BENCHMARKS_HARNESS_PEER_PROGRAM_H_
#define TENON_BENCHMARKS_HARNESS_PEER_PROGRAM_H_

#include <string>

#include "absl/time/time.h"
#include "tenon/benchmarks/harness/subject.h"
#include "tenon/shm/testing/two_cores.h"

namespace tenon::benchmarks {

struct PeerPlace {
  std::string folder;  // Of the peers. Empty: there are none.
  TwoCores cores;
  // For each answer of a program.
  absl::Duration patience = absl::Seconds(10);
};

// The peer called `name` in a row called `row`; `missing` says why it is not
// there: no folder, no program, a program that cannot do this work or answers
// with something else. Does not fork; the program is started by posix_spawn().
NamedSubject FindPeer(const std::string& name, const std::string& row,
                      const PeerPlace& place);

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HARNESS_PEER_PROGRAM_H_
