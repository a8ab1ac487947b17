// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Python: the interpreter of $TENON_TORCH_PYTHON in this process, with torch.
// Its library is loaded at run time, so that nothing of Python is needed to
// build, and no code of Tenon has to be a shared library. A test that uses it
// has //shm_manager:testdata/torch_peer.py in its data.

#ifndef TENON_CUDA_IPC_PYTHON_TESTING_H_
#define TENON_CUDA_IPC_PYTHON_TESTING_H_

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tenon/shm_manager/torch_process.h"

namespace tenon::cuda_ipc {

// Python's, of which only addresses are used.
struct PyObject;
using PyDestructor = void (*)(PyObject* object);

// Ownership: never ended, since torch has threads.
// Threads: of the thread that started it.
// Processes: not to be forked: the interpreter and torch have threads.
class Python {
 public:
  // The interpreter of this process. Errors: kNotFound with the reason if there
  // is no torch, or its Python has no shared library.
  static absl::StatusOr<Python*> Start() {
    static const auto* const started = new absl::StatusOr<Python*>(StartOnce());
    return *started;
  }

  // Runs a statement, as torch_peer.py does; its answer.
  std::string Run(const std::string& statement) {
    PyObject* const answer = call_(answer_, "s", statement.c_str());
    if (answer == nullptr) {
      print_error_();
      return "(no answer)";
    }
    std::string text = as_text_(answer);
    release_(answer);
    return text;
  }

  // A variable of the statements. Takes the reference over.
  void Set(const std::string& name, PyObject* value) {
    ASSERT_NE(value, nullptr);
    ASSERT_EQ(set_item_(names_, name.c_str(), value), 0);
    release_(value);
  }
  // Null if there is none. The reference is that of the variables.
  PyObject* Get(const std::string& name) {
    return get_item_(names_, name.c_str());
  }

  PyObject* NewCapsule(void* data, const char* name, PyDestructor destructor) {
    return new_capsule_(data, name, destructor);
  }
  const char* CapsuleName(PyObject* capsule) { return capsule_name_(capsule); }
  // Null, without an exception, if its name is another.
  void* CapsuleData(PyObject* capsule, const char* name) {
    return is_capsule_(capsule, name) == 1 ? capsule_data_(capsule, name)
                                           : nullptr;
  }
  void RenameCapsule(PyObject* capsule, const char* name) {
    EXPECT_EQ(rename_capsule_(capsule, name), 0);
  }

 private:
  // The lines that the interpreter prints for a program.
  static std::vector<std::string> Ask(const std::string& program) {
    std::string text;
    FILE* const out = popen(
        absl::StrCat("'", TorchPython(), "' -c '", program, "'").c_str(), "r");
    if (out == nullptr) return {};
    char part[4096];
    while (fgets(part, sizeof(part), out) != nullptr) text += part;
    pclose(out);
    return absl::StrSplit(text, '\n');
  }

  static absl::StatusOr<Python*> StartOnce() {
    const std::string problem = TorchProblem();
    if (!problem.empty()) return absl::NotFoundError(problem);
    const std::vector<std::string> lines =
        Ask("import sys, sysconfig; var = sysconfig.get_config_var; "
            "print(var(\"LIBDIR\")); print(var(\"INSTSONAME\")); "
            "print(sys.base_prefix); print(\":\".join(sys.path[1:]))");
    if (lines.size() < 4) return absl::NotFoundError("python gave no paths");
    const std::string path = absl::StrCat(lines[0], "/", lines[1]);
    // Python's own modules expect its symbols to be global.
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
      return absl::NotFoundError(absl::StrCat(
          TorchPython(), " has no shared library to load: ", dlerror()));
    }
    setenv("PYTHONHOME", lines[2].c_str(), 1);
    setenv("PYTHONPATH", lines[3].c_str(), 1);
    auto* const python = new Python(library);
    return python->Import() ? python
                            : absl::StatusOr<Python*>(absl::NotFoundError(
                                  "torch_peer.py cannot be imported"));
  }

  explicit Python(void* library) : library_(library) {
    Find("PyObject_CallFunction", call_);
    Find("PyErr_Print", print_error_);
    Find("PyUnicode_AsUTF8", as_text_);
    Find("Py_DecRef", release_);
    Find("PyDict_SetItemString", set_item_);
    Find("PyDict_GetItemString", get_item_);
    Find("PyCapsule_New", new_capsule_);
    Find("PyCapsule_GetName", capsule_name_);
    Find("PyCapsule_IsValid", is_capsule_);
    Find("PyCapsule_GetPointer", capsule_data_);
    Find("PyCapsule_SetName", rename_capsule_);
  }

  template <typename Function>
  void Find(const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, symbol));
    EXPECT_NE(function, nullptr) << symbol;
  }

  bool Import() {
    void (*initialize)(int signals);
    int (*run)(const char* program);
    PyObject* (*import)(const char* module);
    PyObject* (*attribute)(PyObject * object, const char* name);
    Find("Py_InitializeEx", initialize);
    Find("PyRun_SimpleString", run);
    Find("PyImport_ImportModule", import);
    Find("PyObject_GetAttrString", attribute);
    initialize(/*signals=*/0);
    const std::string folder = kTorchPeer;
    if (run(absl::StrCat("import sys; sys.path.append('",
                         folder.substr(0, folder.rfind('/')), "')")
                .c_str()) != 0) {
      return false;
    }
    PyObject* const peer = import("torch_peer");
    if (peer == nullptr) {
      print_error_();
      return false;
    }
    answer_ = attribute(peer, "answer");
    names_ = attribute(peer, "names");
    return answer_ != nullptr && names_ != nullptr;
  }

  void* const library_;
  PyObject* answer_ = nullptr;
  PyObject* names_ = nullptr;
  PyObject* (*call_)(PyObject* function, const char* format, ...);
  void (*print_error_)();
  const char* (*as_text_)(PyObject* text);
  void (*release_)(PyObject* object);
  int (*set_item_)(PyObject* names, const char* name, PyObject* value);
  PyObject* (*get_item_)(PyObject* names, const char* name);
  PyObject* (*new_capsule_)(void* data, const char* name, PyDestructor end);
  const char* (*capsule_name_)(PyObject* capsule);
  int (*is_capsule_)(PyObject* capsule, const char* name);
  void* (*capsule_data_)(PyObject* capsule, const char* name);
  int (*rename_capsule_)(PyObject* capsule, const char* name);
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_PYTHON_TESTING_H_
