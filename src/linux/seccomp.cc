// SPDX-License-Identifier: Apache-2.0
#include "linux/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <memory>

#include <seccomp.h>

#include "base/crypto.h"
#include "base/fd.h"
#include "base/file.h"
#include "linux/seccomp_constants.h"
#include "linux/seccomp_ranges.h"

namespace cloister::linux {
namespace {

namespace json = base::json;
using base::ObjectReader;

#if defined(__x86_64__)
constexpr std::string_view kArchitecture = "x86_64";
constexpr uint32_t kAuditArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::string_view kArchitecture = "aarch64";
constexpr uint32_t kAuditArch = AUDIT_ARCH_AARCH64;
#else
#error "no system call policy for this architecture"
#endif

// Numbers from here on are the x32 ABI's on x86_64 (and nobody's elsewhere).
constexpr uint32_t kX32Bit = 0x40000000;
constexpr size_t kMaxArgs = 6;
constexpr size_t kMaxRulesEach = 1024;

using Context = std::unique_ptr<void, decltype(&seccomp_release)>;

struct ArgSet {
  unsigned index = 0;
  uint64_t mask = UINT32_MAX;
  std::vector<uint64_t> values;
};

struct SyscallRule {
  std::string name;
  uint32_t action = SCMP_ACT_ALLOW;
  std::vector<ArgSet> args;
  bool optional = false;
};

std::unexpected<Error> broken(const std::string& where, std::string_view what) {
  return fail(Code::kInvalid, "reading " + where + ": " + std::string(what));
}

Result<uint32_t> parseAction(std::string_view name, const std::string& where) {
  if (name == "allow") return SCMP_ACT_ALLOW;
  if (name == "kill") return SCMP_ACT_KILL_PROCESS;
  if (name == "pretend") return SCMP_ACT_ERRNO(0);
  if (const auto number = errnoByName(name)) return SCMP_ACT_ERRNO(static_cast<uint32_t>(*number));
  return broken(where, "unknown action '" + std::string(name) + "'");
}

Result<uint64_t> parseValue(const json::value& value, const std::string& where) {
  if (value.is_int64() && value.get_int64() >= 0) return static_cast<uint64_t>(value.get_int64());
  if (value.is_uint64()) return value.get_uint64();
  if (!value.is_string()) return broken(where, "a value is a number or a name");
  const std::string_view text = value.get_string();
  if (text.starts_with("0x")) {
    uint64_t number = 0;
    const auto [end, error] =
        std::from_chars(text.data() + 2, text.data() + text.size(), number, 16);
    if (error == std::errc() && end == text.data() + text.size()) return number;
  }
  if (const auto constant = seccompConstant(text)) return *constant;
  return broken(where, "unknown value '" + std::string(text) + "'");
}

Result<ArgSet> parseArg(const json::value& value, const std::string& where) {
  if (!value.is_object()) return broken(where, "not an object");
  ObjectReader reader(value.get_object(), where);
  ArgSet arg;
  const auto index = TRY(reader.integer("index", 0, kMaxArgs - 1));
  if (!index) return broken(where, "no index");
  arg.index = static_cast<unsigned>(*index);
  if (const json::value* mask = reader.any("mask")) arg.mask = TRY(parseValue(*mask, where));
  const json::array* values = TRY(reader.array("in"));
  if (values == nullptr || values->empty()) return broken(where, "no values");
  for (const json::value& item : *values) {
    const uint64_t number = TRY(parseValue(item, where));
    if ((number & ~arg.mask) != 0) return broken(where, "a value outside of its mask");
    arg.values.push_back(number);
  }
  TRY(reader.finish());
  return arg;
}

Result<SyscallRule> parseSyscall(const json::value& value, const std::string& where) {
  SyscallRule rule;
  if (value.is_string()) {
    rule.name = value.get_string();
    return rule;
  }
  if (!value.is_object()) return broken(where, "neither a name nor an object");
  ObjectReader reader(value.get_object(), where);
  rule.name = TRY(reader.text("name")).value_or("");
  rule.optional = TRY(reader.boolean("optional")).value_or(false);
  if (const auto action = TRY(reader.text("action")))
    rule.action = TRY(parseAction(*action, where));
  if (const json::array* args = TRY(reader.array("args"))) {
    for (const json::value& arg : *args)
      rule.args.push_back(TRY(parseArg(arg, where + " " + rule.name)));
  }
  TRY(reader.finish());
  return rule;
}

Result<> addRule(scmp_filter_ctx context, int number, const SyscallRule& rule,
                 const std::vector<scmp_arg_cmp>& comparisons, const std::string& where) {
  const int error = seccomp_rule_add_array(
      context, rule.action, number, static_cast<unsigned>(comparisons.size()), comparisons.data());
  if (error != 0) return failErrno("adding " + rule.name + " of " + where, -error);
  return {};
}

// libseccomp compares each argument with a single value, so each combination is a rule of its own.
Result<> addCombinations(scmp_filter_ctx context, int number, const SyscallRule& rule,
                         const std::string& where) {
  size_t combinations = 1;
  for (const ArgSet& arg : rule.args) {
    combinations *= arg.values.size();
    if (combinations > kMaxRulesEach) return broken(where, rule.name + ": too many combinations");
  }
  for (size_t i = 0; i < combinations; ++i) {
    std::vector<scmp_arg_cmp> comparisons;
    size_t rest = i;
    for (const ArgSet& arg : rule.args) {
      const uint64_t value = arg.values[rest % arg.values.size()];
      rest /= arg.values.size();
      comparisons.push_back({arg.index, SCMP_CMP_MASKED_EQ, arg.mask, value});
    }
    TRY(addRule(context, number, rule, comparisons, where));
  }
  return {};
}

Result<> addSyscall(scmp_filter_ctx context, uint32_t default_action, const json::value& value,
                    const std::string& where) {
  const SyscallRule rule = TRY(parseSyscall(value, where));
  // libseccomp refuses a rule equal to the default; in our documents such a rule is documentation.
  if (rule.action == default_action) return {};
  const int number = seccomp_syscall_resolve_name(rule.name.c_str());
  if (number == __NR_SCMP_ERROR) {
    if (rule.optional) return {};
    return broken(where, "unknown system call '" + rule.name + "'");
  }
  if (number < 0) return {};  // another architecture's
  return addCombinations(context, number, rule, where);
}

Result<> addGroup(scmp_filter_ctx context, uint32_t default_action, const json::value& value,
                  const std::string& where) {
  if (!value.is_object()) return broken(where, "not an object");
  ObjectReader reader(value.get_object(), where);
  const std::string name = TRY(reader.text("name")).value_or("");
  if (name.empty()) return broken(where, "no name");
  if (TRY(reader.text("why")).value_or("").empty()) return broken("group " + name, "no why");
  const json::array* syscalls = TRY(reader.array("syscalls"));
  if (syscalls == nullptr || syscalls->empty()) return broken("group " + name, "no syscalls");
  TRY(reader.finish());
  for (const json::value& syscall : *syscalls)
    TRY(addSyscall(context, default_action, syscall, "group " + name));
  return {};
}

Result<> requireArchitecture(const json::array* names) {
  for (const json::value& name : names == nullptr ? json::array{} : *names) {
    if (name.is_string() && name.get_string() == kArchitecture) return {};
  }
  return broken("architectures", std::string(kArchitecture) + " is not among them");
}

// Instructions before libseccomp's: answer a native call with a number above the bound at once, and
// pass all other calls on. Jumps are relative, so the rest stays valid.
Result<std::vector<sock_filter>> beyondPrologue(const json::object* beyond) {
  if (beyond == nullptr) return std::vector<sock_filter>{};
  ObjectReader reader(*beyond, "beyond");
  const auto above = TRY(reader.integer("above", 0, kX32Bit - 1));
  const auto action = TRY(reader.text("action"));
  if (!above || !action) return broken("beyond", "no above or no action");
  if (TRY(reader.text("why")).value_or("").empty()) return broken("beyond", "no why");
  TRY(reader.finish());
  const uint32_t answer = TRY(parseAction(*action, "beyond"));
  return std::vector<sock_filter>{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kAuditArch, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32Bit, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, static_cast<uint32_t>(*above), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, answer),
  };
}

// Appends libseccomp's program to `filter`.
Result<> exportProgram(scmp_filter_ctx context, std::vector<sock_filter>& filter) {
  const Fd fd(memfd_create("seccomp", MFD_CLOEXEC));
  if (!fd) return failErrno("making a memory file");
  if (const int error = seccomp_export_bpf(context, fd.get()); error != 0)
    return failErrno("exporting a filter", -error);
  struct stat st;
  if (fstat(fd.get(), &st) != 0) return failErrno("reading a filter");
  const size_t before = filter.size();
  filter.resize(before + static_cast<size_t>(st.st_size) / sizeof(sock_filter));
  if (pread(fd.get(), filter.data() + before, static_cast<size_t>(st.st_size), 0) != st.st_size)
    return failErrno("reading a filter");
  if (filter.size() > BPF_MAXINSNS) return fail(Code::kInvalid, "compiling a filter: too long");
  return {};
}

Result<Context> makeContext(uint32_t default_action) {
  Context context(seccomp_init(default_action), &seccomp_release);
  if (!context) return fail(Code::kInternal, "making a filter: out of memory");
  int error = seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM));
  // A binary tree instead of a list: a quarter of the work for the average call.
  if (error == 0) error = seccomp_attr_set(context.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  if (error != 0) return failErrno("making a filter", -error);
  return context;
}

}  // namespace

Result<std::vector<sock_filter>> assembleSeccomp(const json::object& policy) {
  ObjectReader reader(policy, "");
  const std::string action = TRY(reader.text("default")).value_or("");
  const uint32_t otherwise = TRY(parseAction(action, "default"));
  const json::array* architectures = TRY(reader.array("architectures"));
  TRY(requireArchitecture(architectures));
  const json::object* beyond = TRY(reader.object("beyond"));
  std::vector<sock_filter> filter = TRY(beyondPrologue(beyond));
  const json::array* groups = TRY(reader.array("groups"));
  TRY(reader.finish());
  const Context context = TRY(makeContext(otherwise));
  for (const json::value& group : groups == nullptr ? json::array{} : *groups)
    TRY(addGroup(context.get(), otherwise, group, "group"));
  TRY(exportProgram(context.get(), filter));
  return filter;
}

Result<SeccompProgram> compileSeccomp(const json::object& policy) {
  SeccompProgram program;
  program.filter = dispatchByRange(TRY(assembleSeccomp(policy)), kAuditArch);
  const std::string_view bytes(reinterpret_cast<const char*>(program.filter.data()),
                               program.filter.size() * sizeof(sock_filter));
  program.description = policy;
  program.description["architecture"] = kArchitecture;
  program.description["instructions"] = program.filter.size();
  program.description["filter_sha256"] = base::sha256Hex(bytes);
  return program;
}

namespace {

Result<json::object> readPolicy(const std::string& path) {
  const std::string text = TRY(base::readFile(path));
  json::value value = TRY(base::parseJson(text));
  if (!value.is_object()) return fail(Code::kInvalid, "not an object");
  return std::move(value.get_object());
}

Result<> addGroups(json::object& policy, const std::string& more) {
  const json::object addition = TRY(readPolicy(more));
  ObjectReader reader(addition, "");
  const json::array* architectures = TRY(reader.array("architectures"));
  TRY(requireArchitecture(architectures));
  const json::array* groups = TRY(reader.array("groups"));
  TRY(reader.finish());
  if (groups == nullptr || !policy["groups"].is_array()) return broken("groups", "none to add");
  for (const json::value& group : *groups)
    policy["groups"].get_array().push_back(group);
  return {};
}

}  // namespace

Result<SeccompProgram> loadSeccomp(const std::string& path, const std::vector<std::string>& more) {
  auto compiled = [&]() -> Result<SeccompProgram> {
    json::object policy = TRY(readPolicy(path));
    for (const std::string& addition : more)
      TRY(addGroups(policy, addition));
    return compileSeccomp(policy);
  }();
  if (compiled) return compiled;
  std::string all = path;
  for (const std::string& addition : more)
    all += " and " + addition;
  return std::unexpected(std::move(compiled).error().within("loading " + all));
}

}  // namespace cloister::linux
