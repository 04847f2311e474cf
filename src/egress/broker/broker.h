// SPDX-License-Identifier: Apache-2.0
// Broker: puts the brokered secrets of a plan into requests, and keeps their placeholders from
// every other place. A program has a placeholder at most; the value is added here, for the bound
// host, port, methods and paths alone, and taken out of the answers again (answers.h).
//
// Immutable; made anew for each plan. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "egress/broker/vault.h"
#include "egress/http/head.h"
#include "model/secret.h"
#include "redact/matcher.h"

namespace cloister::egress {

// Rules of records for refusals of the broker.
inline constexpr std::string_view kPlaceholderRule = "secret-placeholder";
inline constexpr std::string_view kSecretRule = "secret-broker";

class Broker {
 public:
  // Why a request cannot be sent.
  struct Fault {
    std::string_view rule;  // of records
    int status = 0;         // of the answer
    std::string reason;     // a sentence
    std::string remedy;     // a sentence
  };

  // A secret without a value is known by its placeholder, and its requests are refused.
  static std::shared_ptr<const Broker> make(std::vector<model::PlanSecret> secrets,
                                            const SecretValues& values);

  // Whether a secret is for this destination. Its answers have to be cleaned (answers.h).
  [[nodiscard]] bool binds(std::string_view host, uint16_t port) const;
  // Sets the headers of the secrets for this request, puts values in place of placeholders, and
  // asks a bound destination for answers that can be read. Wipe the head's values afterwards.
  std::optional<Fault> apply(RequestHead& head, std::string_view host, uint16_t port) const;

  // A placeholder where none may be: in a body, a path, another header or name.
  [[nodiscard]] std::optional<Fault> misplaced(std::string_view text, std::string_view where) const;
  // The fault of a placeholder of the secret `name`, found in a stream.
  [[nodiscard]] static Fault misplacedIn(std::string_view where, const std::string& name);
  // Whether a looked-up name has a placeholder, also one cut into labels.
  [[nodiscard]] std::optional<Fault> inLookUp(std::string_view name) const;

  // For streams. Null: there are no placeholders.
  [[nodiscard]] const std::shared_ptr<const redact::Patterns>& placeholders() const {
    return placeholders_;
  }
  // Of all values. Never null.
  [[nodiscard]] const std::shared_ptr<const redact::Patterns>& values() const { return patterns_; }

 private:
  struct Secret {
    model::PlanSecret plan;
    std::shared_ptr<const SecretBytes> value;  // null: not here
  };

  Broker() = default;
  [[nodiscard]] static bool isFor(const Secret& secret, const RequestHead& head,
                                  std::string_view host, uint16_t port);
  std::optional<Fault> setHeader(RequestHead& head, const Secret& secret) const;
  std::optional<Fault> replaceIn(HeadField& field, const Secret& secret, bool usable) const;
  [[nodiscard]] std::optional<Fault> checkRest(const RequestHead& head) const;

  std::vector<Secret> secrets_;
  std::shared_ptr<const redact::Patterns> patterns_;
  std::shared_ptr<const redact::Patterns> placeholders_;
  std::shared_ptr<const redact::Patterns> lowered_;  // placeholders, as a look-up may spell them
};

// Overwrites the values of all fields.
void wipe(RequestHead& head);

}  // namespace cloister::egress
