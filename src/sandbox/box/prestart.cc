// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/prestart.h"

#include <array>
#include <string_view>

#include "wire/runner.h"

namespace cloister::runtime {
namespace {

using wire::ToRunner;

constexpr size_t kMaxPath = 4096;

void addText(std::string& out, uint32_t channel, uint8_t kind, std::string_view text) {
  constexpr size_t kPiece = wire::kRunnerMaxPayload - 2;
  do {
    const std::string_view piece = text.substr(0, kPiece);
    text.remove_prefix(piece.size());
    std::string payload{static_cast<char>(kind), static_cast<char>(text.empty() ? 0 : 1)};
    addFrame(out, ToRunner::kText, channel, payload.append(piece));
  } while (!text.empty());
}

Task<Result<>> sendStart(Live& live, const std::string& frames, Live::Ahead ahead) {
  CO_TRY(co_await live.channel().write(frames));
  const auto frame = CO_TRY(co_await live.nextFrame());
  if (frame.type != wire::FromRunner::kStarted || frame.channel != kProgram) {
    co_return fail(Code::kInternal, "starting a program ahead: the runner could not");
  }
  live.setAhead(ahead);
  co_return Result<>();
}

}  // namespace

Prestart prestartOf(const model::ExecSpec& spec) {
  return {spec.files.front().path, spec.run.argv, spec.env};
}

void addCommand(std::string& out, uint32_t channel, const std::vector<std::string>& argv,
                const std::vector<std::string>& env) {
  for (const std::string& argument : argv)
    addText(out, channel, 0, argument);
  for (const std::string& variable : env)
    addText(out, channel, 1, variable);
}

std::string startFrame(uint32_t number, uint8_t flags, const std::string& cwd,
                       std::optional<model::TerminalSize> terminal) {
  std::string payload(1 + 4 + cwd.size() + 4, '\0');
  wire::Writer w(payload.data(), payload.size());
  w.u8(flags);
  w.bytes(cwd);
  if ((flags & wire::kStartTerminal) != 0) {
    w.u16(terminal->cols);
    w.u16(terminal->rows);
  }
  std::string frame;
  addFrame(frame, ToRunner::kStart, number, w.view());
  return frame;
}

Result<> addFile(std::string& out, uint32_t channel, const model::FileSpec& file) {
  if (file.path.size() > kMaxPath) return fail(Code::kInvalid, "sending files: path too long");
  std::array<char, kMaxPath + 64> head;
  wire::Writer w(head.data(), head.size());
  w.bytes(file.path);
  w.u32(file.mode);
  w.u64(file.content.size());
  addFrame(out, ToRunner::kFile, channel, w.view());
  return {};
}

Task<Result<>> startAhead(Live& live, const Prestart& prestart) {
  std::string out;
  addCommand(out, kProgram, prestart.argv, prestart.env);
  std::string start(1 + 4 + 4 + prestart.file.size(), '\0');
  wire::Writer w(start.data(), start.size());
  w.u8(wire::kStartFifo | wire::kStartKillRest);
  w.bytes("");
  w.bytes(prestart.file);
  addFrame(out, ToRunner::kStart, kProgram, w.view());
  co_return co_await sendStart(live, out, Live::Ahead::kAtFifo);
}

Task<Result<>> adopt(Live& live) {
  std::string out;
  constexpr char kFlags = wire::kStartAdopted | wire::kStartKillRest;
  addFrame(out, ToRunner::kStart, kProgram, std::string(1, kFlags) + std::string(4, '\0'));
  co_return co_await sendStart(live, out, Live::Ahead::kCopied);
}

}  // namespace cloister::runtime
