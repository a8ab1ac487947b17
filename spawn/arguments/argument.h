// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ArgumentTraits: how a value gets into another process.
//
// A type travels if it has these traits; a type of your own gets them so:
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
// Those of plain types are in plain_arguments.h, of what Tenon shares in
// shm_arguments.h and ipc_arguments.h. Values travel as //ipc/channel:archive
// has them: between processes of one program on one machine.

#ifndef TENON_SPAWN_ARGUMENTS_ARGUMENT_H_
#define TENON_SPAWN_ARGUMENTS_ARGUMENT_H_

#include <concepts>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::spawn {

// Bytes, descriptors and tensors, ready to be sent, or received.
struct PackedArguments {
  std::string bytes;
  std::vector<UniqueFd> fds;
  // What is in it that only one process can have; empty if nothing.
  std::string only_for_one;
  // Those in blocks of arenas. Who sends holds them until the other side has
  // claimed them (tensor_parcel.h); received, they are claimed, or say why not.
  std::vector<absl::StatusOr<Tensor>> tensors;
};

// Ownership: owns duplicates of the descriptors it was given, and has a share
//   in the tensors.
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

  // One in a block of an arena, which is held until the other side has it, or
  // will never have it; or one in private memory, which Finish() copies into
  // such a block.
  void PutPooled(Tensor tensor) { tensors_.emplace_back(std::move(tensor)); }

  // Says that `what` cannot be given to several processes at once.
  void IsOnlyForOne(absl::string_view what) {
    only_for_one_ = std::string(what);
  }

  // All that was put. Tensors in private memory are copied into ArgumentArena()
  // (argument_arena.h), all into one block; views of one storage stay that.
  // Errors: those of ArgumentArena() and of Arena::TryAllocate().
  absl::StatusOr<PackedArguments> Finish() &&;

 private:
  absl::Status CopyPrivate();

  ArchiveWriter bytes_;
  std::vector<UniqueFd> fds_;
  std::string only_for_one_;
  std::vector<Tensor> tensors_;
};

// Ownership: owns the descriptors and tensors that have not been taken; the
//   bytes must outlive it.
// Threads: thread-compatible.
// Trust: the bytes may be anything; so may each descriptor, and what it is has
//   to be checked by whoever takes it.
class ArgumentReader {
 public:
  ArgumentReader(absl::string_view bytes, std::vector<UniqueFd> fds,
                 std::vector<absl::StatusOr<Tensor>> tensors = {})
      : bytes_(bytes), fds_(std::move(fds)), tensors_(std::move(tensors)) {}

  // Errors: kDataLoss if the bytes end before.
  template <ArchivableValue T>
  absl::StatusOr<T> Get() {
    return bytes_.Get<T>();
  }
  absl::StatusOr<std::string> GetString() { return bytes_.GetString(); }

  // The next one. Errors: kDataLoss if there is none.
  absl::StatusOr<UniqueFd> TakeFd();

  // The next one of PutPooled(), claimed. Errors: kDataLoss if there is none,
  // or it could not be claimed because its sender was killed;
  // kResourceExhausted at a limit of this process.
  absl::StatusOr<Tensor> TakePooled();

  // Errors: kDataLoss if bytes, descriptors or tensors are left over.
  absl::Status Finish() const;

  // How many bytes have not been read.
  size_t left() const { return bytes_.left(); }

  // One T for all that is read here, made when it is first asked for: what
  // makes two tensors of one storage that.
  template <typename T>
  T& Shared() {
    std::shared_ptr<void>& shared = shared_[typeid(T)];
    if (shared == nullptr) shared = std::make_shared<T>();
    return *static_cast<T*>(shared.get());
  }

 private:
  ArchiveReader bytes_;
  std::vector<UniqueFd> fds_;
  size_t next_fd_ = 0;
  std::vector<absl::StatusOr<Tensor>> tensors_;
  size_t next_tensor_ = 0;
  std::map<std::type_index, std::shared_ptr<void>> shared_;
};

template <typename T>
struct ArgumentTraits;

// A type that travels.
template <typename T>
concept Argument = requires(const T& value, ArgumentWriter& to,
                            ArgumentReader& from) {
  { ArgumentTraits<T>::Name() } -> std::convertible_to<std::string>;
  { ArgumentTraits<T>::Pack(value, to) } -> std::same_as<absl::Status>;
  { ArgumentTraits<T>::Unpack(from) } -> std::same_as<absl::StatusOr<T>>;
};

// Whether the sender must give it away: std::move() it. Say so by
// `static constexpr bool kGivenAway = true;` in the traits.
template <typename T>
constexpr bool IsGivenAway() {
  if constexpr (requires { ArgumentTraits<T>::kGivenAway; }) {
    return ArgumentTraits<T>::kGivenAway;
  }
  return false;
}

// The name of a type as the compiler has it, readable.
std::string ReadableTypeName(const std::type_info& type);

// For what is sent as one descriptor and comes back by T::Adopt(fd).
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

// The same for what may have a name in its place (SharingStrategy::kFileSystem)
// and then comes back by T::Open(name).
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
