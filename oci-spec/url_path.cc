#include "oci-spec/url_path.h"

#include <algorithm>
#include <vector>

namespace leash::oci {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

void note(std::string& ambiguity, const char* why) {
  if (ambiguity.empty()) ambiguity = why;
}

bool is_valid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const size_t length = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    const auto second = length > 1 ? static_cast<unsigned char>(text[i + 1]) : 0;
    if ((c == 0xe0 && second < 0xa0) || (c == 0xed && second >= 0xa0) || (c == 0xf0 && second < 0x90) ||
        (c == 0xf4 && second >= 0x90)) {
      return false;
    }
    i += length;
  }
  return true;
}

// Percent-decodes once. What could decode to something else a second time, or changes where segments
// end, is noted.
std::string decode(std::string_view raw, std::string& ambiguity) {
  std::string out;
  out.reserve(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    const char c = raw[i];
    if (c == '\\') note(ambiguity, "backslash");
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f) note(ambiguity, "control character or space");
    if (static_cast<unsigned char>(c) >= 0x80) note(ambiguity, "byte above ASCII that is not percent-encoded");
    if (c != '%') {
      out += c;
      continue;
    }
    const int high = i + 1 < raw.size() ? hex_value(raw[i + 1]) : -1;
    const int low = i + 2 < raw.size() ? hex_value(raw[i + 2]) : -1;
    if (high < 0 || low < 0) {
      note(ambiguity, "'%' that is no encoding");
      out += c;
      continue;
    }
    const auto byte = static_cast<char>(high * 16 + low);
    i += 2;
    if (byte == '/') note(ambiguity, "encoded slash");
    else if (byte == '\\') note(ambiguity, "encoded backslash");
    else if (byte == '%') note(ambiguity, "double encoding");
    else if (byte == '.') note(ambiguity, "encoded dot");
    else if (byte == ';') note(ambiguity, "encoded semicolon");
    else if (byte == '?' || byte == '#') note(ambiguity, "encoded '?' or '#'");
    else if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f) note(ambiguity, "encoded control character");
    out += byte;
  }
  if (!is_valid_utf8(out)) note(ambiguity, "not UTF-8");
  return out;
}

bool is_dot_segment(std::string_view segment) { return segment == "." || segment == ".."; }

}  // namespace

UrlPath normalise_path(std::string_view target) {
  UrlPath result;
  std::string_view raw = target.substr(0, target.find('?'));
  if (raw.find('#') != std::string_view::npos) {
    note(result.ambiguity, "fragment");
    raw = raw.substr(0, raw.find('#'));
  }
  if (raw.empty()) raw = "/";
  if (raw.front() != '/') note(result.ambiguity, "does not start with '/'");

  const std::string decoded = decode(raw, result.ambiguity);
  std::vector<std::string_view> segments;
  const std::string_view text(decoded);
  for (size_t begin = text.front() == '/' ? 1 : 0; begin <= text.size();) {
    size_t end = text.find('/', begin);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view segment = text.substr(begin, end - begin);
    const bool is_last = end == text.size();
    begin = end + 1;
    if (segment.empty()) {
      if (!is_last) note(result.ambiguity, "empty segment");
      continue;
    }
    // "..;x" is ".." to servers that cut parameters first, and a name to all others.
    const std::string_view without_parameters = segment.substr(0, segment.find(';'));
    if (without_parameters.size() != segment.size() && (without_parameters.empty() || is_dot_segment(without_parameters))) {
      note(result.ambiguity, "dot segment with parameters");
    }
    if (without_parameters.size() != segment.size()) note(result.ambiguity, "path parameters");
    if (segment == ".") {
      note(result.ambiguity, "dot segment");
      continue;
    }
    if (segment == "..") {
      note(result.ambiguity, "dot segment");
      if (!segments.empty()) segments.pop_back();
      continue;
    }
    segments.push_back(segment);
  }
  for (const std::string_view segment : segments) {
    result.path += '/';
    result.path += segment;
  }
  if (result.path.empty()) result.path = "/";
  return result;
}

Result<PathPattern> PathPattern::parse(std::string_view text) {
  if (!text.starts_with('/')) return Error("expected a path that starts with '/'");
  if (text.find('?') != std::string_view::npos) return Error("a path of a rule has no query");
  if (text.find("***") != std::string_view::npos) return Error("expected '*' or '**' in a path");
  // The pattern is compared with normalised paths: one that no normalised path can match is a mistake.
  std::string plain(text);
  for (char& c : plain) {
    if (c == '*') c = 'x';
  }
  const UrlPath normal = normalise_path(plain);
  if (!normal.ambiguity.empty()) return Error("a path of a rule must be in its plain form: " + normal.ambiguity);
  PathPattern pattern;
  pattern.text_ = text;
  while (pattern.text_.size() > 1 && pattern.text_.back() == '/') pattern.text_.pop_back();
  return pattern;
}

bool PathPattern::matches(std::string_view path, bool ignore_case) const {
  const std::string_view pattern(text_);
  const auto equal = [ignore_case](char a, char b) { return a == b || (ignore_case && lower(a) == lower(b)); };
  const auto starts_with = [&](std::string_view prefix) {
    return path.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), path.begin(), equal);
  };
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return path.size() == pattern.size() && starts_with(pattern);
  if (pattern.ends_with("/**") && path.size() == pattern.size() - 3 && star == pattern.size() - 2 &&
      starts_with(pattern.substr(0, pattern.size() - 3))) {
    return true;
  }
  if (!starts_with(pattern.substr(0, star))) return false;
  if (pattern.substr(star) == "**") return true;

  // Rows of a dynamic programme, so that no pattern and no path make it slow: reachable[i] says that
  // the pattern up to here matches path[0, i). "**" also stands for no segment at all: "/a/**/b" is "/a/b".
  std::vector<char> reachable(path.size() + 1, 0);
  reachable[0] = 1;
  for (size_t p = 0; p < pattern.size(); ++p) {
    if (pattern.substr(p).starts_with("/**/")) {
      std::vector<char> next(path.size() + 1, 0);
      char begun = 0;  // some reachable i at or before here had a slash
      for (size_t i = 0; i < path.size(); ++i) {
        if (reachable[i] != 0 && path[i] == '/') begun = 1;
        if (begun != 0 && path[i] == '/') next[i + 1] = 1;
      }
      reachable = std::move(next);
      p += 3;
      continue;
    }
    if (pattern[p] != '*') {
      for (size_t i = path.size(); i > 0; --i) {
        reachable[i] = static_cast<char>(reachable[i - 1] != 0 && equal(path[i - 1], pattern[p]));
      }
      reachable[0] = 0;
      continue;
    }
    const bool any = p + 1 < pattern.size() && pattern[p + 1] == '*';
    if (any) ++p;
    for (size_t i = 1; i <= path.size(); ++i) {
      if (reachable[i - 1] != 0 && (any || path[i - 1] != '/')) reachable[i] = 1;
    }
  }
  return reachable[path.size()] != 0;
}

}  // namespace leash::oci
