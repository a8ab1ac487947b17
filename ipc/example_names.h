// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names that the examples of this package use without declaring them. Examples
// are compiled, not run: nothing here is defined.

#ifndef TENON_IPC_EXAMPLE_NAMES_H_
#define TENON_IPC_EXAMPLE_NAMES_H_

#include <sys/epoll.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/listener/listener.h"
#include "tenon/ipc/queue/joinable_queue.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/sync/barrier.h"
#include "tenon/ipc/sync/condition.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/tensor.h"

// Types of the user.
struct Job {
  int64_t number;
};
using Task = Job;
struct Word {
  char letters[16];
};
struct Data {};

extern const tenon::Deadline deadline;
extern tenon::Channel channel;
extern tenon::Listener listener;
extern const tenon::PidFd producer;
extern const tenon::Segment segment;

// What a peer has sent.
extern tenon::UniqueFd received;
extern tenon::Message message;
extern const tenon::TensorMessage got;
extern tenon::RingOffer offer;
extern tenon::RingReply reply;
extern const std::string name;

// In shared memory.
struct Words {
  tenon::SleepingWord sleeping;
};
extern Words* words;
extern tenon::SharedWord<uint64_t> head;
extern const uint64_t n;

extern tenon::Barrier theirs;
extern tenon::Condition condition;
extern tenon::Mutex mutex;
extern tenon::JoinableQueue<Job> queue;
extern std::unique_ptr<tenon::Doorbell> bell;
extern tenon::DoorbellRinger ringer;
extern std::unique_ptr<tenon::RingProducer> ring;
extern std::unique_ptr<tenon::RingReader> reader;
bool ready();
void Drain(tenon::RingReader& reader);

extern const Job job;
extern const Word word;
extern Data data;
extern int item;
extern std::vector<int> items;
extern const int rounds;
extern const int64_t epoch;
extern const std::vector<std::byte> record;
extern absl::Span<std::byte> buffer;
extern const tenon::Tensor image;
extern const tenon::Tensor images;
extern const tenon::Tensor labels;
extern const int epoll_fd;
extern epoll_event* events;
void Repair(Data& data);
void SaveCheckpoint();
void Work(const Task& task);

#endif  // TENON_IPC_EXAMPLE_NAMES_H_
