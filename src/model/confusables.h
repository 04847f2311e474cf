// SPDX-License-Identifier: Apache-2.0
// Characters that look like ASCII: a small part of Unicode's confusables (UTS #39), the part that
// serves to forge paths and commands. Data only.
#pragma once

#include <string_view>

namespace cloister::model {

struct Confusable {
  char32_t point;
  char like;
  std::string_view script;
};

// Sorted by code point.
inline constexpr Confusable kConfusables[] = {
    {0xa0, ' ', "space"},        {0x131, 'i', "Latin"},     {0x251, 'a', "Latin"},
    {0x261, 'g', "Latin"},       {0x37e, ';', "Greek"},     {0x391, 'A', "Greek"},
    {0x392, 'B', "Greek"},       {0x395, 'E', "Greek"},     {0x396, 'Z', "Greek"},
    {0x397, 'H', "Greek"},       {0x399, 'I', "Greek"},     {0x39a, 'K', "Greek"},
    {0x39c, 'M', "Greek"},       {0x39d, 'N', "Greek"},     {0x39f, 'O', "Greek"},
    {0x3a1, 'P', "Greek"},       {0x3a4, 'T', "Greek"},     {0x3a5, 'Y', "Greek"},
    {0x3a7, 'X', "Greek"},       {0x3b1, 'a', "Greek"},     {0x3b9, 'i', "Greek"},
    {0x3bd, 'v', "Greek"},       {0x3bf, 'o', "Greek"},     {0x3c1, 'p', "Greek"},
    {0x3c5, 'u', "Greek"},       {0x405, 'S', "Cyrillic"},  {0x406, 'I', "Cyrillic"},
    {0x408, 'J', "Cyrillic"},    {0x410, 'A', "Cyrillic"},  {0x412, 'B', "Cyrillic"},
    {0x415, 'E', "Cyrillic"},    {0x417, '3', "Cyrillic"},  {0x41a, 'K', "Cyrillic"},
    {0x41c, 'M', "Cyrillic"},    {0x41d, 'H', "Cyrillic"},  {0x41e, 'O', "Cyrillic"},
    {0x420, 'P', "Cyrillic"},    {0x421, 'C', "Cyrillic"},  {0x422, 'T', "Cyrillic"},
    {0x423, 'Y', "Cyrillic"},    {0x425, 'X', "Cyrillic"},  {0x430, 'a', "Cyrillic"},
    {0x432, 'b', "Cyrillic"},    {0x433, 'r', "Cyrillic"},  {0x435, 'e', "Cyrillic"},
    {0x43a, 'k', "Cyrillic"},    {0x43e, 'o', "Cyrillic"},  {0x440, 'p', "Cyrillic"},
    {0x441, 'c', "Cyrillic"},    {0x443, 'y', "Cyrillic"},  {0x445, 'x', "Cyrillic"},
    {0x455, 's', "Cyrillic"},    {0x456, 'i', "Cyrillic"},  {0x458, 'j', "Cyrillic"},
    {0x4bb, 'h', "Cyrillic"},    {0x4cf, 'l', "Cyrillic"},  {0x501, 'd', "Cyrillic"},
    {0x51b, 'q', "Cyrillic"},    {0x51d, 'w', "Cyrillic"},  {0x555, 'O', "Armenian"},
    {0x578, 'n', "Armenian"},    {0x57d, 'u', "Armenian"},  {0x581, 'g', "Armenian"},
    {0x585, 'o', "Armenian"},    {0x589, ':', "Armenian"},  {0x5c0, '|', "Hebrew"},
    {0x5c3, ':', "Hebrew"},      {0x2010, '-', "hyphen"},   {0x2011, '-', "hyphen"},
    {0x2012, '-', "dash"},       {0x2013, '-', "dash"},     {0x2018, '\'', "quote"},
    {0x2019, '\'', "quote"},     {0x201a, ',', "quote"},    {0x201c, '"', "quote"},
    {0x201d, '"', "quote"},      {0x2024, '.', "dot"},      {0x2032, '\'', "prime"},
    {0x2044, '/', "slash"},      {0x204e, '*', "asterisk"}, {0x2113, 'l', "letter"},
    {0x212a, 'K', "letter"},     {0x2212, '-', "minus"},    {0x2215, '/', "slash"},
    {0x2216, '\\', "backslash"}, {0x2217, '*', "asterisk"}, {0x2223, '|', "bar"},
    {0x2236, ':', "ratio"},      {0x223c, '~', "tilde"},    {0x29f8, '/', "slash"},
    {0xa789, ':', "colon"},
};

}  // namespace cloister::model
