// SPDX-License-Identifier: Apache-2.0
#include "egress/tls/authority.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace cloister::egress {
namespace {

using testing::HasSubstr;
using testing::Not;

using Certificate = std::unique_ptr<X509, decltype(&::X509_free)>;

Certificate read(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&::BIO_free_all)> text(
      ::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &::BIO_free_all);
  return {::PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr), &::X509_free};
}

std::string textOf(X509* certificate) {
  const std::unique_ptr<BIO, decltype(&::BIO_free_all)> out(::BIO_new(::BIO_s_mem()),
                                                            &::BIO_free_all);
  ::X509_print(out.get(), certificate);
  char* bytes = nullptr;
  const long size = ::BIO_get_mem_data(out.get(), &bytes);
  return {bytes, static_cast<size_t>(size)};
}

class AuthorityTest : public testing::Test {
 protected:
  // The fault of the leaf that the authority presents, for a client that trusts `trusted` and
  // expects `host`; "ok" for none.
  static std::string verified(Authority& authority, const std::string& name,
                              const Authority& trusted, const std::string& host) {
    const std::unique_ptr<SSL, decltype(&::SSL_free)> session(::SSL_new(authority.context()),
                                                              &::SSL_free);
    const std::string protocol;
    const auto presented = authority.present(session.get(), name, protocol);
    if (!presented) return presented.error().message;
    const std::unique_ptr<X509_STORE, decltype(&::X509_STORE_free)> store(::X509_STORE_new(),
                                                                          &::X509_STORE_free);
    const Certificate root = read(trusted.certificate());
    ::X509_STORE_add_cert(store.get(), root.get());
    const std::unique_ptr<X509_STORE_CTX, decltype(&::X509_STORE_CTX_free)> check(
        ::X509_STORE_CTX_new(), &::X509_STORE_CTX_free);
    ::X509_STORE_CTX_init(check.get(), store.get(), ::SSL_get_certificate(session.get()), nullptr);
    X509_VERIFY_PARAM* rules = ::X509_STORE_CTX_get0_param(check.get());
    ::X509_VERIFY_PARAM_set1_host(rules, host.c_str(), host.size());
    ::X509_VERIFY_PARAM_set_purpose(rules, X509_PURPOSE_SSL_SERVER);
    ::X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_X509_STRICT);
    ::X509_verify_cert(check.get());
    return ::X509_verify_cert_error_string(::X509_STORE_CTX_get_error(check.get()));
  }
};

TEST_F(AuthorityTest, ItsLeavesAreGoodForTheirNames) {
  const auto authority = Authority::make({"api.example.com", "*.example.org"}).value();
  for (const char* name : {"api.example.com", "a.example.org", "a.b.example.org"})
    EXPECT_EQ(verified(*authority, name, *authority, name), "ok") << name;
  EXPECT_THAT(verified(*authority, "api.example.com", *authority, "evil.test"),
              HasSubstr("hostname mismatch"));
}

TEST_F(AuthorityTest, ItCoversTheInspectedNamesAlone) {
  const auto authority = Authority::make({"api.example.com", "*.example.org"}).value();
  EXPECT_TRUE(authority->covers("a.example.org"));
  EXPECT_FALSE(authority->covers("example.org"));
  EXPECT_FALSE(authority->covers("evil.test"));
  EXPECT_THAT(verified(*authority, "evil.test", *authority, "evil.test"),
              HasSubstr("does not cover evil.test"));
}

// Another authority's leaf, as if the key had been stolen: the constraints of the trusted
// certificate hold, whoever signs.
TEST_F(AuthorityTest, ItsCertificateIsConstrained) {
  const auto authority = Authority::make({"api.example.com", "*.example.org"}).value();
  const Certificate own = read(authority->certificate());
  const std::string text = textOf(own.get());
  EXPECT_THAT(text, HasSubstr("X509v3 Name Constraints: critical"));
  EXPECT_THAT(text, HasSubstr("DNS:api.example.com"));
  EXPECT_THAT(text, HasSubstr("DNS:example.org"));
  EXPECT_THAT(text, HasSubstr("Excluded:"));
  EXPECT_THAT(text, HasSubstr("CA:TRUE, pathlen:0"));
  EXPECT_THAT(text, HasSubstr("ASN1 OID: prime256v1"));
  auto* const constraints = static_cast<NAME_CONSTRAINTS*>(
      ::X509_get_ext_d2i(own.get(), NID_name_constraints, nullptr, nullptr));
  const auto other = Authority::make({"evil.test", "www.example.org"}).value();
  const auto checked = [&](const char* name) {
    const std::unique_ptr<SSL, decltype(&::SSL_free)> session(::SSL_new(other->context()),
                                                              &::SSL_free);
    const std::string protocol;
    EXPECT_TRUE(other->present(session.get(), name, protocol));
    return ::NAME_CONSTRAINTS_check(::SSL_get_certificate(session.get()), constraints);
  };
  EXPECT_EQ(checked("evil.test"), X509_V_ERR_PERMITTED_VIOLATION);
  EXPECT_EQ(checked("www.example.org"), X509_V_OK);
  ::NAME_CONSTRAINTS_free(constraints);
}

TEST_F(AuthorityTest, AnotherAuthorityIsNotTrusted) {
  const auto authority = Authority::make({"api.example.com"}).value();
  const auto other = Authority::make({"api.example.com"}).value();
  EXPECT_THAT(verified(*authority, "api.example.com", *other, "api.example.com"),
              HasSubstr("unable to get local issuer"));
}

TEST_F(AuthorityTest, EveryNameNeedsNoConstraint) {
  const auto authority = Authority::make({"*"}).value();
  EXPECT_EQ(verified(*authority, "any.example.net", *authority, "any.example.net"), "ok");
  EXPECT_THAT(textOf(read(authority->certificate()).get()), Not(HasSubstr("Permitted:")));
}

TEST_F(AuthorityTest, LongNamesHaveLeaves) {
  const std::string label(60, 'a');
  const std::string name = label + "." + label + "." + label + ".example.org";
  const auto authority = Authority::make({"*.example.org"}).value();
  EXPECT_EQ(verified(*authority, name, *authority, name), "ok");
}

TEST_F(AuthorityTest, LeavesAreKeptUpToABound) {
  const auto authority = Authority::make({"*.example.org"}).value();
  verified(*authority, "a.example.org", *authority, "a.example.org");
  verified(*authority, "a.example.org", *authority, "a.example.org");
  EXPECT_EQ(authority->leaves(), 1U);
  for (size_t i = 0; i < Authority::kMostLeaves + 3; ++i)
    verified(*authority, "n" + std::to_string(i) + ".example.org", *authority, "");
  EXPECT_LE(authority->leaves(), Authority::kMostLeaves);
}

}  // namespace
}  // namespace cloister::egress
