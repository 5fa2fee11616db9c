#include "cli/terminal.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace leash::cli {

namespace {

struct Decoded {
  uint32_t code = 0;
  size_t length = 0;  // 0: not valid UTF-8 here
};

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
Decoded decode(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return {};
  uint32_t code = first & (0xffU >> (length + 1));
  for (size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xc0U) != 0x80U) return {};
    code = code << 6 | (byte(at) & 0x3fU);
  }
  const bool is_overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (is_overlong || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, length};
}

bool is_within(uint32_t code, uint32_t first, uint32_t last) { return code >= first && code <= last; }

// Characters that a terminal obeys, or that a reader does not see.
bool is_treacherous(uint32_t code) {
  return code < 0x20 || is_within(code, 0x7f, 0x9f) || code == 0xad ||
         code == 0x34f || code == 0x61c || is_within(code, 0x115f, 0x1160) || is_within(code, 0x17b4, 0x17b5) ||
         is_within(code, 0x180b, 0x180f) || is_within(code, 0x200b, 0x200f) || is_within(code, 0x2028, 0x202e) ||
         is_within(code, 0x2060, 0x206f) || code == 0x3164 || is_within(code, 0xfe00, 0xfe0f) || code == 0xfeff ||
         code == 0xffa0 || is_within(code, 0xfff0, 0xfffb) || is_within(code, 0xe0000, 0xe0fff) || code >= 0xf0000;
}

}  // namespace

std::string escaped(std::string_view text, size_t limit) {
  std::string out;
  size_t count = 0;
  char buffer[16];
  while (!text.empty()) {
    if (count++ == limit) return out + "...";
    const Decoded decoded = decode(text);
    if (decoded.length == 0 || decoded.code < 0x20 || decoded.code == 0x7f) {
      std::snprintf(buffer, sizeof buffer, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(text[0])));
      out += buffer;
      text.remove_prefix(1);
      continue;
    }
    if (decoded.code == '\\') {
      out += "\\\\";
    } else if (is_treacherous(decoded.code)) {
      std::snprintf(buffer, sizeof buffer, "\\u{%x}", static_cast<unsigned>(decoded.code));
      out += buffer;
    } else {
      out += text.substr(0, decoded.length);
    }
    text.remove_prefix(decoded.length);
  }
  return out;
}

size_t width(std::string_view text) {
  size_t count = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0U) != 0x80U) ++count;
  }
  return count;
}

Painter Painter::for_stdout() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return Painter(::isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0') &&
                 (term == nullptr || std::string_view(term) != "dumb"));
}

std::string Painter::paint(Colour colour, std::string_view text) const {
  if (!is_on_ || colour == Colour::kNone || text.empty()) return std::string(text);
  const char* code = "";
  switch (colour) {
    case Colour::kNone: break;
    case Colour::kRed: code = "31"; break;
    case Colour::kGreen: code = "32"; break;
    case Colour::kYellow: code = "33"; break;
    case Colour::kBlue: code = "34"; break;
    case Colour::kDim: code = "2"; break;
    case Colour::kBold: code = "1"; break;
  }
  std::string out = "\x1b[";
  out += code;
  out += 'm';
  out += text;
  return out + "\x1b[0m";
}

}  // namespace leash::cli
