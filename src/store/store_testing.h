// SPDX-License-Identifier: Apache-2.0
// For tests of the ledger and of its users: waiting for a write, values to write.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <string_view>
#include <utility>

#include "artifacts/tenant_cipher.h"
#include "base/file.h"
#include "base/id.h"
#include "store/commit.h"
#include "store/rows/executions.h"
#include "store/rows/retention.h"
#include "store/rows/sealed.h"
#include "store/store.h"

namespace cloister::store::testing {

// Memory where there is some to write to: hundreds of small ledgers need no disk.
inline std::filesystem::path fastDirectory() {
  if (::access("/dev/shm", W_OK) == 0) return "/dev/shm";
  return std::filesystem::temp_directory_path();
}

// True in the suites pooled/unit/…: awaited reads then never run at once (SqliteOptions).
inline bool poolsReads() {
  const char* reads = std::getenv("CLOISTER_READS");
  return reads != nullptr && std::string_view(reads) == "pool";
}

// A temporary directory, removed with the object.
class TempDir {
 public:
  explicit TempDir(const std::filesystem::path& in = fastDirectory()) {
    std::string name = in / "cloister-store-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// Keeps the keys beside the encrypted data, under a master key of this process.
inline std::shared_ptr<artifacts::TenantCipher> cipherIn(const TempDir& dir) {
  static const artifacts::Secret master = artifacts::Secret::random();
  if (!base::makeDirs(dir.file("keys"), 0700)) std::abort();
  return std::make_shared<artifacts::TenantCipher>(
      artifacts::Keyring::open(dir.file("keys"), {master}).value());
}

// Starts a write and waits for its `done`.
template <class T>
Result<T> await(const std::function<void(Done<T>)>& start) {
  std::promise<Result<T>> promise;
  start([&](Result<T> result) { promise.set_value(std::move(result)); });
  return promise.get_future().get();
}

using store::commit;

inline model::Principal principal(const std::string& tenant, const std::string& agent = "agent") {
  return {.tenant = tenant,
          .app = "app",
          .agent = agent,
          .user = "user",
          .roles = model::Role::kAgent,
          .key_id = "key_1"};
}

inline model::Principal admin() {
  return {.tenant = "ops",
          .app = "",
          .agent = "",
          .user = "root",
          .roles = model::Role::kAdmin,
          .key_id = "key_0"};
}

inline NewExecution queued(const std::string& tenant = "acme", const std::string& agent = "agent") {
  NewExecution request;
  request.execution.id = base::newId("exec");
  request.execution.principal = principal(tenant, agent);
  request.execution.language = "python";
  request.execution.created_at = 1'700'000'000'000'000;
  request.request_json = R"json({"code":"print(1)","language":"python"})json";
  request.spec = std::string("spec\0bytes\xff", 11);
  return request;
}

inline model::AuditEvent event(const std::string& action, const model::Execution& about) {
  return {.action = action,
          .subject = about.id,
          .principal = about.principal,
          .details = {{"code_sha256", about.provenance.code_sha256}, {"number", 7}}};
}

inline Result<Accepted> accept(Store& store, const NewExecution& request) {
  return commit(store, acceptExecution, request, event("execution.accepted", request.execution));
}

inline Result<> update(Store& store, const model::Execution& execution) {
  return commit(store, updateExecution, execution, event("execution.updated", execution));
}

inline Result<> update(Store& store, model::Execution execution, model::Status status) {
  execution.status = status;
  return update(store, execution);
}

inline Result<> append(Store& store, const std::string& subject, const std::string& tenant) {
  return commit(store, appendEvent,
                {.action = "test.noted",
                 .subject = subject,
                 .principal = principal(tenant),
                 .details = {{"note", "on " + subject}}});
}

inline Result<Retained> retain(Store& store, const Retention& rules) {
  return commit(store, store::retain, rules);
}

// Accepts an execution and runs it to its end.
inline Result<model::Execution> finished(Store& store, const NewExecution& request,
                                         int64_t finished_at = 1'700'000'001'000'000) {
  model::Execution execution = TRY(accept(store, request)).execution;
  TRY(update(store, execution, model::Status::kRunning));
  execution.status = model::Status::kCompleted;
  execution.exit_code = 0;
  execution.out = {.bytes = "hi\n", .total = 3, .truncated = false, .artifact = ""};
  execution.provenance.stdout_sha256 = base::sha256Hex("hi\n");
  execution.finished_at = finished_at;
  TRY(update(store, execution));
  return execution;
}

}  // namespace cloister::store::testing
