// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/then_remove.h"

#include <utility>

#include "async/spawn.h"
#include "wire/runner.h"

namespace cloister::runtime {
namespace {

class Removing final : public Exec {
 public:
  Removing(std::unique_ptr<Exec> exec, boost::asio::any_io_executor executor,
           std::shared_ptr<Switchboard> board, std::shared_ptr<HoldGate> gate,
           std::vector<std::string> paths)
      : exec_(std::move(exec)),
        executor_(std::move(executor)),
        board_(std::move(board)),
        gate_(std::move(gate)),
        passes_(gate_->closed ? gate_->count : 0),
        paths_(std::move(paths)) {}

  Task<Result<model::Outcome>> run(ExecObserver& observer) override {
    const auto executor = executor_;
    const auto board = board_;
    const auto gate = gate_;
    const uint64_t passes = passes_;
    std::string frames = framesOf(paths_);
    auto outcome = co_await exec_->run(observer);
    async::spawn(executor, send(board, gate, passes, std::move(frames)));
    co_return outcome;
  }
  void cancel() override { exec_->cancel(); }
  Task<Result<>> input(std::string bytes) override { return exec_->input(std::move(bytes)); }
  Result<> signal(int number) override { return exec_->signal(number); }
  Result<> resize(model::TerminalSize size) override { return exec_->resize(size); }

 private:
  static std::string framesOf(const std::vector<std::string>& paths) {
    std::string frames;
    for (const std::string& path : paths) {
      std::string payload(sizeof(uint32_t) + path.size(), '\0');
      wire::Writer w(payload.data(), payload.size());
      w.bytes(path);
      addFrame(frames, wire::ToRunner::kRemove, 0, payload);
    }
    return frames;
  }

  // The files end with the sandbox, so errors are ignored. Hold waits until the runner has the
  // order.
  static Task<void> send(std::shared_ptr<Switchboard> board, std::shared_ptr<HoldGate> gate,
                         uint64_t passes, std::string frames) {
    while (gate->closed && gate->count != passes)
      co_await gate->changed.wait();
    ++gate->starting;
    std::ignore = co_await board->send(std::move(frames));
    --gate->starting;
    gate->changed.notify();
  }

  std::unique_ptr<Exec> exec_;
  boost::asio::any_io_executor executor_;
  std::shared_ptr<Switchboard> board_;
  std::shared_ptr<HoldGate> gate_;
  uint64_t passes_;  // number of the gate's closing to ignore; 0: none
  std::vector<std::string> paths_;
};

}  // namespace

std::unique_ptr<Exec> thenRemove(std::unique_ptr<Exec> exec, boost::asio::any_io_executor executor,
                                 std::shared_ptr<Switchboard> board, std::shared_ptr<HoldGate> gate,
                                 std::vector<std::string> paths) {
  if (paths.empty()) return exec;
  return std::make_unique<Removing>(std::move(exec), std::move(executor), std::move(board),
                                    std::move(gate), std::move(paths));
}

}  // namespace cloister::runtime
