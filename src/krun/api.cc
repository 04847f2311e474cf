// SPDX-License-Identifier: Apache-2.0
#include "krun/api.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include <dlfcn.h>
#include <link.h>

namespace cloister::krun {
namespace {

// The function `name` of a library, or nullptr, with the type from the published header.
struct Finder {
  void* library;

  template <class Function>
  bool find(const char* name, Function*& function) const {
    void* const symbol = ::dlsym(library, name);
    static_assert(sizeof function == sizeof symbol);
    std::memcpy(static_cast<void*>(&function), static_cast<const void*>(&symbol),
                sizeof symbol);  // POSIX: dlsym()
    return symbol != nullptr;
  }

  template <class Function>
  Result<> need(const char* name, Function*& function) const {
    if (find(name, function)) return {};
    return fail(Code::kUnsupported, std::string("loading libkrun: it has no ") + name +
                                        ": install version 1.17 or later");
  }
};

// The library's file, whose name has its version.
std::string fileOf(void* library) {
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0) return {};
  const std::unique_ptr<char, void (*)(void*)> path(::realpath(map->l_name, nullptr), std::free);
  return path ? path.get() : map->l_name;
}

// Loads the kernel for the library. The library opens the kernel by this name alone, and finds a
// file of the name already loaded: so load a kernel beside the library, wherever the directory is.
Result<void*> loadKernel(const std::string& library) {
  constexpr char kName[] = "libkrunfw.so.5";
  const size_t slash = library.rfind('/');
  const std::string beside = library.substr(0, slash == std::string::npos ? 0 : slash + 1) + kName;
  for (const char* name : {beside.c_str(), kName}) {
    if (void* const kernel = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return kernel;
  }
  return fail(Code::kUnsupported,
              std::string("loading libkrun's kernel: install libkrunfw 5: ") + ::dlerror());
}

}  // namespace

Result<KrunApi> loadKrun(const std::string& library) {
  // RTLD_NOW: a missing dependency must not show up with a half-made machine.
  const Finder in{::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)};
  if (in.library == nullptr) {
    return fail(Code::kUnsupported, std::string("loading libkrun: ") + ::dlerror());
  }
  void* const kernel = TRY(loadKernel(library));
  KrunApi api;
  TRY(in.need("krun_set_log_level", api.set_log_level));
  TRY(in.need("krun_create_ctx", api.create_ctx));
  TRY(in.need("krun_set_vm_config", api.set_vm_config));
  TRY(in.need("krun_set_root", api.set_root));
  TRY(in.need("krun_disable_implicit_vsock", api.disable_implicit_vsock));
  TRY(in.need("krun_add_vsock", api.add_vsock));
  TRY(in.need("krun_add_vsock_port", api.add_vsock_port));
  TRY(in.need("krun_set_console_output", api.set_console_output));
  TRY(in.need("krun_set_workdir", api.set_workdir));
  TRY(in.need("krun_set_exec", api.set_exec));
  TRY(in.need("krun_start_enter", api.start_enter));
  in.find("krun_add_virtiofs3", api.add_virtiofs3);
  api.file = fileOf(in.library);
  api.kernel = fileOf(kernel);
  return api;
}

}  // namespace cloister::krun
