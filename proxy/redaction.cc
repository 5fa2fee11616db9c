#include "proxy/redaction.h"

#include <algorithm>
#include <cstring>

namespace leash::proxy {

void StreamRedactor::pass(std::string_view raw, const std::vector<Piece>& pieces, bool is_end, std::string& out) {
  if (idle()) {
    out.append(raw);
    return;
  }
  const size_t base = held_.size();
  held_.append(raw);
  for (const Piece& piece : pieces) pieces_.push_back({base + piece.offset, piece.length});

  // One piece (a body with a length, or one chunk a read) is searched where it lies; several are
  // gathered first, since a value may lie across a chunk's border.
  size_t keep_payload = 0;
  if (pieces_.size() == 1) {
    const std::span<char> text(held_.data() + pieces_[0].offset, pieces_[0].length);
    count_ += patterns_->replace(text);
    keep_payload = patterns_->open_match({text.data(), text.size()});
  } else if (!pieces_.empty()) {
    std::string text;
    for (const Piece& piece : pieces_) text.append(held_, piece.offset, piece.length);
    const size_t found = patterns_->replace(text);
    count_ += found;
    size_t position = 0;
    for (const Piece& piece : pieces_) {
      if (found != 0) std::memcpy(held_.data() + piece.offset, text.data() + position, piece.length);
      position += piece.length;
    }
    keep_payload = patterns_->open_match(text);
  }
  if (is_end) keep_payload = 0;

  // Everything goes on but the raw bytes from where the last `keep_payload` bytes of payload begin.
  size_t cut = held_.size();
  std::vector<Piece> kept;
  for (size_t i = pieces_.size(); keep_payload > 0 && i-- > 0;) {
    const size_t length = std::min(keep_payload, pieces_[i].length);
    cut = pieces_[i].offset + pieces_[i].length - length;
    kept.insert(kept.begin(), {cut, length});
    keep_payload -= length;
  }
  out.append(held_, 0, cut);
  held_.erase(0, cut);
  for (Piece& piece : kept) piece.offset -= cut;
  pieces_ = std::move(kept);
}

}  // namespace leash::proxy
