// SPDX-License-Identifier: Apache-2.0
// An observer that checks a runtime's promises about files: begun, given in full, ended.
#pragma once

#include <string>

#include "runtime/runtime.h"

#include "require.h"

namespace cloister::fuzz {

class StrictObserver : public runtime::ExecObserver {
 public:
  StrictObserver(uint32_t max_files, uint64_t max_bytes)
      : max_files_(max_files), max_bytes_(max_bytes) {}

  void onStarted() override { started_ = true; }
  runtime::Task<void> onOutput(model::Stream stream, std::string_view) override {
    REQUIRE(started_);
    REQUIRE(stream == model::Stream::kStdout || stream == model::Stream::kStderr);
    co_return;
  }
  runtime::Task<void> onFileBegin(std::string, uint64_t size) override {
    REQUIRE(!in_file_);
    REQUIRE(++files_ <= max_files_);
    REQUIRE(size <= max_bytes_ - bytes_);
    in_file_ = true;
    bytes_ += size;
    left_ = size;
    co_return;
  }
  runtime::Task<void> onFileData(std::string_view bytes) override {
    REQUIRE(in_file_);
    REQUIRE(bytes.size() <= left_);
    left_ -= bytes.size();
    co_return;
  }
  runtime::Task<void> onFileEnd() override {
    REQUIRE(in_file_ && left_ == 0);
    in_file_ = false;
    co_return;
  }

 private:
  uint32_t max_files_;
  uint64_t max_bytes_;
  uint32_t files_ = 0;
  uint64_t bytes_ = 0;
  uint64_t left_ = 0;
  bool in_file_ = false;
  bool started_ = false;
};

}  // namespace cloister::fuzz
