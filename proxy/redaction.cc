#include "proxy/redaction.h"

#include <algorithm>
#include <cstring>

namespace leash::proxy {

// Chunk extensions and trailers: an origin may echo there too. How many bytes at the end are to wait.
size_t StreamRedactor::pass_framing(bool is_end) {
  size_t position = 0;
  for (const Piece& piece : pieces_) {
    if (piece.offset >= position + PatternSet::kMinimum) {
      count_ += patterns_->replace(std::span<char>(held_).subspan(position, piece.offset - position));
    }
    position = piece.offset + piece.length;
  }
  const std::span<char> last = std::span<char>(held_).subspan(position);
  count_ += patterns_->replace(last);
  if (!is_end) return patterns_->open_match({last.data(), last.size()});
  count_ += patterns_->replace_open_match(last);
  return 0;
}

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
    if (is_end) count_ += patterns_->replace_open_match(text);
    keep_payload = patterns_->open_match({text.data(), text.size()});
  } else if (!pieces_.empty()) {
    std::string text;
    for (const Piece& piece : pieces_) text.append(held_, piece.offset, piece.length);
    size_t found = patterns_->replace(text);
    if (is_end) found += patterns_->replace_open_match(text);
    count_ += found;
    size_t position = 0;
    for (const Piece& piece : pieces_) {
      if (found != 0) std::memcpy(held_.data() + piece.offset, text.data() + position, piece.length);
      position += piece.length;
    }
    keep_payload = patterns_->open_match(text);
  }
  if (is_end) keep_payload = 0;

  // Everything goes on but the raw bytes from where the last `keep_payload` bytes of payload begin, or
  // from where what may become a value in the framing does.
  size_t cut = held_.size() - pass_framing(is_end);
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
