// Text for a terminal: hostile strings made harmless, colours where a person looks.
//
// Hosts, paths, container names and policy texts are written by whoever is inside the container. A
// terminal obeys control characters, and bidirectional or invisible characters make one host look like
// another; all of these are shown as escapes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace leash::cli {

// `text` with C0, C1, DEL, invalid UTF-8, bidirectional controls, invisible characters and line
// separators written as \xNN or \u{NNNN}, and "\" doubled; at most `limit` code points, then "...".
[[nodiscard]] std::string escaped(std::string_view text, size_t limit = 512);

// Code points of escaped text: what it takes on a terminal, but for wide characters.
[[nodiscard]] size_t width(std::string_view text);

enum class Colour { kNone, kRed, kGreen, kYellow, kBlue, kDim, kBold };

class Painter {
 public:
  explicit Painter(bool is_on) : is_on_(is_on) {}
  // On if standard output is a terminal, NO_COLOR is unset and TERM is not "dumb".
  [[nodiscard]] static Painter for_stdout();

  [[nodiscard]] std::string paint(Colour colour, std::string_view text) const;
  [[nodiscard]] bool is_on() const { return is_on_; }

 private:
  bool is_on_ = false;
};

}  // namespace leash::cli
