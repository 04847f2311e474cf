// SPDX-License-Identifier: Apache-2.0
// Questions to policy about a session, and about other programs in its sandbox: each question has
// the risks of the session's request and the isolation of its agent.
#include <map>

#include <gmock/gmock.h>

#include "base/file.h"
#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/sessions/session_fixture.h"

namespace cloister::orchestrator {
namespace {

struct SeenQuestion {
  bool has_walls = false;
  uint32_t agent_cpu_millis = 0;
  std::vector<std::string> variables;  // of its risks
};

// Decides as the embedded engine, and keeps the last question of each operation.
class ListeningEngine final : public PolicyEngine {
 public:
  explicit ListeningEngine(PolicyEngine& engine) : engine_(engine) {}
  [[nodiscard]] std::string_view name() const override { return engine_.name(); }
  boost::asio::awaitable<Ruling> rule(const policy::Question& question) override {
    SeenQuestion& seen = questions[std::string(question.operation)];
    seen.has_walls = question.walls != nullptr;
    seen.agent_cpu_millis = question.agent_cpu_millis;
    if (question.risk_facts != nullptr) seen.variables = question.risk_facts->variables;
    return engine_.rule(question);
  }
  [[nodiscard]] std::string policyId() const override { return engine_.policyId(); }
  [[nodiscard]] Result<> ready() const override { return engine_.ready(); }

  std::map<std::string, SeenQuestion> questions;

 private:
  PolicyEngine& engine_;
};

class SessionPermitsTest : public SessionsTest {
 protected:
  SessionPermitsTest() {
    levels_ = policy::parseLevels(
                  "version: 1\n"
                  "sandbox_levels:\n"
                  "  only:\n"
                  "    description: for tests\n"
                  "    why: a test\n"
                  "    permissions:\n"
                  "      allowed_commands: [{pattern: '*', why: a test}]\n"
                  "      forbidden_paths: [{path: '/workspace/secrets/*', why: a test}]\n"
                  "      allowed_file_operations: [read, write, create]\n"
                  "      project_code: allow\n"
                  "    resource_limits: {max_memory_mb: 512, max_cpu_percentage: 50}\n",
                  "test")
                  .value();
  }
  ~SessionPermitsTest() override { close(); }

  PolicyEngine& engine() override { return listening_; }
  AgentGuard* guard() override {
    guard_ = std::make_unique<AgentGuard>(*store_, levels_, languages_, "only");
    return guard_.get();
  }
  void addLanguageWithKernel() {
    const std::string dir = dir_ + "/languages";
    std::filesystem::create_directories(dir + "/kernels");
    ASSERT_TRUE(base::writeFileAtomic(dir + "/kernels/k.py", "cells()", 0644));
    ASSERT_TRUE(base::writeFileAtomic(dir + "/python.yaml",
                                      "name: python\n"
                                      "title: Python\n"
                                      "source: main.py\n"
                                      "run: [python3, '{source}']\n"
                                      "kernel: [python3, '{kernel}', '{dir}']\n"
                                      "kernel_file: k.py\n"
                                      "install: a test\n",
                                      0644));
    auto languages = model::LanguageSet::load(dir);
    ASSERT_TRUE(languages) << languages.error().message;
    languages_ = *std::move(languages);
  }
  std::string createdWithVariable() {
    Asked wanted = asked();
    wanted.settings.env["TASK"] = "x";
    return created(wanted);
  }
  void expectWhole(const std::string& operation) {
    ASSERT_TRUE(listening_.questions.contains(operation)) << operation;
    const SeenQuestion& seen = listening_.questions[operation];
    EXPECT_TRUE(seen.has_walls) << operation;
    EXPECT_EQ(seen.agent_cpu_millis, 500U) << operation;
    EXPECT_THAT(seen.variables, testing::ElementsAre("TASK")) << operation;
  }

  ListeningEngine listening_{embedded_};
  policy::Levels levels_;
  std::unique_ptr<AgentGuard> guard_;
};

TEST_F(SessionPermitsTest, FilesAreAskedAboutWithRisksAndWalls) {
  open();
  const std::string id = createdWithVariable();
  expectWhole("session");
  ASSERT_TRUE(await(sessions_->files(principal(), id, {{"list", "", "1", "9"}, false, ""})));
  expectWhole("files");
}

TEST_F(SessionPermitsTest, InterpretersAreAskedAboutWithRisksAndWalls) {
  addLanguageWithKernel();
  open();
  const std::string id = createdWithVariable();
  model::ExecRequest cell;
  cell.run.language = "python";
  cell.run.code = "1 + 1";
  const auto running = await(sessions_->exec(principal(), id, cell, ""));
  ASSERT_TRUE(running);
  runUntil([&] { return listening_.questions.contains("kernel"); });
  expectWhole("kernel");
  ASSERT_TRUE(await(sessions_->end(principal(), id)));
  ServiceTest::ended(running->id);
}

}  // namespace
}  // namespace cloister::orchestrator
