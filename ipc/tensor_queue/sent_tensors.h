// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SentTensors: the tensors of the messages that a sender has put and that are
// not known to be taken, oldest first. Internal to TensorSender.

#ifndef TENON_IPC_TENSOR_QUEUE_SENT_TENSORS_H_
#define TENON_IPC_TENSOR_QUEUE_SENT_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tenon/ipc/tensor_codec/tensor_encoder.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon {

// Ownership: owns references to the tensors' memory. Allocates for more
//   messages than ever before, in MakeRoom() and Add(), and for each message of
//   any fields.
// Threads: thread-compatible.
class SentTensors {
 public:
  bool empty() const { return first_ == end_; }
  // Messages, and the bytes of their storages.
  size_t size() const { return static_cast<size_t>(end_ - first_); }
  size_t bytes() const { return bytes_; }

  // After this, the next Add() of a single tensor does not allocate.
  void MakeRoom() {
    if (size() == room_) [[unlikely]]
      Grow();
  }
  // Message `number`, of one tensor, or of any fields. Numbers count up.
  void Add(uint64_t number, const std::shared_ptr<Storage>& storage) {
    Sent& sent = New(number, storage->size_bytes());
    sent.storage = storage;
  }
  void Add(uint64_t number, TensorHolds holds) {
    const size_t bytes = holds.bytes();
    New(number, bytes).holds = std::make_unique<TensorHolds>(std::move(holds));
  }

  // Drops the messages up to `taken`.
  void DropTaken(uint64_t taken) {
    while (!empty() && At(first_).number <= taken) Drop(At(first_++));
  }
  // Drops message `number` and those after it.
  void Cancel(uint64_t number) {
    while (!empty() && At(end_ - 1).number >= number) {
      Sent& sent = At(--end_);
      if (sent.holds != nullptr) sent.holds->ReleaseNames();
      Drop(sent);
    }
  }
  // Before the messages are dropped although they are in flight.
  void LeaveNames() {
    for (uint64_t i = first_; i < end_; ++i) {
      if (At(i).holds != nullptr) At(i).holds->LeaveNames();
    }
  }

 private:
  struct Sent {
    uint64_t number = 0;
    size_t bytes = 0;
    std::shared_ptr<Storage> storage;
    std::unique_ptr<TensorHolds> holds;  // Of a message of other fields.
  };
  static constexpr size_t kFirstRoom = 32;

  Sent& At(uint64_t position) { return ring_[position & (room_ - 1)]; }

  Sent& New(uint64_t number, size_t bytes) {
    MakeRoom();
    bytes_ += bytes;
    Sent& sent = At(end_++);
    sent.number = number;
    sent.bytes = bytes;
    return sent;
  }
  void Drop(Sent& sent) {
    bytes_ -= sent.bytes;
    sent.storage.reset();
    sent.holds.reset();
  }
  void Grow() {
    const size_t room = room_ == 0 ? kFirstRoom : 2 * room_;
    std::vector<Sent> larger(room);
    for (uint64_t i = first_; i < end_; ++i) {
      larger[i & (room - 1)] = std::move(At(i));
    }
    ring_ = std::move(larger);
    room_ = room;
  }

  std::vector<Sent> ring_;
  size_t room_ = 0;  // The size of ring_: a power of two.
  uint64_t first_ = 0, end_ = 0;
  size_t bytes_ = 0;
};

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_QUEUE_SENT_TENSORS_H_
