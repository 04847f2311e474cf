// SPDX-License-Identifier: Apache-2.0
// CellFrames: reads the frames of a cell's program (wire/kernel.h) and passes on the contained
// streams. All input comes from the sandbox: sizes are checked before anything is kept, and after a
// violation nothing further is read.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "orchestrator/runs/result_parts.h"
#include "orchestrator/sessions/kernel.h"
#include "runtime/runtime.h"

namespace cloister::orchestrator {

class CellFrames final : public runtime::ExecObserver {
 public:
  // `changed` is called at the begin and at the end of the cell. Both outlive the CellFrames.
  CellFrames(runtime::ExecObserver& observer, const KernelBounds& bounds,
             std::function<void()> changed)
      : observer_(observer), bounds_(bounds), changed_(std::move(changed)) {}

  [[nodiscard]] bool started() const { return started_; }  // the program in contact with the kernel
  [[nodiscard]] bool begun() const { return begun_; }
  [[nodiscard]] std::optional<int> exitCode() const { return exit_code_; }
  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] base::json::array& results() { return results_; }
  [[nodiscard]] uint64_t resultsBytes() const { return results_bytes_; }
  [[nodiscard]] bool resultsTruncated() const { return truncated_; }
  // To stderr, before anything else of the cell.
  void sayFirst(std::string text) { first_ = std::move(text); }
  // Missing or cut results: model::Execution::results_left_out.
  [[nodiscard]] base::json::array& leftOut() { return left_out_; }

  void onStarted() override;
  Task<void> onOutput(model::Stream stream, std::string_view bytes) override;
  Task<void> onFileBegin(std::string path, uint64_t size) override;
  Task<void> onFileData(std::string_view bytes) override;
  Task<void> onFileEnd() override;
  void onUsage(const model::Usage& usage) override;

 private:
  Task<void> frame(uint8_t type, std::string_view payload);
  void beginResult(std::string_view payload);
  void addPiece(std::string_view piece);
  void keepResult();
  void dropLast();
  void noteLeftOut(std::optional<size_t> result, const LeftOutPart& part);
  [[nodiscard]] uint64_t room() const;
  void breakOff();

  runtime::ExecObserver& observer_;
  const KernelBounds& bounds_;
  std::function<void()> changed_;
  std::string first_;
  std::string pending_;  // less than a frame
  ResultParts result_;   // the arriving result
  uint32_t result_size_ = 0;
  uint32_t result_left_ = 0;
  base::json::array results_;
  std::vector<uint64_t> result_bytes_;  // of each
  base::json::array left_out_;
  uint64_t results_bytes_ = 0;
  bool truncated_ = false;
  bool started_ = false;
  bool begun_ = false;
  bool broken_ = false;
  std::optional<int> exit_code_;
};

}  // namespace cloister::orchestrator
