// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/secrets.h"

#include <algorithm>

#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "orchestrator/runs/java_trust.h"
#include "store/secret_store.h"

namespace cloister::orchestrator {
namespace {

using model::SecretAs;
using model::SecretUse;

constexpr size_t kPlaceholderBytes = 32;  // never met by chance
// The values of all brokered secrets of a permit fit into one message to cloister-egress.
constexpr size_t kMaxBrokeredBytes = 16'384;
constexpr size_t kMaxBundle = size_t{4} << 20;
constexpr uint32_t kReadOnly = 0444;

constexpr char kBundle[] = "/run/secrets/.cloister/authorities.pem";
constexpr std::string_view kBundles[] = {"/etc/ssl/certs/ca-certificates.crt",
                                         "/etc/pki/tls/certs/ca-bundle.crt"};
// OpenSSL, Python, Go and Rust; requests; curl; git; pip. Further libraries have authorities of
// their own: gRPC, the AWS SDKs, httplib2, cargo and Deno.
constexpr std::string_view kBundleVariables[] = {
    "SSL_CERT_FILE",  "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO", "PIP_CERT",           "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "AWS_CA_BUNDLE",  "HTTPLIB2_CA_CERTS",  "CARGO_HTTP_CAINFO",
    "DENO_CERT"};
constexpr std::string_view kNodeOptions = "NODE_OPTIONS";
constexpr std::string_view kJavaOptions = "JAVA_TOOL_OPTIONS";
constexpr char kJavaStore[] = "/run/secrets/.cloister/authorities.jks";

std::unexpected<Error> unfit(size_t index, const SecretUse& use, const std::string& why) {
  const std::string field = "secrets[" + std::to_string(index) + "]";
  return fail(Code::kInvalid, field + ": secret " + use.name + " " + why, field);
}

bool isHeaderValue(const std::string& value) {
  return std::ranges::none_of(
      value, [](char c) { return (static_cast<uint8_t>(c) < 0x20 && c != '\t') || c == 0x7f; });
}

std::string lowerCase(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// The value of a header: without the line feed that files end with.
std::string withoutLineEnd(std::string value) {
  while (value.ends_with('\n') || value.ends_with('\r'))
    value.pop_back();
  return value;
}

Result<> addBroker(size_t index, const SecretUse& use, const store::StoredSecret& stored,
                   SecretsInUse& all) {
  std::string value = withoutLineEnd(stored.value);
  if (value.size() > kMaxBrokeredBytes) {
    return unfit(index, use, "is too long for a header; set one of at most 16384 bytes");
  }
  if (!isHeaderValue(value)) {
    return unfit(index, use,
                 "has line breaks or control characters, which no header may have; set another "
                 "value, or use it as file");
  }
  model::PlanSecret plan{.id = "s" + std::to_string(index),
                         .name = use.name,
                         .version = stored.info.version,
                         .host = use.host,
                         .port = use.port,
                         .header = lowerCase(use.header),
                         .format = use.format,
                         .placeholder = "",
                         .methods = use.methods,
                         .paths = use.paths};
  if (!use.variable.empty()) {
    plan.placeholder = "cloister" + base::randomHex(kPlaceholderBytes);
    all.variables.push_back({use.variable, plan.placeholder});
  }
  all.values.push_back({plan.id, std::move(value)});
  all.brokered.push_back(std::move(plan));
  return {};
}

Result<> addUse(size_t index, const SecretUse& use, const store::StoredSecret& stored,
                SecretsInUse& all) {
  if (use.as == SecretAs::kBroker) return addBroker(index, use, stored, all);
  if (use.as == SecretAs::kFile) {
    all.files.push_back({use.path, stored.value, kReadOnly});
    return {};
  }
  if (stored.value.contains('\0')) {
    return unfit(index, use, "has a NUL byte, which no variable may have; use it as file");
  }
  all.variables.push_back({use.variable, stored.value});
  return {};
}

auto variableIn(model::ExecSpec& spec, std::string_view name) {
  return std::ranges::find_if(spec.env, [&](const std::string& each) {
    return each.size() > name.size() && each.starts_with(name) && each[name.size()] == '=';
  });
}

}  // namespace

Result<SecretsInUse> loadSecrets(store::Store& store, const std::string& tenant,
                                 const std::vector<SecretUse>& uses, int64_t now) {
  SecretsInUse all;
  for (size_t i = 0; i < uses.size(); ++i) {
    const SecretUse& use = uses[i];
    const auto stored = store.secrets().value({tenant, use.name});
    if (!stored && stored.error().code == Code::kNotFound) {
      return unfit(i, use, "is not there; have it set (cloister secret set " + use.name + ")");
    }
    if (!stored) return std::unexpected(stored.error());
    if (stored->info.expires_at != 0 && stored->info.expires_at <= now) {
      return unfit(i, use,
                   "expired at " + base::formatTime(stored->info.expires_at) +
                       "; have it set anew (cloister secret set " + use.name + ")");
    }
    TRY(addUse(i, use, *stored, all));
    all.known.push_back({use.name, stored->value});
    all.names.push_back(use.name);
    base::json::object shown{
        {"name", use.name}, {"version", stored->info.version}, {"as", model::secretAsName(use.as)}};
    if (use.as == SecretAs::kBroker) shown["host"] = use.host;
    all.shown.push_back(std::move(shown));
  }
  return all;
}

const std::string& systemAuthorities() {
  static const std::string kAuthorities = [] {
    for (const std::string_view path : kBundles) {
      if (auto bundle = base::readFile(std::string(path), kMaxBundle)) return *std::move(bundle);
    }
    return std::string();
  }();
  return kAuthorities;
}

Additions trustIn(const std::string& certificate, const std::string& system) {
  Additions trust;
  std::string bundle = system;
  if (!bundle.empty() && !bundle.ends_with('\n')) bundle += '\n';
  bundle += certificate;
  trust.files.push_back({kJavaStore, javaTrustStore(bundle), kReadOnly});
  trust.files.push_back({kBundle, std::move(bundle), kReadOnly});
  for (const std::string_view name : kBundleVariables)
    trust.variables.push_back({std::string(name), kBundle});
  trust.variables.push_back({std::string(kNodeOptions), "--use-openssl-ca"});
  trust.variables.push_back({std::string(kJavaOptions), std::string("-Djavax.net.ssl.trustStore=") +
                                                            kJavaStore +
                                                            " -Djavax.net.ssl.trustStoreType=JKS"});
  return trust;
}

void addVariables(model::ExecSpec& spec, const std::vector<Variable>& variables) {
  for (const Variable& each : variables) {
    const auto own = variableIn(spec, each.name);
    if (own == spec.env.end()) {
      spec.env.push_back(each.name + "=" + each.value);
    } else if ((each.name == kNodeOptions || each.name == kJavaOptions) &&
               !own->contains(each.value)) {
      *own += " " + each.value;
    }
  }
}

void addTo(model::ExecSpec& spec, const Additions& additions) {
  addVariables(spec, additions.variables);
  spec.files.insert(spec.files.end(), additions.files.begin(), additions.files.end());
}

void setVariables(model::ExecSpec& spec, const std::vector<Variable>& variables) {
  for (const Variable& each : variables) {
    const auto own = variableIn(spec, each.name);
    if (own != spec.env.end()) spec.env.erase(own);
    spec.env.push_back(each.name + "=" + each.value);
  }
}

}  // namespace cloister::orchestrator
