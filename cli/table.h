// A table of text whose columns line up; the last column is not padded.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal.h"

namespace leash::cli {

class Table {
 public:
  struct Cell {
    std::string text;  // escaped already
    Colour colour = Colour::kNone;
  };

  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] std::string print(const Painter& painter) const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<Cell>> rows_;
};

// `text` padded with spaces to `columns`.
[[nodiscard]] std::string padded(std::string_view text, size_t columns);

}  // namespace leash::cli
