// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The peer boost: Boost.Interprocess's message_queue, one way between two
// processes. Built by tools/install_peers, not by Bazel.
//
//   boost --seconds=S KEY...
//
// prints the time of a message for each KEY that it knows: ring_64B, and
// small_1KiB and stream_4KiB, whose messages are copied into the queue, and out
// of it again.

#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <boost/interprocess/ipc/message_queue.hpp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

namespace ipc = boost::interprocess;

constexpr int kMessages = 20'000;  // Of a round.
constexpr size_t kCapacity = 64;

double Microseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 +
         static_cast<double>(now.tv_nsec) * 1e-3;
}

// The calling process runs on the first or second core that it may use.
void RunOn(int which) {
  cpu_set_t may;
  sched_getaffinity(0, sizeof(may), &may);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &may)) continue;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (which-- == 0) break;
  }
  sched_setaffinity(0, sizeof(one), &one);
}

// Removes the queue's name, however this ends.
class Queue {
 public:
  Queue(const std::string& name, size_t bytes)
      : name_(name), queue(ipc::create_only, name.c_str(), kCapacity, bytes) {}
  ~Queue() { ipc::message_queue::remove(name_.c_str()); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

 private:
  const std::string name_;

 public:
  ipc::message_queue queue;
};

void Receive(ipc::message_queue& queue, std::vector<char>& to) {
  size_t size;
  unsigned priority;
  queue.receive(to.data(), to.size(), size, priority);
}

// One round: a forked process receives all messages, and then answers.
double Round(Queue& there, Queue& back, size_t bytes) {
  const pid_t receiver = fork();
  if (receiver == 0) {
    RunOn(1);
    std::vector<char> to(bytes);
    for (int i = 0; i <= kMessages; ++i) {
      Receive(there.queue, to);
      if (i == 0 || i == kMessages) back.queue.send("x", 1, 0);
    }
    _exit(0);
  }
  std::vector<char> message(bytes, 'x'), answer(1);
  there.queue.send(message.data(), bytes, 0);
  Receive(back.queue, answer);  // It runs.
  const double begin = Microseconds();
  for (int i = 0; i < kMessages; ++i) {
    there.queue.send(message.data(), bytes, 0);
  }
  Receive(back.queue, answer);
  const double us = (Microseconds() - begin) / kMessages;
  waitpid(receiver, nullptr, 0);
  return us;
}

double Median(size_t bytes, double seconds) {
  const std::string name = "tenon-peer-boost-" + std::to_string(getpid());
  Queue there(name + "-there", bytes), back(name + "-back", 1);
  std::vector<double> rounds;
  const double end = Microseconds() + seconds * 1e6;
  while (rounds.size() < 3 || Microseconds() < end) {
    rounds.push_back(Round(there, back, bytes));
  }
  std::nth_element(rounds.begin(), rounds.begin() + rounds.size() / 2,
                   rounds.end());
  return rounds[rounds.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, size_t> kinds = {
      {"ring_64B", 64}, {"small_1KiB", 1024}, {"stream_4KiB", 4096}};
  double seconds = 1;
  for (int i = 1; i < argc; ++i) {
    std::sscanf(argv[i], "--seconds=%lf", &seconds);
  }
  RunOn(0);
  for (int i = 1; i < argc; ++i) {
    const auto found = kinds.find(argv[i]);
    if (found == kinds.end()) continue;
    std::printf("%s  us=%.4f\n", argv[i], Median(found->second, seconds));
    std::fflush(stdout);
  }
}
