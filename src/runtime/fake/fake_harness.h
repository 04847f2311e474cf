// SPDX-License-Identifier: Apache-2.0
// The fake runtime's side of runtime_suite.h.
#pragma once

#include <string>
#include <vector>

#include "runtime/fake/fake_runtime.h"
#include "runtime/runtime_suite.h"

namespace cloister::runtime {

inline std::vector<std::string> fakeArgv(Program program, const std::vector<std::string>& args) {
  static const std::map<Program, std::string> kNames = {
      {Program::kEcho, "echo"},      {Program::kErr, "err"},     {Program::kCat, "cat"},
      {Program::kEnv, "env"},        {Program::kExit, "exit"},   {Program::kSegv, "segv"},
      {Program::kShow, "show"},      {Program::kWrite, "write"}, {Program::kFlood, "flood"},
      {Program::kMix, "mix"},        {Program::kSleep, "sleep"}, {Program::kMemory, "memory"},
      {Program::kSpin, "spin"},      {Program::kFork, "fork"},   {Program::kDisk, "disk"},
      {Program::kMissing, "missing"}};
  std::vector<std::string> argv = {kNames.at(program)};
  argv.insert(argv.end(), args.begin(), args.end());
  return argv;
}

class FakeHarness {
 public:
  boost::asio::io_context& io() { return io_; }
  Runtime& runtime() { return runtime_; }
  static model::SignedPermit sign(const model::PermitFields& fields) {
    return {wire::encodePermit(fields), ""};
  }
  static std::string runtimeName() { return "fake"; }
  static std::vector<std::string> argv(Program program, const std::vector<std::string>& args) {
    return fakeArgv(program, args);
  }
  static std::string lacks(Program) { return ""; }
  size_t left() { return runtime_.live(); }

 private:
  boost::asio::io_context io_;
  FakeRuntime runtime_{io_.get_executor()};
};

}  // namespace cloister::runtime
