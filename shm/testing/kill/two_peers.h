// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RunTwoPeers: one test body for both ends, run in two threads and in two
// processes.
//
//   void Body(Peer& self) {
//     if (self.name() == "a") { Send(ring); self.Step("sent"); return; }
//     EXPECT_THAT(self.Await("sent"), IsOk());
//     EXPECT_THAT(Receive(ring), IsOk());
//   }
//   class RingTest : public testing::TestWithParam<PeerMode> {};
//   TEST_P(RingTest, Delivers) { EXPECT_TRUE(RunTwoPeers(GetParam(), Body)); }
//   INSTANTIATE_TEST_SUITE_P(Modes, RingTest, AllPeerModes(), PeerModeName);
//
// Threads, because ThreadSanitizer sees no race between processes. Processes,
// because only they can be killed. Note that an awaited step is a
// synchronisation: a race is only detected between steps.

#ifndef TENON_SHM_TESTING_KILL_TWO_PEERS_H_
#define TENON_SHM_TESTING_KILL_TWO_PEERS_H_

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/kill/peer.h"

namespace tenon {

// Runs `body` as peer "a" and as peer "b", both started at the same time, and
// waits for both. Shared state is made before, or sent through GiveFd().
// Succeeds if both complete without a reported failure or failed expectation; a
// peer of kProcesses may end itself by Die(), and must not die otherwise. A
// process is killed after `watchdog`; a thread that does not end within it
// aborts the test. Waits of a Peer end a little earlier.
testing::AssertionResult RunTwoPeers(
    PeerMode mode, const std::function<void(Peer&)>& body,
    absl::Duration watchdog = absl::Seconds(20));

// For INSTANTIATE_TEST_SUITE_P: the values, and "Threads" or "Processes".
inline auto AllPeerModes() {
  return testing::Values(PeerMode::kThreads, PeerMode::kProcesses);
}
std::string PeerModeName(const testing::TestParamInfo<PeerMode>& info);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_KILL_TWO_PEERS_H_
