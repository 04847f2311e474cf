// SPDX-License-Identifier: Apache-2.0
// HTTP fields as a proxy forwards them (RFC 9110 §7.6): the ports of sessions and cloister-egress
// write each head anew and leave out the fields of their own hop. Pure; thread-safe.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cloister::base {

using FieldNames = std::set<std::string, std::less<>>;  // in lower case

// The fields of a single hop (RFC 9110 §7.6.1), and those of the framing, which a proxy makes anew.
const FieldNames& hopFields();

// The elements of a comma-separated list, in lower case, without the blanks around them.
std::vector<std::string> listElements(std::string_view list);

// Whether a value can be written into a head: a line break could start a field, or another message.
bool isOneLine(std::string_view value);

}  // namespace cloister::base
