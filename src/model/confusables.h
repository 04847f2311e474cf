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
    {0xa0, ' ', "space"},           {0x131, 'i', "Latin"},          {0x1c0, '|', "click"},
    {0x1c1, '|', "click"},          {0x1c3, '!', "click"},          {0x251, 'a', "Latin"},
    {0x261, 'g', "Latin"},          {0x2b9, '\'', "prime"},         {0x2bc, '\'', "apostrophe"},
    {0x2d7, '-', "minus"},          {0x37e, ';', "Greek"},          {0x391, 'A', "Greek"},
    {0x392, 'B', "Greek"},          {0x395, 'E', "Greek"},          {0x396, 'Z', "Greek"},
    {0x397, 'H', "Greek"},          {0x399, 'I', "Greek"},          {0x39a, 'K', "Greek"},
    {0x39c, 'M', "Greek"},          {0x39d, 'N', "Greek"},          {0x39f, 'O', "Greek"},
    {0x3a1, 'P', "Greek"},          {0x3a4, 'T', "Greek"},          {0x3a5, 'Y', "Greek"},
    {0x3a7, 'X', "Greek"},          {0x3b1, 'a', "Greek"},          {0x3b9, 'i', "Greek"},
    {0x3bd, 'v', "Greek"},          {0x3bf, 'o', "Greek"},          {0x3c1, 'p', "Greek"},
    {0x3c5, 'u', "Greek"},          {0x405, 'S', "Cyrillic"},       {0x406, 'I', "Cyrillic"},
    {0x408, 'J', "Cyrillic"},       {0x410, 'A', "Cyrillic"},       {0x412, 'B', "Cyrillic"},
    {0x415, 'E', "Cyrillic"},       {0x417, '3', "Cyrillic"},       {0x41a, 'K', "Cyrillic"},
    {0x41c, 'M', "Cyrillic"},       {0x41d, 'H', "Cyrillic"},       {0x41e, 'O', "Cyrillic"},
    {0x420, 'P', "Cyrillic"},       {0x421, 'C', "Cyrillic"},       {0x422, 'T', "Cyrillic"},
    {0x423, 'Y', "Cyrillic"},       {0x425, 'X', "Cyrillic"},       {0x430, 'a', "Cyrillic"},
    {0x432, 'b', "Cyrillic"},       {0x433, 'r', "Cyrillic"},       {0x435, 'e', "Cyrillic"},
    {0x43a, 'k', "Cyrillic"},       {0x43e, 'o', "Cyrillic"},       {0x440, 'p', "Cyrillic"},
    {0x441, 'c', "Cyrillic"},       {0x443, 'y', "Cyrillic"},       {0x445, 'x', "Cyrillic"},
    {0x455, 's', "Cyrillic"},       {0x456, 'i', "Cyrillic"},       {0x458, 'j', "Cyrillic"},
    {0x4bb, 'h', "Cyrillic"},       {0x4cf, 'l', "Cyrillic"},       {0x501, 'd', "Cyrillic"},
    {0x51b, 'q', "Cyrillic"},       {0x51d, 'w', "Cyrillic"},       {0x555, 'O', "Armenian"},
    {0x55a, '\'', "Armenian"},      {0x578, 'n', "Armenian"},       {0x57d, 'u', "Armenian"},
    {0x581, 'g', "Armenian"},       {0x585, 'o', "Armenian"},       {0x589, ':', "Armenian"},
    {0x5c0, '|', "Hebrew"},         {0x5c3, ':', "Hebrew"},         {0x5f3, '\'', "Hebrew"},
    {0x66d, '*', "Arabic"},         {0x6d4, '.', "Arabic"},         {0x1d04, 'c', "small capital"},
    {0x1d0f, 'o', "small capital"}, {0x1d1c, 'u', "small capital"}, {0x1d20, 'v', "small capital"},
    {0x1d21, 'w', "small capital"}, {0x1d22, 'z', "small capital"}, {0x2010, '-', "hyphen"},
    {0x2011, '-', "hyphen"},        {0x2012, '-', "dash"},          {0x2013, '-', "dash"},
    {0x2018, '\'', "quote"},        {0x2019, '\'', "quote"},        {0x201a, ',', "quote"},
    {0x201c, '"', "quote"},         {0x201d, '"', "quote"},         {0x2024, '.', "dot"},
    {0x2032, '\'', "prime"},        {0x2043, '-', "bullet"},        {0x2044, '/', "slash"},
    {0x204e, '*', "asterisk"},      {0x2113, 'l', "letter"},        {0x212a, 'K', "letter"},
    {0x2212, '-', "minus"},         {0x2215, '/', "slash"},         {0x2216, '\\', "backslash"},
    {0x2217, '*', "asterisk"},      {0x2223, '|', "bar"},           {0x2236, ':', "ratio"},
    {0x223c, '~', "tilde"},         {0x2571, '/', "line"},          {0x2572, '\\', "line"},
    {0x2758, '|', "bar"},           {0x2768, '(', "bracket"},       {0x2769, ')', "bracket"},
    {0x2772, '(', "bracket"},       {0x2773, ')', "bracket"},       {0x2796, '-', "minus"},
    {0x27cb, '/', "slash"},         {0x27cd, '\\', "backslash"},    {0x29f5, '\\', "backslash"},
    {0x29f8, '/', "slash"},         {0x2f03, '/', "stroke"},        {0x3014, '(', "bracket"},
    {0x3015, ')', "bracket"},       {0xa4d0, 'B', "Lisu"},          {0xa4d1, 'P', "Lisu"},
    {0xa4d3, 'D', "Lisu"},          {0xa4d4, 'T', "Lisu"},          {0xa4d6, 'G', "Lisu"},
    {0xa4d7, 'K', "Lisu"},          {0xa4d9, 'J', "Lisu"},          {0xa4da, 'C', "Lisu"},
    {0xa4dc, 'Z', "Lisu"},          {0xa4dd, 'F', "Lisu"},          {0xa4df, 'M', "Lisu"},
    {0xa4e0, 'N', "Lisu"},          {0xa4e1, 'L', "Lisu"},          {0xa4e2, 'S', "Lisu"},
    {0xa4e3, 'R', "Lisu"},          {0xa4e6, 'V', "Lisu"},          {0xa4e7, 'H', "Lisu"},
    {0xa4ea, 'W', "Lisu"},          {0xa4eb, 'X', "Lisu"},          {0xa4ec, 'Y', "Lisu"},
    {0xa4ee, 'A', "Lisu"},          {0xa4f0, 'E', "Lisu"},          {0xa4f2, 'I', "Lisu"},
    {0xa4f3, 'O', "Lisu"},          {0xa4f4, 'U', "Lisu"},          {0xa4f8, '.', "Lisu"},
    {0xa4f9, ',', "Lisu"},          {0xa4fd, ':', "Lisu"},          {0xa4ff, '=', "Lisu"},
    {0xa731, 's', "small capital"}, {0xa789, ':', "colon"},
};

struct ConfusableRange {
  char32_t first;
  char32_t last;
};

// Other forms of ASCII characters: compatibility characters whose NFKC form is ASCII text, such as
// Roman numerals, and letters in circles or of mathematics. Without the full-width forms and the
// characters of kConfusables. Sorted.
inline constexpr ConfusableRange kAsciiForms[] = {
    {0xaa, 0xaa},       {0xb2, 0xb3},       {0xb9, 0xba},       {0x132, 0x133},
    {0x17f, 0x17f},     {0x1c7, 0x1cc},     {0x1f1, 0x1f3},     {0x2b0, 0x2b0},
    {0x2b2, 0x2b3},     {0x2b7, 0x2b8},     {0x2e1, 0x2e3},     {0x1d2c, 0x1d2c},
    {0x1d2e, 0x1d2e},   {0x1d30, 0x1d31},   {0x1d33, 0x1d3a},   {0x1d3c, 0x1d3c},
    {0x1d3e, 0x1d43},   {0x1d47, 0x1d49},   {0x1d4d, 0x1d4d},   {0x1d4f, 0x1d50},
    {0x1d52, 0x1d52},   {0x1d56, 0x1d58},   {0x1d5b, 0x1d5b},   {0x1d62, 0x1d65},
    {0x1d9c, 0x1d9c},   {0x1da0, 0x1da0},   {0x1dbb, 0x1dbb},   {0x1fef, 0x1fef},
    {0x2025, 0x2026},   {0x203c, 0x203c},   {0x2047, 0x2049},   {0x2070, 0x2071},
    {0x2074, 0x207a},   {0x207c, 0x208a},   {0x208c, 0x208e},   {0x2090, 0x2093},
    {0x2095, 0x209c},   {0x20a8, 0x20a8},   {0x2100, 0x2102},   {0x2105, 0x2106},
    {0x210a, 0x210e},   {0x2110, 0x2112},   {0x2115, 0x2116},   {0x2119, 0x211d},
    {0x2120, 0x2122},   {0x2124, 0x2124},   {0x2128, 0x2128},   {0x212c, 0x212d},
    {0x212f, 0x2131},   {0x2133, 0x2134},   {0x2139, 0x2139},   {0x213b, 0x213b},
    {0x2145, 0x2149},   {0x2160, 0x2188},   {0x2460, 0x24ea},   {0x2a74, 0x2a76},
    {0x2c7c, 0x2c7d},   {0x3250, 0x325f},   {0x32b1, 0x32bf},   {0x32cc, 0x32cf},
    {0x3371, 0x337a},   {0x3380, 0x3381},   {0x3383, 0x338b},   {0x338e, 0x3394},
    {0x3396, 0x339a},   {0x339c, 0x33a6},   {0x33a9, 0x33ad},   {0x33b0, 0x33b1},
    {0x33b3, 0x33b5},   {0x33b7, 0x33bb},   {0x33bd, 0x33bf},   {0x33c2, 0x33c5},
    {0x33c7, 0x33dd},   {0x33ff, 0x33ff},   {0xa7f2, 0xa7f4},   {0xfb00, 0xfb06},
    {0xfb29, 0xfb29},   {0xfe10, 0xfe10},   {0xfe13, 0xfe16},   {0xfe19, 0xfe19},
    {0xfe30, 0xfe30},   {0xfe33, 0xfe38},   {0xfe47, 0xfe48},   {0xfe4d, 0xfe50},
    {0xfe52, 0xfe52},   {0xfe54, 0xfe57},   {0xfe59, 0xfe5c},   {0xfe5f, 0xfe66},
    {0xfe68, 0xfe6b},   {0x107a5, 0x107a5}, {0x1d400, 0x1d7ff}, {0x1f100, 0x1f10a},
    {0x1f110, 0x1f129}, {0x1f12b, 0x1f12e}, {0x1f130, 0x1f14f}, {0x1f16a, 0x1f16c},
    {0x1f190, 0x1f190}, {0x1fbf0, 0x1fbf9},
};

}  // namespace cloister::model
