// SPDX-License-Identifier: Apache-2.0
// RecordWriter and RecordReader: two users of one description of a record, as Encoder and Decoder
// are on the wire (wire/archive.h). `describe(archive, value)` describes a value once and names its
// members in the order of writing; the reader finds members by name.
#pragma once

#include <chrono>
#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "model/describe.h"
#include "store/records/clean.h"
#include "store/records/members.h"

namespace cloister::store {

class RecordWriter {
 public:
  static constexpr bool kReads = false;

  // The next member is written only if `said`, which keeps the records of earlier versions
  // unchanged. The reader accepts a record without the member.
  RecordWriter& when(bool said) {
    skip_ = !said;
    return *this;
  }
  // The reader accepts a record without the next member.
  RecordWriter& since() { return *this; }

  void text(std::string_view name, const std::string& v) { put(name, json::string(v)); }
  // Bytes that need not be text.
  void bytes(std::string_view name, const std::string& v) { put(name, anyBytes(v)); }
  void flag(std::string_view name, bool v) { put(name, v); }
  template <std::integral T>
  void number(std::string_view name, T v) {
    put(name, v);
  }
  template <std::integral T>
  void number(std::string_view name, const std::optional<T>& v) {
    put(name, v ? json::value(*v) : json::value(nullptr));
  }
  void time(std::string_view name, std::chrono::milliseconds v) { put(name, v.count()); }
  template <class E, class Named, class FromName>
  void choice(std::string_view name, E v, Named named, FromName /*from_name*/) {
    put(name, json::string(named(v)));
  }
  void texts(std::string_view name, const std::vector<std::string>& v) {
    put(name, json::array(v.begin(), v.end()));
  }
  void map(std::string_view name, const std::map<std::string, std::string>& v) {
    json::object object;
    for (const auto& [key, value] : v)
      object[key] = value;
    put(name, std::move(object));
  }
  // From outside.
  void object(std::string_view name, const json::object& v) { put(name, cleanObject(v)); }
  void array(std::string_view name, const json::array& v) { put(name, json::value(v)); }
  // An array in the form of one text.
  void textOf(std::string_view name, const json::array& v, const base::JsonLimits& /*limits*/) {
    put(name, json::string(base::toJson(v)));
  }
  template <class T>
  void in(std::string_view name, const T& v) {
    put(name, written(v));
  }
  template <class T>
  void maybe(std::string_view name, const std::optional<T>& v) {
    put(name, v ? json::value(written(*v)) : json::value(nullptr));
  }
  // An object whose members lie elsewhere in the value.
  template <class Describe>
  void part(std::string_view name, Describe describe) {
    RecordWriter inner;
    if (!skip_) describe(inner);
    put(name, inner.take());
  }
  template <class T>
  void list(std::string_view name, const std::vector<T>& v) {
    json::array array;
    for (const T& each : v)
      array.push_back(written(each));
    put(name, std::move(array));
  }

  // `roles`, and `admin` for the format of records before roles.
  void roles(const model::Roles& v) {
    json::array names;
    for (const std::string_view role : model::names(v))
      names.emplace_back(role);
    put("roles", std::move(names));
    put("admin", v.has(model::Role::kAdmin));
  }

  json::object take() { return std::move(object_); }

 private:
  template <class T>
  static json::object written(const T& v) {
    if constexpr (model::Described<T>) {
      return model::describedJson(v);
    } else {
      RecordWriter inner;
      describe(inner, v);
      return inner.take();
    }
  }
  void put(std::string_view name, json::value v) {
    if (!std::exchange(skip_, false)) object_[name] = std::move(v);
  }

  json::object object_;
  bool skip_ = false;
};

class RecordReader {
 public:
  static constexpr bool kReads = true;
  explicit RecordReader(Members from) : from_(from) {}

  // The record is not ours.
  void refuse() { from_.refuse(); }
  RecordReader& when(bool /*said*/) { return since(); }
  RecordReader& since() {
    lenient_ = true;
    return *this;
  }

  void text(std::string_view name, std::string& v) {
    if (has(name)) v = from_.text(name);
  }
  void bytes(std::string_view name, std::string& v) {
    if (has(name)) v = from_.bytes(name);
  }
  void flag(std::string_view name, bool& v) {
    if (has(name)) v = from_.boolean(name);
  }
  template <std::integral T>
  void number(std::string_view name, T& v) {
    if (has(name)) from_.integer(name, v);
  }
  template <std::integral T>
  void number(std::string_view name, std::optional<T>& v) {
    lenient_ = false;
    if (!from_.isNull(name)) from_.integer(name, v.emplace());
  }
  void time(std::string_view name, std::chrono::milliseconds& v) {
    if (has(name)) v = millis(from_, name);
  }
  template <class E, class Named, class FromName>
  void choice(std::string_view name, E& v, Named /*named*/, FromName from_name) {
    const std::optional<E> known = from_name(from_.text(name));
    if (!known) return from_.refuse();
    v = *known;
  }
  void texts(std::string_view name, std::vector<std::string>& v) {
    if (!has(name)) return;
    for (const json::value& each : from_.array(name)) {
      if (!each.is_string()) return from_.refuse();
      v.emplace_back(each.get_string());
    }
  }
  void map(std::string_view name, std::map<std::string, std::string>& v) {
    if (!has(name)) return;
    for (const auto& member : from_.object(name)) {
      if (!member.value().is_string()) return from_.refuse();
      v.emplace(member.key(), member.value().get_string());
    }
  }
  void object(std::string_view name, json::object& v) {
    if (has(name)) v = from_.object(name);
  }
  void array(std::string_view name, json::array& v) {
    if (has(name)) v = from_.array(name);
  }
  void textOf(std::string_view name, json::array& v, const base::JsonLimits& limits) {
    const auto parsed = base::parseJson(from_.text(name), limits);
    if (!parsed || !parsed->is_array()) return from_.refuse();
    v = parsed->get_array();
  }
  template <class T>
  void in(std::string_view name, T& v) {
    if (has(name)) readFrom(from_.in(name), v);
  }
  template <class T>
  void maybe(std::string_view name, std::optional<T>& v) {
    lenient_ = false;
    if (!from_.isNull(name)) readFrom(from_.in(name), v.emplace());
  }
  void roles(model::Roles& v) {
    v = from_.boolean("admin") ? model::Role::kAdmin : model::Role::kAgent;
    if (from_.isNull("roles")) return;
    std::vector<std::string> names;
    texts("roles", names);
    const auto known = model::rolesFromNames(names);
    if (!known) return from_.refuse();
    v = *known;
  }
  template <class Describe>
  void part(std::string_view name, Describe describe) {
    if (!has(name)) return;
    RecordReader inner(from_.in(name));
    describe(inner);
  }
  template <class T>
  void list(std::string_view name, std::vector<T>& v) {
    if (!has(name)) return;
    for (const json::value& each : from_.array(name)) {
      if (!each.is_object()) return from_.refuse();
      readFrom(from_.of(each.get_object()), v.emplace_back());
    }
  }

 private:
  bool has(std::string_view name) { return !std::exchange(lenient_, false) || !from_.isNull(name); }
  template <class T>
  static void readFrom(Members from, T& v) {
    if constexpr (model::Described<T>) {
      decode(from, v);
    } else {
      RecordReader inner(from);
      describe(inner, v);
    }
  }

  Members from_;
  bool lenient_ = false;
};

// A value as a record's text.
template <class T>
std::string recordText(const T& value) {
  RecordWriter archive;
  describe(archive, value);
  return cleanText(base::toJson(archive.take()));
}

// The value of a record's text; `what` names the record in errors: "a record".
template <class T>
Result<T> recordValue(std::string_view text, size_t max_bytes, std::string_view what) {
  const json::value value = TRY(base::parseJson(text, {.max_bytes = max_bytes}));
  bool bad = !value.is_object();
  T read;
  if (!bad) {
    RecordReader archive(Members(value.get_object(), bad));
    describe(archive, read);
  }
  if (bad) {
    return fail(Code::kInternal, "reading " + std::string(what) + ": its members are not ours");
  }
  return read;
}

}  // namespace cloister::store
