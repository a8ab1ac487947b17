// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The rules between processes, each broken once. The test itself never calls
// cuInit, and has one thread, so that it may fork: both sides are its children.

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/fake/fake_driver.h"
#include "tenon/cuda_ipc/fake/fake_testing.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::HasSubstr;

constexpr auto kFd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

// A message between two processes: bytes, and a descriptor or -1.
template <typename T>
void Send(int socket, const T& value, int fd = -1) {
  iovec data = {.iov_base = const_cast<T*>(&value), .iov_len = sizeof(value)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  EXPECT_EQ(sendmsg(socket, &message, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof(value)));
}

template <typename T>
T Receive(int socket, int* fd = nullptr) {
  T value = {};
  iovec data = {.iov_base = &value, .iov_len = sizeof(value)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  pollfd readable = {.fd = socket, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&readable, 1, 20'000), 1);
  EXPECT_EQ(recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT),
            static_cast<ssize_t>(sizeof(value)));
  if (fd == nullptr) return value;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr) std::memcpy(fd, CMSG_DATA(header), sizeof(*fd));
  return value;
}

// "Go on": the other side has done its part.
void Signal(int socket) { Send(socket, 'g'); }
void Await(int socket) { EXPECT_EQ(Receive<char>(socket), 'g'); }

class FakeProcessTest : public FakeDriverTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets_.data()),
        0);
    machine_ = absl::StrCat("machine=process", getpid());
  }
  void TearDown() override {
    for (const int socket : sockets_) close(socket);
    // With all processes gone, nothing is held by any.
    fake_.Reset(machine_);
    EXPECT_TRUE(Becomes([this] { return fake_.HeldBytes(0) == 0; }));
  }

  // Runs `body` in a child that has a driver, with its end of the sockets.
  ForkedChild Run(const std::string& name,
                  const std::function<void(int)>& body) {
    const int socket = sockets_[name == "exporter" ? 0 : 1];
    absl::StatusOr<ForkedChild> child = ForkedChild::Fork(
        {.name = name}, [this, &body, socket](const Reporter&) {
          Start(machine_);
          body(socket);
        });
    EXPECT_THAT(child, IsOk());
    return *std::move(child);
  }

  void* ByValue(int fd) const {
    return reinterpret_cast<void*>(static_cast<intptr_t>(fd));
  }

  // Creates memory with `value` at its start and sends its descriptor.
  CUdeviceptr Export(int socket, uint32_t value) {
    const CUmemGenericAllocationHandle handle = Create(kPage);
    const CUdeviceptr address = Map(handle, kPage);
    EXPECT_EQ(Write(address, value), CUDA_SUCCESS);
    int fd = -1;
    EXPECT_EQ(d_.cuMemExportToShareableHandle(&fd, handle, kFd, 0),
              CUDA_SUCCESS);
    Send(socket, address, fd);
    close(fd);
    EXPECT_EQ(d_.cuMemRelease(handle), CUDA_SUCCESS);
    return address;
  }

  CUdeviceptr Import(int fd) {
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(d_.cuMemImportFromShareableHandle(&handle, ByValue(fd), kFd),
              CUDA_SUCCESS);
    const CUdeviceptr address = Map(handle, kPage);
    EXPECT_EQ(d_.cuMemRelease(handle), CUDA_SUCCESS);
    close(fd);
    return address;
  }

  CUdeviceptr Open(const CUipcMemHandle& handle) {
    CUdeviceptr address = 0;
    EXPECT_EQ(d_.cuIpcOpenMemHandle_v2(&address, handle,
                                       kCuIpcMemLazyEnablePeerAccess),
              CUDA_SUCCESS);
    return address;
  }

  CUresult TryOpen(const CUipcMemHandle& handle) {
    CUdeviceptr address = 0;
    return d_.cuIpcOpenMemHandle_v2(&address, handle,
                                    kCuIpcMemLazyEnablePeerAccess);
  }

  CUipcMemHandle HandleOf(CUdeviceptr address) {
    CUipcMemHandle handle = {};
    EXPECT_EQ(d_.cuIpcGetMemHandle(&handle, address), CUDA_SUCCESS);
    return handle;
  }

  std::array<int, 2> sockets_ = {-1, -1};
  std::string machine_;
};

TEST_F(FakeProcessTest, AForkedChildHasNoDriver) {
  ForkedChild child = Run("exporter", [this](int) {
    // This process has one thread still.
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      int count = 0;
      const bool fails =
          d_.cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
          d_.cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED;
      _exit(fails ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(grandchild, &status, 0), grandchild);
    EXPECT_EQ(status, 0);
    int count = 0;
    EXPECT_EQ(d_.cuDeviceGetCount(&count), CUDA_SUCCESS);
  });
  EXPECT_TRUE(child.EndsWell());
}

TEST_F(FakeProcessTest, ADescriptorsMemoryIsTheSameInBothProcesses) {
  ForkedChild exporter = Run("exporter", [this](int socket) {
    const CUdeviceptr address = Export(socket, 42);
    Await(socket);
    EXPECT_EQ(Read(address), 43);
  });
  ForkedChild importer = Run("importer", [this](int socket) {
    int fd = -1;
    Receive<CUdeviceptr>(socket, &fd);
    const CUdeviceptr address = Import(fd);
    EXPECT_EQ(Read(address), 42);
    EXPECT_EQ(Write(address, 43), CUDA_SUCCESS);
    // Both processes hold the same page, which is counted once.
    EXPECT_EQ(fake_.HeldBytes(0), kPage);
    Signal(socket);
  });
  EXPECT_TRUE(exporter.EndsWell());
  EXPECT_TRUE(importer.EndsWell());
}

TEST_F(FakeProcessTest, AnImporterKeepsTheMemoryOfAKilledExporter) {
  ForkedChild exporter = Run("exporter", [this](int socket) {
    Export(socket, 42);
    pause();
  });
  ForkedChild importer = Run("importer", [this](int socket) {
    int fd = -1;
    Receive<CUdeviceptr>(socket, &fd);
    const CUdeviceptr address = Import(fd);
    Signal(socket);
    Await(socket);
    EXPECT_EQ(Read(address), 42);
    EXPECT_EQ(Write(address, 44), CUDA_SUCCESS);
    EXPECT_EQ(fake_.HeldBytes(0), kPage);
    EXPECT_EQ(d_.cuMemUnmap(address, kPage), CUDA_SUCCESS);
    EXPECT_EQ(fake_.HeldBytes(0), 0);
  });
  Await(sockets_[0]);
  exporter.Kill();
  Signal(sockets_[0]);
  EXPECT_TRUE(importer.EndsWell());
}

TEST_F(FakeProcessTest, ADescriptorInAMessageKeepsMemory) {
  ForkedChild exporter =
      Run("exporter", [this](int socket) { Export(socket, 45); });
  EXPECT_TRUE(exporter.EndsWell());
  ForkedChild importer = Run("importer", [this](int socket) {
    int fd = -1;
    Receive<CUdeviceptr>(socket, &fd);
    EXPECT_EQ(Read(Import(fd)), 45);
  });
  EXPECT_TRUE(importer.EndsWell());
}

TEST_F(FakeProcessTest, KilledProcessesLeaveNoMemory) {
  fake_.Reset(machine_);
  ForkedChild exporter = Run("exporter", [this](int socket) {
    Allocate(kPage);
    Export(socket, 42);  // The importer may go on from here.
    pause();
  });
  ForkedChild importer = Run("importer", [this](int socket) {
    int fd = -1;
    Receive<CUdeviceptr>(socket, &fd);
    Import(fd);
    Signal(socket);
    pause();
  });
  Await(sockets_[0]);
  EXPECT_EQ(fake_.HeldBytes(0), 2 * kPage);
  exporter.Kill();
  EXPECT_EQ(fake_.HeldBytes(0), kPage);
  importer.Kill();
  EXPECT_EQ(fake_.HeldBytes(0), 0);
}

TEST_F(FakeProcessTest, ProcessesOfAnotherMachineShareNothing) {
  ForkedChild exporter = Run("exporter", [this](int socket) {
    Export(socket, 42);
    Await(socket);
  });
  ForkedChild importer = Run("importer", [this](int socket) {
    int fd = -1;
    Receive<CUdeviceptr>(socket, &fd);
    Start("machine=other");
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(d_.cuMemImportFromShareableHandle(&handle, ByValue(fd), kFd),
              CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(fake_.HeldBytes(0), 0);
    Signal(socket);
  });
  EXPECT_TRUE(exporter.EndsWell());
  EXPECT_TRUE(importer.EndsWell());
}

TEST_F(FakeProcessTest, ALegacyHandleIsOpenedTwiceAndClosedTwice) {
  ForkedChild exporter = Run("exporter", [this](int socket) {
    const CUdeviceptr address = Allocate(5'000);
    EXPECT_EQ(Write(address, 42), CUDA_SUCCESS);
    CUipcMemHandle handle = {};
    EXPECT_EQ(d_.cuIpcGetMemHandle(&handle, address + 4),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(d_.cuIpcGetMemHandle(&handle, Map(Create(kPage), kPage)),
              CUDA_ERROR_INVALID_VALUE);
    handle = HandleOf(address);
    EXPECT_EQ(TryOpen(handle), CUDA_ERROR_INVALID_CONTEXT);
    Send(socket, handle);
    Await(socket);
    EXPECT_EQ(Read(address), 43);
  });
  ForkedChild importer = Run("importer", [this](int socket) {
    const auto handle = Receive<CUipcMemHandle>(socket);
    CUdeviceptr address = 0;
    EXPECT_EQ(d_.cuIpcOpenMemHandle_v2(&address, handle, 0),
              CUDA_ERROR_INVALID_VALUE);
    address = Open(handle);
    EXPECT_EQ(Open(handle), address);
    EXPECT_EQ(Read(address), 42);
    EXPECT_EQ(d_.cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
    CUipcMemHandle again = {};
    EXPECT_EQ(d_.cuIpcGetMemHandle(&again, address), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(d_.cuIpcCloseMemHandle(address), CUDA_SUCCESS);
    EXPECT_EQ(Write(address, 43), CUDA_SUCCESS);
    EXPECT_EQ(d_.cuIpcCloseMemHandle(address), CUDA_SUCCESS);
    EXPECT_EQ(d_.cuIpcCloseMemHandle(address), CUDA_ERROR_INVALID_VALUE);
    Push(1);  // Another context of this process has a mapping of its own.
    EXPECT_EQ(Read(Open(handle)), 43);
    Signal(socket);
  });
  EXPECT_TRUE(exporter.EndsWell());
  EXPECT_TRUE(importer.EndsWell());
}

TEST_F(FakeProcessTest, MemoryThatItsExporterFreesIsPoisoned) {
  ForkedChild exporter = Run("exporter", [this](int socket) {
    const CUdeviceptr address = Allocate(64);
    const CUipcMemHandle handle = HandleOf(address);
    Send(socket, handle);
    Await(socket);
    EXPECT_EQ(d_.cuMemFree_v2(address), CUDA_SUCCESS);
    Signal(socket);
    Await(socket);
  });
  ForkedChild importer = Run("importer", [this](int socket) {
    const auto handle = Receive<CUipcMemHandle>(socket);
    const CUdeviceptr address = Open(handle);
    EXPECT_EQ(Read(address), 0);
    Signal(socket);
    Await(socket);
    EXPECT_EQ(Read(address), 0xdddddddd);
    EXPECT_EQ(d_.cuIpcCloseMemHandle(address), CUDA_SUCCESS);
    EXPECT_EQ(TryOpen(handle), CUDA_ERROR_INVALID_HANDLE);
    Signal(socket);
  });
  EXPECT_TRUE(exporter.EndsWell());
  EXPECT_TRUE(importer.EndsWell());
}

TEST_F(FakeProcessTest, LegacyMemoryEndsWithItsExporter) {
  ForkedChild exporter = Run("exporter", [this](int socket) {
    Send(socket, HandleOf(Allocate(64)));
    pause();
  });
  ForkedChild importer = Run("importer", [this](int socket) {
    const auto handle = Receive<CUipcMemHandle>(socket);
    const CUdeviceptr address = Open(handle);
    EXPECT_EQ(Read(address), 0);
    Signal(socket);
    Await(socket);
    EXPECT_EQ(TryOpen(handle), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(Write(address, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
  Await(sockets_[0]);
  exporter.Kill();
  Signal(sockets_[0]);
  EXPECT_TRUE(importer.EndsWell());
}

TEST_F(FakeProcessTest, GarbageIsNoHandle) {
  ForkedChild importer = Run("importer", [this](int) {
    EXPECT_EQ(TryOpen({}), CUDA_ERROR_INVALID_HANDLE);
    CUevent event = nullptr;
    EXPECT_EQ(d_.cuIpcOpenEventHandle(&event, {}), CUDA_ERROR_INVALID_HANDLE);
  });
  EXPECT_TRUE(importer.EndsWell());
}

class FakeEventProcessTest : public FakeProcessTest {
 protected:
  CUevent CreateEvent() {
    CUevent event = nullptr;
    EXPECT_EQ(
        d_.cuEventCreate(&event, kCuEventInterprocess | kCuEventDisableTiming),
        CUDA_SUCCESS);
    return event;
  }
  CUipcEventHandle HandleOfEvent(CUevent event) {
    CUipcEventHandle handle = {};
    EXPECT_EQ(d_.cuIpcGetEventHandle(&handle, event), CUDA_SUCCESS);
    return handle;
  }
  CUevent OpenEvent(const CUipcEventHandle& handle) {
    CUevent event = nullptr;
    EXPECT_EQ(d_.cuIpcOpenEventHandle(&event, handle), CUDA_SUCCESS);
    return event;
  }
};

TEST_F(FakeEventProcessTest, AnEventOrdersStreamsOfTwoProcesses) {
  ForkedChild exporter = Run("exporter", [this](int socket) {
    const CUevent event = CreateEvent();
    Send(socket, HandleOfEvent(event));
    Await(socket);
    const CUstream stream = CreateStream();
    EXPECT_EQ(d_.cuLaunchHostFunc(
                  stream,
                  [](void* data) {
                    const int wait_on = *static_cast<int*>(data);
                    Signal(wait_on);
                    Await(wait_on);
                  },
                  &socket),
              CUDA_SUCCESS);
    EXPECT_EQ(d_.cuEventRecord(event, stream), CUDA_SUCCESS);
    EXPECT_EQ(d_.cuStreamSynchronize(stream), CUDA_SUCCESS);
    Await(socket);
  });
  ForkedChild importer = Run("importer", [this](int socket) {
    const CUevent event = OpenEvent(Receive<CUipcEventHandle>(socket));
    EXPECT_EQ(d_.cuEventQuery(event), CUDA_SUCCESS);  // Never recorded.
    Signal(socket);
    Await(socket);
    // The record may come a moment after the stream's function.
    EXPECT_TRUE(Becomes(
        [&] { return d_.cuEventQuery(event) == CUDA_ERROR_NOT_READY; }));
    const CUstream stream = CreateStream();
    EXPECT_EQ(d_.cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
    EXPECT_EQ(d_.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    Signal(socket);
    EXPECT_EQ(d_.cuStreamSynchronize(stream), CUDA_SUCCESS);
    CUipcEventHandle again = {};
    EXPECT_EQ(d_.cuIpcGetEventHandle(&again, event), CUDA_ERROR_INVALID_VALUE);
    Signal(socket);
  });
  EXPECT_TRUE(exporter.EndsWell());
  EXPECT_TRUE(importer.EndsWell());
}

TEST_F(FakeEventProcessTest, AnEventOfAKilledRecorderNeverFires) {
  ForkedChild exporter = Run("exporter", [this](int socket) {
    const CUevent event = CreateEvent();
    const CUstream stream = CreateStream();
    EXPECT_EQ(d_.cuLaunchHostFunc(
                  stream, [](void*) { pause(); }, nullptr),
              CUDA_SUCCESS);
    EXPECT_EQ(d_.cuEventRecord(event, stream), CUDA_SUCCESS);
    Send(socket, HandleOfEvent(event));
    pause();
  });
  ForkedChild importer = Run("importer", [this](int socket) {
    const CUevent event = OpenEvent(Receive<CUipcEventHandle>(socket));
    Signal(socket);
    Await(socket);
    const CUstream stream = CreateStream();
    EXPECT_EQ(d_.cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
    absl::SleepFor(absl::Milliseconds(100));
    EXPECT_EQ(d_.cuEventQuery(event), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(d_.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  });
  Await(sockets_[0]);
  exporter.Kill();
  Signal(sockets_[0]);
  EXPECT_TRUE(importer.EndsWell());
}

TEST_F(FakeEventProcessTest, AnEventThatItsCreatorDestroysNeverFires) {
  ForkedChild exporter = Run("exporter", [this](int socket) {
    const CUevent event = CreateEvent();
    Send(socket, HandleOfEvent(event));
    Await(socket);
    EXPECT_EQ(d_.cuEventDestroy_v2(event), CUDA_SUCCESS);
    Signal(socket);
    Await(socket);
  });
  ForkedChild importer = Run("importer", [this](int socket) {
    const auto handle = Receive<CUipcEventHandle>(socket);
    const CUevent event = OpenEvent(handle);
    EXPECT_EQ(d_.cuEventQuery(event), CUDA_SUCCESS);
    Signal(socket);
    Await(socket);
    EXPECT_EQ(d_.cuEventQuery(event), CUDA_ERROR_NOT_READY);
    CUevent again = nullptr;
    EXPECT_EQ(d_.cuIpcOpenEventHandle(&again, handle),
              CUDA_ERROR_INVALID_HANDLE);
    Signal(socket);
  });
  EXPECT_TRUE(exporter.EndsWell());
  EXPECT_TRUE(importer.EndsWell());
}

TEST_F(FakeProcessTest, LeaksAreReportedAtExit) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/leaks");
  ForkedChild child = Run("exporter", [this, &path](int) {
    Start(absl::StrCat(machine_, " leaks=", path));
    Allocate(99);
    exit(0);  // Runs the library's destructors.
  });
  EXPECT_TRUE(child.EndsWell());
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)),
                         std::istreambuf_iterator<char>());
  EXPECT_THAT(text, HasSubstr("allocation of 99 bytes\n"));
  unlink(path.c_str());
}

}  // namespace
}  // namespace tenon::cuda_ipc
