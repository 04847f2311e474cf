// SPDX-License-Identifier: Apache-2.0
// Certificates of a test's own authority, and a company's proxy that speaks TLS.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace cloister::egress {

// An authority whose certificate is in a file.
class TestAuthority {
 public:
  TestAuthority() : key_(::EVP_EC_gen("P-256"), &::EVP_PKEY_free) {
    static int count = 0;
    certificate_ = make("test authority", key_.get(), nullptr);
    extend(certificate_.get(), NID_basic_constraints, "critical,CA:TRUE");
    ::X509_sign(certificate_.get(), key_.get(), ::EVP_sha256());
    path_ = std::filesystem::temp_directory_path() /
            ("authority_" + std::to_string(::getpid()) + "_" + std::to_string(++count));
    const std::unique_ptr<std::FILE, decltype(&std::fclose)> file(std::fopen(path_.c_str(), "w"),
                                                                  &std::fclose);
    ::PEM_write_X509(file.get(), certificate_.get());
  }
  ~TestAuthority() { std::filesystem::remove(path_); }
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

  // Gives the server a certificate for `names`, as "DNS:proxy.test,IP:127.0.0.1".
  void certify(boost::asio::ssl::context& server, const std::string& names) const {
    const Key key(::EVP_EC_gen("P-256"), &::EVP_PKEY_free);
    const Certificate made = make("server", key.get(), certificate_.get());
    extend(made.get(), NID_subject_alt_name, names);
    ::X509_sign(made.get(), key_.get(), ::EVP_sha256());
    ::SSL_CTX_use_certificate(server.native_handle(), made.get());
    ::SSL_CTX_use_PrivateKey(server.native_handle(), key.get());
  }

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&::X509_free)>;

  // Null for `issuer`: it issues itself.
  static Certificate make(const std::string& name, EVP_PKEY* key, X509* issuer) {
    Certificate made(::X509_new(), &::X509_free);
    ::X509_set_version(made.get(), X509_VERSION_3);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(made.get()), issuer == nullptr ? 1 : 2);
    ::X509_gmtime_adj(::X509_getm_notBefore(made.get()), -60);
    ::X509_gmtime_adj(::X509_getm_notAfter(made.get()), 3600);
    ::X509_set_pubkey(made.get(), key);
    X509_NAME* subject = ::X509_get_subject_name(made.get());
    ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    ::X509_set_issuer_name(made.get(),
                           issuer == nullptr ? subject : ::X509_get_subject_name(issuer));
    return made;
  }
  static void extend(X509* certificate, int kind, const std::string& value) {
    const std::unique_ptr<X509_EXTENSION, decltype(&::X509_EXTENSION_free)> extension(
        ::X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str()), &::X509_EXTENSION_free);
    ::X509_add_ext(certificate, extension.get(), -1);
  }

  Key key_;
  Certificate certificate_{nullptr, &::X509_free};
  std::string path_;
};

// A proxy for one connection: it answers CONNECT by 200, then does `behave`.
struct TlsProxy {
  using Stream = boost::asio::ssl::stream<boost::asio::ip::tcp::socket>;
  using Task = boost::asio::awaitable<void>;

  Task serve(boost::asio::ip::tcp::acceptor& listener) {
    constexpr auto kQuiet = boost::asio::as_tuple(boost::asio::use_awaitable);
    Stream stream(co_await listener.async_accept(boost::asio::use_awaitable), context);
    const auto [refused] =
        co_await stream.async_handshake(boost::asio::ssl::stream_base::server, kQuiet);
    if (!refused) {
      co_await boost::asio::async_read_until(stream, boost::asio::dynamic_buffer(request),
                                             "\r\n\r\n", kQuiet);
      const std::string answer = "HTTP/1.1 200 OK\r\n\r\n";
      co_await boost::asio::async_write(stream, boost::asio::buffer(answer), kQuiet);
      co_await behave(stream);
    }
    done = true;
  }

  boost::asio::ssl::context context{boost::asio::ssl::context::tls_server};
  std::function<Task(Stream&)> behave = [](Stream&) -> Task { co_return; };
  std::string request;
  bool done = false;
};

}  // namespace cloister::egress
