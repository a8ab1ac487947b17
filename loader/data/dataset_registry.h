// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TENON_LOADER_DATASET: datasets that workers can make, with the arguments of
// their constructor.
//
//   class Photos : public loader::Dataset {
//    public:
//     static absl::StatusOr<std::unique_ptr<Photos>> Create(std::string folder,
//                                                           int pixels);
//     int64_t size() const override;
//     SampleSpec spec() const override;
//     absl::Status Get(int64_t index, SampleRandom& random,
//                      Sample& sample) override;
//   };
//   TENON_LOADER_DATASET(Photos(std::string, int));
//
//   auto photos = Loader::Create<Photos>({.workers = 4}, folder, 224);
//
// Each parameter is of a type with ArgumentTraits (spawn/arguments/argument.h):
// numbers, strings and containers; with shm_arguments.h tensors and segments,
// whose memory all workers share (sealed_tensor.h).

#ifndef TENON_LOADER_DATA_DATASET_REGISTRY_H_
#define TENON_LOADER_DATA_DATASET_REGISTRY_H_

#include <concepts>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/plugin_version.h"  // IWYU pragma: keep
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/arguments/packed_call.h"
#include "tenon/spawn/arguments/plain_arguments.h"

namespace tenon::loader {

// The name of a dataset and the packed arguments of its constructor, from which
// this process and its workers make instances.
// Ownership: owns the descriptors among the arguments, and holds the tensors
//   among them until it is destroyed.
// Threads: thread-compatible.
class DatasetRecipe {
 public:
  // A recipe of the dataset registered as `name`. No argument is converted:
  // text is a std::string, and 5 an int. Errors: kNotFound, listing the names;
  // kInvalidArgument if the dataset takes other types, naming both, or if an
  // argument can be given to one process only; those of packing an argument
  // (ArgumentTraits).
  template <typename... A>
  static absl::StatusOr<DatasetRecipe> ByName(absl::string_view name,
                                              A&&... arguments) {
    return Pack(
        name, spawn::Signature<spawn::TravelsAs<A>...>(),
        spawn::PackCall<spawn::TravelsAs<A>...>(std::forward<A>(arguments)...));
  }

  // The same for a dataset that need not be registered in this process. Name
  // and types are checked by Make() in the process where it is.
  template <typename... A>
  static absl::StatusOr<DatasetRecipe> ByNameElsewhere(absl::string_view name,
                                                       A&&... arguments) {
    return PackUnchecked(name, spawn::PackCall<spawn::TravelsAs<A>...>(
                                   std::forward<A>(arguments)...));
  }

  // A recipe of the dataset D, with arguments converted to the types of its
  // registration.
  template <typename D, typename... A>
  static absl::StatusOr<DatasetRecipe> Of(A&&... arguments);

  // The same from packed arguments; for the functions above.
  static absl::StatusOr<DatasetRecipe> Pack(
      absl::string_view name, const std::string& signature,
      absl::StatusOr<spawn::PackedArguments> arguments);
  static absl::StatusOr<DatasetRecipe> PackUnchecked(
      absl::string_view name, absl::StatusOr<spawn::PackedArguments> arguments);

  // The recipe in a process that has received name(), bytes() and fds().
  static DatasetRecipe FromParts(std::string name, std::string bytes,
                                 std::vector<UniqueFd> fds);

  const std::string& name() const { return name_; }
  const std::string& bytes() const { return bytes_; }
  // Still owned by the recipe.
  std::vector<int> fds() const;

  // Makes an instance. Errors: those of D::Create() and of unpacking an
  // argument, with the dataset's name; kInternal for an exception and for a
  // null pointer; kNotFound, listing the names; kResourceExhausted at a limit
  // of descriptors.
  absl::StatusOr<std::unique_ptr<Dataset>> Make() const;

 private:
  DatasetRecipe() = default;

  std::string name_;
  std::string bytes_;
  std::vector<UniqueFd> fds_;
};

// The rest is used by the macro.

using MakeDataset = absl::StatusOr<std::unique_ptr<Dataset>> (*)(
    absl::string_view bytes, std::vector<UniqueFd> fds);

// `declaration` is "Photos(std::string, int)"; the name is "Photos". A second
// dataset of the same name ends the program with a message.
bool RegisterDataset(absl::string_view declaration, std::string signature,
                     MakeDataset make);
absl::StatusOr<std::string> NameOfDataset(MakeDataset make);

template <typename F>
struct DatasetDeclaration;

template <typename D, typename... P>
struct DatasetDeclaration<D(P...)> {
  static_assert(std::derived_from<D, Dataset>,
                "TENON_LOADER_DATASET(D(P...)): D is a loader::Dataset");
  static_assert((spawn::RequireArgument<std::decay_t<P>>::kIsChecked && ...));

  using Type = D;

  static absl::StatusOr<std::unique_ptr<Dataset>> New(
      // NOLINTNEXTLINE(performance-unnecessary-value-param): D may move them.
      std::decay_t<P>... arguments) {
    // Create() of a base is not D's.
    if constexpr (requires {
                    {
                      D::Create(std::move(arguments)...)
                      } -> std::convertible_to<
                          absl::StatusOr<std::unique_ptr<D>>>;
                  }) {
      return D::Create(std::move(arguments)...);
    } else {
      return std::make_unique<D>(std::move(arguments)...);
    }
  }

  static absl::StatusOr<std::unique_ptr<Dataset>> Make(
      absl::string_view bytes, std::vector<UniqueFd> fds) {
    auto arguments =
        spawn::UnpackCall<std::decay_t<P>...>(bytes, std::move(fds));
    if (!arguments.ok()) return arguments.status();
    return std::apply(
        [](auto&... argument) { return New(std::move(argument)...); },
        *arguments);
  }

  // True; the same declaration in several files is registered once.
  static bool Register(absl::string_view declaration) {
    static const bool registered = RegisterDataset(
        declaration, spawn::Signature<std::decay_t<P>...>(), Make);
    return registered;
  }

  template <typename... A>
  static absl::StatusOr<DatasetRecipe> Pack(A&&... arguments) {
    const absl::StatusOr<std::string> name = NameOfDataset(Make);
    if (!name.ok()) return name.status();
    return DatasetRecipe::Pack(
        *name, spawn::Signature<std::decay_t<P>...>(),
        spawn::PackCall<std::decay_t<P>...>(std::forward<A>(arguments)...));
  }
};

// The registration of a base is not D's.
template <typename D>
concept RegisteredDataset = requires(const D* dataset) {
  requires std::same_as<typename decltype(TenonLoaderDataset(dataset))::Type,
                        D>;
};

template <typename D, typename... A>
absl::StatusOr<DatasetRecipe> DatasetRecipe::Of(A&&... arguments) {
  static_assert(RegisteredDataset<D>,
                "this dataset is not registered: write "
                "TENON_LOADER_DATASET(D(P...)) after the class, where P... are "
                "the parameters of its constructor or of D::Create()");
  using Declaration = decltype(TenonLoaderDataset(std::declval<const D*>()));
  return Declaration::Pack(std::forward<A>(arguments)...);
}

}  // namespace tenon::loader

// At namespace scope, in the namespace of the class, after it; in a header or a
// .cc file. In a library that is used by name alone, the target needs
// `alwayslink = True`.
#define TENON_LOADER_DATASET(...) \
  TENON_LOADER_DATASET_(__COUNTER__, __VA_ARGS__)
#define TENON_LOADER_DATASET_(n, ...) \
  TENON_LOADER_DATASET_INNER_(n, __VA_ARGS__)
#define TENON_LOADER_DATASET_INNER_(n, ...)                                \
  [[maybe_unused]] inline ::tenon::loader::DatasetDeclaration<__VA_ARGS__> \
  TenonLoaderDataset(                                                      \
      const ::tenon::loader::DatasetDeclaration<__VA_ARGS__>::Type*) {     \
    return {};                                                             \
  }                                                                        \
  [[maybe_unused]] static const bool tenon_loader_dataset_##n =            \
      ::tenon::loader::DatasetDeclaration<__VA_ARGS__>::Register(#__VA_ARGS__)

#endif  // TENON_LOADER_DATA_DATASET_REGISTRY_H_
