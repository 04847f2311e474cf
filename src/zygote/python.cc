// SPDX-License-Identifier: Apache-2.0
// The extension module that makes a CPython a zygote: languages/zygote/python.py prepares the
// interpreter, and the module serves sandboxes with copies of the interpreter
// (sandbox/pool/zygote.h). A sandbox with a kernel of its own can receive no copy. There the
// interpreter is started in the sandbox ahead of the program: the interpreter waits alone at a FIFO
// for the program, and runs the program as a copy would.
//
// Uses only the stable ABI of CPython 3.9 (PEP 384), and PyRun_FileExFlags, which is older and
// unchanged ever since; so one build serves every later CPython of an image.
//
// serve() is a path hook, because of the place where CPython calls path hooks: in
// pymain_run_python(), once for the program's file, when everything is ready to run the file and no
// Python frame is on the stack. A copy runs the program from there, and so sees no frame but its
// own.
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include <Python.h>
#include <dirent.h>
#include <stdio.h>

#include "confine/confine.h"
#include "confine/spawn_loop.h"
#include "confine/zygote_plan.h"
#include "linux/message.h"
#include "linux/process.h"
#include "runner/runner.h"
#include "wire/runner.h"

extern "C" PyObject* PyRun_FileExFlags(FILE* file, const char* name, int start, PyObject* globals,
                                       PyObject* locals, int close, void* flags);

namespace cloister::zygote {
namespace {

using runtime::kZygoteControl;
using runtime::kZygotePlan;
using runtime::kZygoteRunner;

constexpr int kFileInput = 257;  // Py_file_input
constexpr int kFlushFailed = 120;
constexpr int kGoFd = 3;

// Functions provided by python.py.
struct Callbacks {
  PyObject* ready = nullptr;   // () -> None: last preparations, before any copy
  PyObject* begin = nullptr;   // () -> None: in a copy, resets shared state
  PyObject* status = nullptr;  // (SystemExit) -> int, having printed its message
  PyObject* end = nullptr;     // () -> None: the modules' part of interpreter shutdown
};
Callbacks the_callbacks;

// In an interpreter that waits alone: the path of its program. "" in a zygote.
std::string the_program;

[[noreturn]] void giveUp(const std::string& why) {
  std::ignore = linux::sendMessage(kZygoteControl, why.substr(0, runtime::kMaxAnswer));
  _exit(1);
}

// ---- from a copy to the two processes of a sandbox ---------------------------------------------

struct Streams {
  int go[2] = {-1, -1};
  int out[2] = {-1, -1};
  int err[2] = {-1, -1};
};

Result<> makeStreams(Streams& streams) {
  for (int* ends : {streams.go, streams.out, streams.err}) {
    if (::pipe2(ends, O_CLOEXEC) != 0) return failErrno("pipe2");
  }
  return {};
}

// In the program: takes its streams, and the end of `go` as kGoFd.
Result<> takeStreams(const Streams& streams) {
  TRY(linux::moveFd(streams.out[1], 1));
  TRY(linux::moveFd(streams.err[1], 2));
  TRY(linux::moveFd(streams.go[0], kGoFd));
  TRY(linux::closeFrom(kGoFd + 1));
  ::setsid();
  // Only the runner has a soft limit of processor time below the hard limit.
  rlimit time{};
  if (::getrlimit(RLIMIT_CPU, &time) != 0) return failErrno("getrlimit");
  time.rlim_max = time.rlim_cur;
  if (::setrlimit(RLIMIT_CPU, &time) != 0) return failErrno("setrlimit");
  if (::chdir("/workspace") != 0) return failErrno("entering /workspace");
  return linux::showMemory();  // the flag was lost with the change of the user id
}

// In pid 1: places the other ends at the runner's numbers. Uses at most as many descriptors as a
// program's smallest limit permits, 16.
Result<> giveStreams(const Streams& streams) {
  for (const int end : {streams.go[0], streams.out[1], streams.err[1]})
    ::close(end);
  int ends[] = {streams.go[1], streams.out[0], streams.err[0]};
  for (int& end : ends) {  // out of each other's way
    const int aside = ::fcntl(end, F_DUPFD_CLOEXEC, runner::kAdoptedErr + 1);
    if (aside < 0) return failErrno("fcntl F_DUPFD_CLOEXEC");
    ::close(end);
    end = aside;
  }
  for (int i = 0; i < 3; ++i)
    TRY(linux::moveFd(ends[i], runner::kAdoptedGo + i));
  return {};
}

// Confines this process, and returns in its child, the program; the process itself becomes the
// runner. Until then the process shares the memory of the zygote, and must leave the memory
// unchanged.
void becomeProgram(const runtime::Confinement& confinement, runtime::Birth& birth) {
  const runtime::ConfineFds fds = runtime::confineFds(birth);
  Streams streams;
  auto confined = runtime::confineSelf(confinement, birth.request.spec, fds);
  if (confined) confined = makeStreams(streams);
  if (!confined) runtime::refuseToStart(confined.error());
  PyOS_BeforeFork();
  const pid_t pid = ::fork();  // the C library's fork, which updates its own state
  const int failed = errno;
  if (pid == 0) {
    if (!takeStreams(streams)) _exit(1);
    linux::registerRseq();
    PyOS_AfterFork_Child();
    return;
  }
  PyOS_AfterFork_Parent();
  if (pid < 0) runtime::refuseToStart(base::errnoError("fork", failed));
  if (auto given = giveStreams(streams); !given) runtime::refuseToStart(given.error());
  runtime::becomeRunner({std::to_string(pid)});
}

// ---- the program -------------------------------------------------------------------------------

// Calls a function that must not fail; after a failure no state can be trusted.
void call(PyObject* function) {
  PyObject* result = PyObject_CallObject(function, nullptr);
  if (result == nullptr) {
    PyErr_Print();
    _exit(1);
  }
  Py_DECREF(result);
}

void waitForGo() {
  char none = 0;
  while (::read(kGoFd, &none, 1) < 0 && errno == EINTR) {
  }
  ::close(kGoFd);
}

// Calls a method of a module if imported; reports and ignores exceptions.
void callModule(const char* name, const char* method) {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* module = PyDict_GetItemString(modules, name);
  if (module == nullptr) return;
  PyObject* result = PyObject_CallMethod(module, method, nullptr);
  if (result == nullptr) PyErr_WriteUnraisable(module);
  Py_XDECREF(result);
}

bool isClosed(PyObject* file) {
  PyObject* closed = PyObject_GetAttrString(file, "closed");
  if (closed == nullptr) PyErr_Clear();
  const bool is = closed != nullptr && PyObject_IsTrue(closed) == 1;
  Py_XDECREF(closed);
  return is;
}

// As flush_std_files() of CPython.
bool flushStream(const char* name, bool report) {
  PyObject* file = PySys_GetObject(name);
  if (file == nullptr || file == Py_None || isClosed(file)) return true;
  PyObject* result = PyObject_CallMethod(file, "flush", nullptr);
  if (result == nullptr) {
    if (report) {
      PyErr_WriteUnraisable(file);
    } else {
      PyErr_Clear();
    }
  }
  Py_XDECREF(result);
  return result != nullptr;
}

bool flushStreams() {
  const bool out = flushStream("stdout", true);
  return flushStream("stderr", false) && out;
}

// The exit status for the exception that is set. A SystemExit is turned into its status by
// python.py; PyErr_Print() would end the interpreter.
int statusOfException() {
  if (PyErr_ExceptionMatches(PyExc_SystemExit) == 0) {
    PyErr_Print();
    return 1;
  }
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject* status = PyObject_CallFunctionObjArgs(the_callbacks.status, value, nullptr);
  const long number = status == nullptr ? 1 : PyLong_AsLong(status);
  PyErr_Clear();
  Py_XDECREF(status);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return static_cast<int>(number);
}

// Number of open files of this process; 0 if the kernel gives no number at once and `count` is
// false. In gVisor, and before Linux 6.2, counting needs another descriptor.
int openFiles(bool count) {
  constexpr const char* kFiles = "/proc/self/fd";
  struct stat status{};
  if (::stat(kFiles, &status) == 0 && status.st_size > 0) return static_cast<int>(status.st_size);
  if (!count) return 0;
  DIR* files = ::opendir(kFiles);
  if (files == nullptr) {
    rlimit limit{};
    const bool all = errno == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
    return all ? static_cast<int>(limit.rlim_cur) : 0;
  }
  int found = -1;  // excludes the directory's own descriptor
  while (const dirent* entry = ::readdir(files))
    found += entry->d_name[0] == '.' ? 0 : 1;
  ::closedir(files);
  return found;
}

// Does the work of Py_RunMain() for a file, and of Py_FinalizeEx() except for releasing memory.
[[noreturn]] void runProgram(const char* path) {
  const pid_t own = ::getpid();  // a forked child may get here as well
  PyObject* globals = PyModule_GetDict(PyImport_AddModule("__main__"));
  FILE* file = ::fopen(path, "rbe");
  if (file == nullptr) {
    PySys_WriteStderr("python3: can't open file '%s': [Errno %d] %s\n", path, errno,
                      base::errnoError("", errno).message.c_str() + 2);
    _exit(2);
  }
  Py_LeaveRecursiveCall();  // balances serve(), which never returns
  PyObject* result = PyRun_FileExFlags(file, path, kFileInput, globals, globals, 1, nullptr);
  // Count now: a failed program still holds its files.
  const int files_open = openFiles(result == nullptr);
  const bool interrupted = result == nullptr && PyErr_Occurred() == PyExc_KeyboardInterrupt;
  int status = result == nullptr ? statusOfException() : 0;
  Py_XDECREF(result);
  callModule("threading", "_shutdown");
  callModule("atexit", "_run_exitfuncs");
  if (!flushStreams()) status = kFlushFailed;
  call(the_callbacks.end);
  if (!flushStreams()) status = kFlushFailed;
  ::fflush(nullptr);
  if (interrupted) {
    ::signal(SIGINT, SIG_DFL);
    ::kill(::getpid(), SIGINT);
  }
  const int end = runner::adoptedEnd(status, files_open);
  if (::getpid() != own || ::sigqueue(1, runner::kAdoptedDone, {.sival_int = end}) != 0) {
    _exit(status);
  }
  for (;;)
    ::pause();  // releasing memory would take the processor from processes that answer requests
}

// ---- the module --------------------------------------------------------------------------------

// "" for a non-text object.
std::string textOf(PyObject* object) {
  PyObject* bytes = PyUnicode_AsUTF8String(object);
  if (bytes == nullptr) {
    PyErr_Clear();
    return {};
  }
  std::string text(PyBytes_AsString(bytes), static_cast<size_t>(PyBytes_Size(bytes)));
  Py_DECREF(bytes);
  return text;
}

// Runs a trivial program, so that the copy owns the memory pages that all programs write before a
// client waits.
void rehearse() {
  char text[] = "[].append(f'{len([])}')\n";
  PyObject* globals = PyDict_New();
  FILE* file = ::fmemopen(text, sizeof text - 1, "r");
  if (globals != nullptr && file != nullptr) {
    PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins());
    PyObject* result = PyRun_FileExFlags(file, "main.py", kFileInput, globals, globals, 1, nullptr);
    if (result == nullptr) PyErr_Clear();
    Py_XDECREF(result);
  }
  Py_XDECREF(globals);
  flushStreams();
}

// The orders of serve(), in the zygote and its copies.
std::optional<runtime::ZygoteOrders> the_orders;

// A small part of the program's stack; the program continues below.
constexpr size_t kStack = size_t{128} << 10;

[[noreturn]] void runCopy(runtime::Birth& birth) {
  becomeProgram(the_orders->confinement, birth);
  call(the_callbacks.begin);
  rehearse();
  waitForGo();
  const std::string program = "/workspace/" + the_orders->plan.argv[1];
  runProgram(program.c_str());
}

bool isProgram(PyObject* path, const runtime::ZygotePlan& plan) {
  return plan.argv.size() == 2 && textOf(path).ends_with("/" + plan.argv[1]);
}

PyObject* notTheProgram() {
  PyErr_SetString(PyExc_ImportError, "not the program");
  return nullptr;
}

PyObject* serve(PyObject*, PyObject* path) {
  if (!the_program.empty()) {
    if (textOf(path) != the_program) return notTheProgram();
    call(the_callbacks.ready);
    rehearse();
    runProgram(the_program.c_str());
  }
  auto orders = runtime::readZygotePlan(kZygotePlan);
  if (!orders) giveUp(orders.error().message);
  if (!isProgram(path, orders->plan)) return notTheProgram();
  call(the_callbacks.ready);
  orders->confinement.runner.reset(kZygoteRunner);
  the_orders = *std::move(orders);
  ::signal(SIGCHLD, SIG_IGN);  // no wait(2) needed; a sandbox resets the disposition
  if (!linux::sendMessage(kZygoteControl, runtime::kDone)) _exit(1);
  // Allocated on the main stack, so that a program runs on the main stack with almost all its room.
  alignas(16) char stack[kStack];
  runtime::serveSharing(kZygoteControl, stack, runCopy);
}

PyObject* prepare(PyObject*, PyObject* arguments) {
  const char* program = nullptr;
  if (PyArg_ParseTuple(arguments, "OOOOs", &the_callbacks.ready, &the_callbacks.begin,
                       &the_callbacks.status, &the_callbacks.end, &program) == 0)
    return nullptr;
  the_program = program;
  for (PyObject* kept :
       {the_callbacks.ready, the_callbacks.begin, the_callbacks.status, the_callbacks.end})
    Py_INCREF(kept);
  Py_RETURN_NONE;
}

PyObject* fail(PyObject*, PyObject* why) {
  giveUp(textOf(why));
}

PyMethodDef the_methods[] = {
    {"prepare", prepare, METH_VARARGS, nullptr},
    {"serve", serve, METH_O, nullptr},
    {"fail", fail, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef the_module = {
    PyModuleDef_HEAD_INIT,
    "cloister_zygote",
    nullptr,
    -1,
    the_methods,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace
}  // namespace cloister::zygote

PyMODINIT_FUNC __attribute__((visibility("default"))) PyInit_cloister_zygote();
PyMODINIT_FUNC PyInit_cloister_zygote() {
  return PyModule_Create(&cloister::zygote::the_module);
}
