// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/java_trust.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <openssl/evp.h>

#include "base/crypto.h"

namespace cloister::orchestrator {
namespace {

constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----";
constexpr std::string_view kEnd = "-----END CERTIFICATE-----";
constexpr uint32_t kMagic = 0xFEEDFEED;
constexpr uint32_t kVersion = 2;
constexpr uint32_t kTrusted = 2;  // the kind of an entry
constexpr std::string_view kWhitener = "Mighty Aphrodite";

std::vector<std::string> certificatesOf(std::string_view bundle) {
  std::vector<std::string> all;
  for (size_t at = bundle.find(kBegin); at != std::string_view::npos;
       at = bundle.find(kBegin, at)) {
    at += kBegin.size();
    const size_t end = bundle.find(kEnd, at);
    if (end == std::string_view::npos) break;
    std::string text(bundle.substr(at, end - at));
    std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == ' '; });
    if (auto der = base::fromBase64(text)) all.push_back(*std::move(der));
    at = end;
  }
  return all;
}

// Numbers are in network order, and a text has its length before it (java.io.DataOutput).
template <class Number>
void put(std::string& out, Number value) {
  for (size_t i = sizeof value; i > 0; --i)
    out += static_cast<char>(value >> (8 * (i - 1)));
}

void putText(std::string& out, std::string_view text) {
  put(out, static_cast<uint16_t>(text.size()));
  out += text;
}

// SHA-1 of the password in UTF-16, the whitener and the bytes before.
std::string checkSum(std::string_view store) {
  std::string hashed;
  for (const char c : kJavaTrustPassword)
    hashed.append({'\0', c});
  hashed.append(kWhitener).append(store);
  std::string sum(20, '\0');
  ::EVP_Digest(hashed.data(), hashed.size(), reinterpret_cast<unsigned char*>(sum.data()), nullptr,
               ::EVP_sha1(), nullptr);
  return sum;
}

}  // namespace

std::string javaTrustStore(std::string_view bundle) {
  const std::vector<std::string> certificates = certificatesOf(bundle);
  std::string store;
  put(store, kMagic);
  put(store, kVersion);
  put(store, static_cast<uint32_t>(certificates.size()));
  for (size_t i = 0; i < certificates.size(); ++i) {
    put(store, kTrusted);
    putText(store, "authority-" + std::to_string(i));
    put(store, uint64_t{0});  // the date of the entry
    putText(store, "X.509");
    put(store, static_cast<uint32_t>(certificates[i].size()));
    store += certificates[i];
  }
  return store + checkSum(store);
}

}  // namespace cloister::orchestrator
