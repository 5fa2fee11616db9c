#include "cli/table.h"

#include <algorithm>

namespace leash::cli {

std::string padded(std::string_view text, size_t columns) {
  std::string out(text);
  const size_t taken = width(text);
  if (taken < columns) out.append(columns - taken, ' ');
  return out;
}

std::string Table::print(const Painter& painter) const {
  std::vector<size_t> widths;
  for (const std::string& name : header_) widths.push_back(width(name));
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i].text));
  }
  const auto line = [&](const auto& text_of, const auto& colour_of) {
    std::string out;
    for (size_t i = 0; i < header_.size(); ++i) {
      const std::string text = i + 1 == header_.size() ? text_of(i) : padded(text_of(i), widths[i]);
      out += painter.paint(colour_of(i), text);
      if (i + 1 != header_.size()) out += "  ";
    }
    return out + "\n";
  };
  std::string out = line([&](size_t i) { return header_[i]; }, [](size_t) { return Colour::kBold; });
  for (const auto& row : rows_) {
    out += line([&](size_t i) { return row[i].text; }, [&](size_t i) { return row[i].colour; });
  }
  return out;
}

}  // namespace leash::cli
