// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/harness/peer_program.h"

#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/benchmarks/harness/subject.h"

namespace tenon::benchmarks {
namespace {

using testing::HasSubstr;

class PeerProgramTest : public testing::Test {
 protected:
  PeerProgramTest() { mkdir((Folder() + "/bin").c_str(), 0755); }

  static std::string Folder() { return testing::TempDir(); }

  // A peer that is a shell script.
  NamedSubject Peer(const std::string& name, const std::string& script,
                    absl::Duration patience = absl::Seconds(30)) {
    const std::string path = absl::StrCat(Folder(), "/bin/", name);
    std::ofstream(path) << "#!/bin/sh\n" << script;
    chmod(path.c_str(), 0755);
    return FindPeer(name, "row", {.folder = Folder(), .patience = patience});
  }
};

TEST_F(PeerProgramTest, TakesTurns) {
  const NamedSubject peer = Peer("good",
                                 "echo ready $1\n"
                                 "while read turn count; do\n"
                                 "  echo ns $((count / 2)).5\n"
                                 "done\n");
  ASSERT_EQ(peer.missing, "");
  for (const int count : {10, 20}) {
    peer.subject->Ask(count);
    EXPECT_DOUBLE_EQ(peer.subject->CostOf(1), count * (count / 2 + 0.5));
  }
  EXPECT_EQ(peer.subject->failure(), "");
}

TEST_F(PeerProgramTest, IsMissingForAReason) {
  const auto reason = [](const NamedSubject& peer) {
    EXPECT_EQ(peer.subject, nullptr);
    return peer.missing;
  };
  EXPECT_THAT(reason(FindPeer("x", "row", {})), HasSubstr("install_peers"));
  EXPECT_THAT(reason(FindPeer("absent", "row", {.folder = Folder()})),
              HasSubstr("there is no program"));
  EXPECT_THAT(
      reason(Peer("other_work", "echo unsupported It cannot forward\n")),
      "It cannot forward");
  EXPECT_THAT(reason(Peer("talks", "echo hello\n")), HasSubstr("hello"));
  EXPECT_THAT(reason(Peer("ends", "exit 1\n")), HasSubstr("it has ended"));
  EXPECT_THAT(reason(Peer("hangs", "exec sleep 60\n", absl::Milliseconds(200))),
              HasSubstr("it does not answer"));
}

TEST_F(PeerProgramTest, FailsForAReason) {
  const auto failure = [](const NamedSubject& peer) {
    EXPECT_EQ(peer.missing, "");
    peer.subject->Ask(10);
    EXPECT_TRUE(std::isnan(peer.subject->CostOf(1)));
    return peer.subject->failure();
  };
  EXPECT_THAT(failure(Peer("dies", "echo ready 1\nread turn\nexit 1\n")),
              HasSubstr("it has ended"));
  EXPECT_THAT(failure(Peer("lies",
                           "echo ready 1\nread turn\necho ns none\n"
                           "read turn\n")),
              HasSubstr("ns none"));
  EXPECT_THAT(failure(Peer("negative",
                           "echo ready 1\nread turn\necho ns -1\n"
                           "read turn\n")),
              HasSubstr("ns -1"));
}

}  // namespace
}  // namespace tenon::benchmarks
