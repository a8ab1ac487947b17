// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ArgumentTraits: how a value is passed to another process.
//
// A type can be passed if it has these traits. For a type of your own:
//
//   template <>
//   struct tenon::spawn::ArgumentTraits<Camera> {
//     static std::string Name() { return "Camera"; }
//     static absl::Status Pack(const Camera& camera, ArgumentWriter& to) {
//       to.Put(camera.id());
//       return to.PutFd(camera.fd());
//     }
//     static absl::StatusOr<Camera> Unpack(ArgumentReader& from) {
//       TENON_ASSIGN_OR_RETURN(const int id, from.Get<int>());
//       TENON_ASSIGN_OR_RETURN(UniqueFd fd, from.TakeFd());
//       return Camera::Adopt(id, std::move(fd));
//     }
//   };
//
// Traits of plain types are in plain_arguments.h, those of Tenon's shared types
// in shm_arguments.h, ipc_arguments.h and queue_arguments.h. Values are encoded
// by //ipc/channel:archive: for processes of one program on one machine.

#ifndef TENON_SPAWN_ARGUMENTS_ARGUMENT_H_
#define TENON_SPAWN_ARGUMENTS_ARGUMENT_H_

#include <sys/types.h>

#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
class Tensor;
}  // namespace tenon

namespace tenon::spawn {

// The tensors of arguments. The sender holds those in blocks of arenas until
// the receiver has claimed them (tensor_parcel.h). On receipt: claimed, or the
// error of the claim. Code that uses the list includes tensor.h.
struct PackedTensors {
  PackedTensors();
  ~PackedTensors();
  PackedTensors(PackedTensors&&) noexcept;
  PackedTensors& operator=(PackedTensors&&) noexcept;

  std::vector<absl::StatusOr<Tensor>> list;
};

// Called in the parent by Start() and StartProcess(), for each process that has
// been started with the arguments, and by a pool, for the worker that has been
// sent them; `end_fd` is readable once it has ended.
using StartHook = std::function<void(pid_t pid, int end_fd)>;

// Bytes, descriptors and tensors, ready to be sent, or received.
struct PackedArguments {
  std::string bytes;
  std::vector<UniqueFd> fds;
  std::vector<StartHook> on_start;
  // What in it is exclusive to one process; empty if nothing is.
  std::string exclusive;
  PackedTensors tensors;
};

// Ownership: owns duplicates of the descriptors put into it, and shares
//   ownership of the tensors.
// Threads: thread-compatible.
class ArgumentWriter {
 public:
  template <ArchivableValue T>
  void Put(T value) {
    bytes_.Put(value);
  }
  void PutString(absl::string_view value) { bytes_.PutString(value); }

  // A duplicate of `fd`. Errors: kInvalidArgument if it is not open,
  // kResourceExhausted at the limit of descriptors.
  absl::Status PutFd(int fd);

  // A tensor in a segment of its own; in a block of an arena, which is held
  // until the receiver has claimed it or can no longer claim it; or in private
  // memory, which Finish() copies into such a block.
  void PutTensor(Tensor tensor);

  // Marks the arguments as exclusive: `what` cannot be given to several
  // processes.
  void SetExclusive(absl::string_view what) { exclusive_ = std::string(what); }

  // Adds a hook for an argument that has to know the processes it is given to.
  void OnStart(StartHook hook) { on_start_.push_back(std::move(hook)); }

  // Returns all that was put. Tensors in private memory are copied into
  // ArgumentArena() (argument_arena.h), all into one block; views of one
  // storage still share one storage.
  // Errors: those of ArgumentArena() and of Arena::TryAllocate().
  absl::StatusOr<PackedArguments> Finish() &&;

 private:
  absl::Status CopyPrivate();

  ArchiveWriter bytes_;
  std::vector<UniqueFd> fds_;
  std::vector<StartHook> on_start_;
  std::string exclusive_;
  PackedTensors tensors_;
};

// Ownership: owns the descriptors and tensors that have not been taken; the
//   bytes must outlive it.
// Threads: thread-compatible.
// Trust: bytes and descriptors may be anything; the caller validates each
//   descriptor it takes.
class ArgumentReader {
 public:
  ArgumentReader(absl::string_view bytes, std::vector<UniqueFd> fds,
                 PackedTensors tensors = {})
      : bytes_(bytes), fds_(std::move(fds)), tensors_(std::move(tensors)) {}

  // Errors: kDataLoss if the bytes are too short.
  template <ArchivableValue T>
  absl::StatusOr<T> Get() {
    return bytes_.Get<T>();
  }
  absl::StatusOr<std::string> GetString() { return bytes_.GetString(); }

  // The next descriptor. Errors: kDataLoss if none is left.
  absl::StatusOr<UniqueFd> TakeFd();

  // The next tensor of PutTensor(), claimed; of one storage with others that
  // share theirs. Errors: kDataLoss if none is left, or if it could not be
  // claimed, because its sender was killed or its name is gone;
  // kResourceExhausted at a limit of this process.
  absl::StatusOr<Tensor> TakeTensor();

  // Errors: kDataLoss if bytes, descriptors or tensors are left over.
  absl::Status Finish() const;

  // Number of unread bytes.
  size_t left() const { return bytes_.left(); }

 private:
  ArchiveReader bytes_;
  std::vector<UniqueFd> fds_;
  size_t next_fd_ = 0;
  PackedTensors tensors_;
  size_t next_tensor_ = 0;
};

template <typename T>
struct ArgumentTraits;

// A type that can be passed to another process.
template <typename T>
concept Argument = requires(const T& value, ArgumentWriter& to,
                            ArgumentReader& from) {
  { ArgumentTraits<T>::Name() } -> std::convertible_to<std::string>;
  { ArgumentTraits<T>::Pack(value, to) } -> std::same_as<absl::Status>;
  { ArgumentTraits<T>::Unpack(from) } -> std::same_as<absl::StatusOr<T>>;
};

// Does not compile, and says why, for a type that cannot be passed.
template <typename T>
struct RequireArgument {
  static_assert(
      Argument<T>,
      "a value of this type cannot be sent to another process: it has no "
      "ArgumentTraits<T>. Include, from tenon/spawn/arguments/, "
      "plain_arguments.h for numbers, enums, strings and containers of types "
      "with traits; shm_arguments.h for Segment, Tensor, Value, Array; "
      "ipc_arguments.h for Channel and locks; queue_arguments.h for queues and "
      "pipes. For a type of your own, specialize ArgumentTraits: argument.h "
      "has an example. Pointers cannot be sent");
  static constexpr bool kIsChecked = true;
};

// Whether the sender must move it: std::move(). To require this, set `static
// constexpr bool kGivenAway = true;` in the traits.
template <typename T>
constexpr bool IsGivenAway() {
  if constexpr (requires { ArgumentTraits<T>::kGivenAway; }) {
    return ArgumentTraits<T>::kGivenAway;
  }
  return false;
}

// The demangled name of a type.
std::string ReadableTypeName(const std::type_info& type);

// For a type that is sent as one descriptor and reopened by T::Adopt(fd).
template <typename T>
struct AdoptedFdTraits {
  static std::string Name() { return ReadableTypeName(typeid(T)); }
  static absl::Status Pack(const T& value, ArgumentWriter& to) {
    return to.PutFd(value.fd());
  }
  static absl::StatusOr<T> Unpack(ArgumentReader& from) {
    absl::StatusOr<UniqueFd> fd = from.TakeFd();
    if (!fd.ok()) return fd.status();
    return T::Adopt(*std::move(fd));
  }
};

// For a type that may have a name (SharingStrategy::kFileSystem) instead of a
// descriptor, and is then reopened by T::Open(name).
template <typename T>
struct NamedOrFdTraits {
  static std::string Name() { return ReadableTypeName(typeid(T)); }
  static absl::Status Pack(const T& value, ArgumentWriter& to) {
    to.PutString(value.name());
    return value.name().empty() ? to.PutFd(value.fd()) : absl::OkStatus();
  }
  static absl::StatusOr<T> Unpack(ArgumentReader& from) {
    const absl::StatusOr<std::string> name = from.GetString();
    if (!name.ok()) return name.status();
    if (!name->empty()) return T::Open(*name);
    return AdoptedFdTraits<T>::Unpack(from);
  }
};

template <>
struct ArgumentTraits<UniqueFd> {
  static std::string Name() { return "tenon::UniqueFd"; }
  static absl::Status Pack(const UniqueFd& fd, ArgumentWriter& to) {
    return to.PutFd(fd.get());
  }
  static absl::StatusOr<UniqueFd> Unpack(ArgumentReader& from) {
    return from.TakeFd();
  }
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_ARGUMENTS_ARGUMENT_H_
