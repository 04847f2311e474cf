// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/agent_runtime.h"

#include <algorithm>

namespace cloister::orchestrator {
namespace {

namespace json = base::json;

constexpr std::string_view kRuntimes[] = {"process", "gvisor", "microvm"};
constexpr uint32_t kMillis = 1000;

}  // namespace

Result<AgentRuntime> readAgentRuntime(const json::object& object, const model::Limits& max) {
  constexpr int64_t kLeastMemory = 16;
  base::ObjectReader reader(object, "");
  AgentRuntime runtime;
  runtime.runtime = TRY(reader.text("runtime")).value_or("");
  const auto known = std::ranges::find(kRuntimes, runtime.runtime) != std::end(kRuntimes);
  if (!runtime.runtime.empty() && !known) {
    return fail(Code::kInvalid, "runtime: must be process, gvisor or microvm", "runtime");
  }
  runtime.kernel = TRY(reader.text("kernel")).value_or("");
  if (!runtime.kernel.empty() && runtime.kernel != kDefaultKernel) {
    return fail(Code::kInvalid,
                "kernel: must be \"default\", the kernel of the nodes' images (microvm.image)",
                "kernel");
  }
  if (!runtime.kernel.empty() && runtime.runtime != "microvm") {
    return fail(Code::kInvalid, "kernel: only the runtime microvm has a kernel of its own",
                "kernel");
  }
  const auto most = static_cast<int64_t>(max.memory_bytes >> 20);
  if (const auto memory = TRY(reader.integer("memory_mb", kLeastMemory, most))) {
    runtime.memory_bytes = static_cast<uint64_t>(*memory) << 20;
  }
  const double processors = static_cast<double>(max.cpu_millis) / kMillis;
  if (const auto vcpus = TRY(reader.number("vcpus", 0.01, processors))) {
    runtime.cpu_millis = static_cast<uint32_t>(*vcpus * kMillis);
  }
  TRY(reader.finish());
  return runtime;
}

json::object toJsonObject(const AgentRuntime& runtime) {
  const auto text = [](const std::string& value) {
    return value.empty() ? json::value(nullptr) : json::value(value);
  };
  json::object object{{"runtime", text(runtime.runtime)},
                      {"kernel", text(runtime.kernel)},
                      {"memory_mb", nullptr},
                      {"vcpus", nullptr}};
  if (runtime.memory_bytes) object["memory_mb"] = *runtime.memory_bytes >> 20;
  if (runtime.cpu_millis) {
    object["vcpus"] = static_cast<double>(*runtime.cpu_millis) / kMillis;
  }
  return object;
}

Result<> settleForAgent(store::Store& store, const model::Principal& principal,
                        model::RunRequest& request) {
  if (principal.agent.empty() || principal.isOwn()) return {};
  const auto found = store::documents(store).named({.tenant = principal.tenant},
                                                   std::string(kAgentRuntimeKind), principal.agent);
  if (!found) {
    if (found.error().code == Code::kNotFound) return {};
    return std::unexpected(found.error());
  }
  const json::value stored = TRY(base::parseJson(found->json));
  if (!stored.is_object()) {
    return fail(Code::kInternal, "the runtime of the agent is not an object: " + found->id);
  }
  // The bounds may be lower now; policy judges the request as any other.
  model::Limits any = request.limits;
  any.memory_bytes = UINT64_MAX;
  any.cpu_millis = UINT32_MAX;
  const AgentRuntime runtime = TRY(readAgentRuntime(stored.get_object(), any));
  if (request.runtime.empty()) request.runtime = runtime.runtime;
  const size_t memory = model::limitIndex(model::limit_name::kMemory);
  if (runtime.memory_bytes && !request.named_limits.test(memory)) {
    request.limits.memory_bytes = *runtime.memory_bytes;
    request.named_limits.set(memory);
  }
  const size_t processors = model::limitIndex(model::limit_name::kCpuMillis);
  if (runtime.cpu_millis && !request.named_limits.test(processors)) {
    request.limits.cpu_millis = *runtime.cpu_millis;
    request.named_limits.set(processors);
    const size_t time = model::limitIndex(model::limit_name::kCpuTime);
    if (!request.named_limits.test(time)) {
      request.limits.cpu_time = std::chrono::milliseconds(0);
      model::settle(request.limits);
    }
  }
  return {};
}

}  // namespace cloister::orchestrator
