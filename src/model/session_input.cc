// SPDX-License-Identifier: Apache-2.0
// Requests to a running program: signals and more input.
#include "model/session.h"

namespace cloister::model {

namespace json = base::json;

namespace {

std::unexpected<Error> invalid(const std::string& field, const std::string& why) {
  return fail(Code::kInvalid, field + ": " + why, field);
}

}  // namespace

Result<int> parseSignal(const json::object& body) {
  constexpr int kMost = 64;  // SIGRTMAX
  base::ObjectReader reader(body, "");
  const json::value* value = reader.any("signal");
  if (value == nullptr) return invalid("signal", "is required");
  const json::string* name = value->if_string();
  json::error_code error;
  int64_t number = name != nullptr ? signalNumber(*name) : 0;
  if (name == nullptr && value->is_number()) number = value->to_number<int64_t>(error);
  if (error || number < 1 || number > kMost) {
    return invalid("signal", R"(must be a name such as "SIGINT" or a number from 1 to 64)");
  }
  TRY(reader.finish());
  return static_cast<int>(number);
}

Result<ProgramInput> parseProgramInput(const json::object& body, const RequestBounds& bounds) {
  base::ObjectReader reader(body, "");
  ProgramInput input;
  const auto encoding = TRY(reader.text("encoding"));
  const auto data = TRY(reader.text("data"));
  input.data = TRY(decodeText({"data", "encoding"}, data.value_or(""), encoding));
  input.eof = TRY(reader.boolean("eof")).value_or(false);
  TRY(reader.finish());
  if (!data && !input.eof) return invalid("data", "is required, unless eof is true");
  if (input.data.size() <= bounds.input_bytes) return input;
  return fail(Code::kTooLarge,
              "data: at most " + std::to_string(bounds.input_bytes) + " bytes are allowed", "data");
}

}  // namespace cloister::model
