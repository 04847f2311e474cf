// SPDX-License-Identifier: Apache-2.0
// The time of questions about agents: an operation judged by an agent's rules, and a page of the
// violations of an agent with 100,000. Prints a line of JSON: agent_bench [ROUNDS].
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "policy/agent/validate.h"
#include "store/agent_store.h"
#include "store/open.h"
#include "store/rows/agents.h"

namespace {

using namespace cloister;

constexpr int kViolations = 100'000;

double percentile(std::vector<double>& all, double share) {
  std::ranges::sort(all);
  return all[static_cast<size_t>(share * static_cast<double>(all.size() - 1))];
}

double microsSince(base::Monotonic start) {
  return std::chrono::duration<double, std::micro>(base::monotonicNow() - start).count();
}

// An operation of each kind; agents ask most often for a command or a file.
std::vector<policy::Operation> operations() {
  using enum policy::FileAccess;
  std::vector<policy::Operation> all;
  for (const char* path : {"src/main.cc", "/etc/passwd", "docs/../src/x/y/z.py"}) {
    for (const auto access : {kRead, kWrite, kCreate, kDelete})
      all.push_back({.what = policy::FileOperation{access, path, false}, .wanted = {}});
  }
  for (const char* text :
       {"git status", "cargo build --release", "ls -la src && grep -rn main .", "sudo rm -rf /",
        "python3 -m pytest -q tests", "git log --oneline | head -5"}) {
    all.push_back({.what = policy::CommandOperation{text, {}}, .wanted = {}});
  }
  all.push_back({.what = policy::NetworkOperation{"https://pypi.org/simple/x"}, .wanted = {}});
  all.push_back({.what = policy::GateOperation{"tests"}, .wanted = {}});
  all.push_back({.what = policy::WorkflowOperation{"release"}, .wanted = {}});
  return all;
}

std::vector<double> checks(int rounds) {
  const policy::Levels levels =
      policy::parseLevels(base::readFile(CLOISTER_SOURCE_DIR "/policies/levels.yaml").value(),
                          "levels")
          .value();
  model::AgentSandbox sandbox;
  sandbox.tenant = "bench";
  sandbox.agent = "agent";
  sandbox.level = "standard";
  for (int i = 0; i < 20; ++i)
    sandbox.forbidden_paths.push_back("/workspace/private" + std::to_string(i) + "/*");
  const policy::AgentRules rules = policy::makeAgentRules(levels, sandbox).value();
  std::vector<double> took;
  for (int round = 0; round < rounds; ++round) {
    for (const policy::Operation& operation : operations()) {
      const auto start = base::monotonicNow();
      const auto verdict = policy::validateOperation(rules, operation, {}, 1);
      took.push_back(microsSince(start));
      if (verdict.kind == policy::Validation::Kind::kResourceExceeded) std::abort();
    }
  }
  return took;
}

void fill(store::Store& store) {
  model::Principal by;
  by.tenant = "bench";
  by.agent = "agent";
  for (int i = 0; i < kViolations; ++i) {
    model::Violation v;
    v.id = base::newId("vio");
    v.tenant = by.tenant;
    v.agent = by.agent;
    v.at = i + 1;
    v.level = "standard";
    v.operation = "command_execution";
    v.what = "sudo ls";
    v.outcome = "unsafe_command";
    v.rule = "sudo *";
    v.reason = "\"sudo ls\" is forbidden";
    constexpr int kInFlight = 2000;
    const bool wait = i % kInFlight == 0 || i + 1 == kViolations;
    const auto stored = std::make_shared<std::promise<void>>();
    store.write(store::writing(store::addViolation, v, {}, by),
                [stored](Result<store::AfterViolation> after) {
                  if (!after) std::abort();
                  stored->set_value();
                });
    if (wait) stored->get_future().get();
  }
}

// Pages from the newest to the oldest, at any place.
std::vector<double> pages(store::Store& store) {
  std::vector<double> took;
  store::ViolationQuery query{.of = {"bench", "agent"}, .limit = 500};
  for (;;) {
    const auto start = base::monotonicNow();
    const auto page = store.agents().violations(store::Scope::allTenants(), query);
    took.push_back(microsSince(start));
    if (!page) std::abort();
    if (page->size() < query.limit) return took;
    query.before_seq = page->back().seq;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2000;
  std::vector<double> took = checks(rounds);
  const std::string dir =
      std::filesystem::temp_directory_path().string() + "/cloister-bench-" + base::randomHex(8);
  std::filesystem::create_directory(dir);
  std::vector<double> read;
  {
    store::SqliteOptions options;
    options.path = dir + "/ledger.db";
    const auto store = store::openSqlite(options);
    if (!store) return 1;
    fill(**store);
    read = pages(**store);
  }
  std::filesystem::remove_all(dir);
  std::printf(R"({"bench":"agents","checks":%zu,"p50_us":%.1f,"p99_us":%.1f,"violations":%d,)"
              R"("page":500,"page_p50_ms":%.2f,"page_p99_ms":%.2f})"
              "\n",
              took.size(), percentile(took, 0.5), percentile(took, 0.99), kViolations,
              percentile(read, 0.5) / 1000, percentile(read, 0.99) / 1000);
  return 0;
}
