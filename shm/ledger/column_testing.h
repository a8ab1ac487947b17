// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TestColumn: a column of the ledger that a test fills freely, also with
// invalid contents. TestAttach: an attach message with a column, for an arena's
// owner.
//
//   TestAttach attach(arena_id, blocks);
//   attach.message.first_cell = 1;  // Misaligned.
//   EXPECT_TRUE(attach.Send(socket));

#ifndef TENON_SHM_LEDGER_COLUMN_TESTING_H_
#define TENON_SHM_LEDGER_COLUMN_TESTING_H_

#include <fcntl.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/attach_message.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon {

inline constexpr int kColumnSeals =
    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

struct TestColumnOptions {
  size_t bytes = ColumnLayout::kBytes;
  int seals = kColumnSeals;
  uint64_t magic = ColumnLayout::kMagic;
  uint64_t version = ColumnLayout::Version();
  // Not zero-terminated if it fills the field.
  std::string name = "test_column";
};

// Ownership: owns a memfd and a writable mapping of all of it, which forked
// children share.
class TestColumn {
 public:
  explicit TestColumn(const TestColumnOptions& options = {});
  ~TestColumn();
  TestColumn(const TestColumn&) = delete;
  TestColumn& operator=(const TestColumn&) = delete;

  int fd() const { return fd_.get(); }
  RandomId id() const { return id_; }
  size_t size_bytes() const { return bytes_; }
  SharedWord<uint64_t>* cells(uint64_t first = 0) const {
    return reinterpret_cast<SharedWord<uint64_t>*>(data_ +
                                                   ColumnLayout::CellAt(first));
  }
  // The same, writable.
  std::atomic<uint64_t>* words(uint64_t first = 0) const {
    return reinterpret_cast<std::atomic<uint64_t>*>(
        data_ + ColumnLayout::CellAt(first));
  }
  std::byte* data() const { return data_; }
  // The bytes of memory that it occupies.
  size_t BytesInUse() const;

 private:
  const size_t bytes_;
  RandomId id_;
  UniqueFd fd_;
  std::byte* data_ = nullptr;
};

// A message that is valid unless a test changes it.
struct TestAttach {
  // `column` has to outlive this; if null, one is created.
  TestAttach(const RandomId& arena, uint64_t blocks,
             const TestColumn* column = nullptr);

  // False if it could not be sent.
  bool Send(int socket) const;
  // Ends the attachment.
  void End() const;

  std::optional<TestColumn> own_column;
  const TestColumn* column;
  AttachMessage message;
  UniqueFd lease;  // This process's end.
  UniqueFd owners_lease;
  std::optional<PidFd> process;  // Of the calling process.
  std::vector<int> fds;          // The descriptors to send.
};

// Sends one packet without blocking. On errors false, and errno is set.
bool SendPacket(int socket, absl::string_view bytes,
                const std::vector<int>& fds);

// The next packet, of up to 1024 bytes and 8 descriptors. Waits for it.
struct ReceivedPacket {
  std::string bytes;
  std::vector<UniqueFd> fds;
};
ReceivedPacket ReceivePacket(int socket);

// Opens the same file again, read-only.
UniqueFd ReopenReadOnly(int fd);

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_COLUMN_TESTING_H_
