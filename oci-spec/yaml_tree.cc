#include "oci-spec/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>

namespace leash::oci {
namespace {

constexpr size_t kMaxNodes = 20000;
constexpr size_t kMaxDepth = 32;

std::string position(const std::string& source, int line, int column) {
  return source + ":" + std::to_string(line) + ":" + std::to_string(column) + ": ";
}

// Collects events into a tree. An EventHandler cannot stop the parser, so the first error is kept and
// what follows it is ignored.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& source) : source_(source) {}

  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] Error take_error() { return std::move(*error_); }
  [[nodiscard]] YamlNode take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (accepts(mark, "?", anchor)) add(node(YamlNode::Kind::kNull, mark));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { fail(mark, "aliases ('*name') are not accepted"); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value) override {
    if (!accepts(mark, tag, anchor)) return;
    YamlNode scalar = node(YamlNode::Kind::kScalar, mark);
    scalar.is_plain = tag != "!";
    scalar.text = value;
    add(std::move(scalar));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    if (accepts(mark, tag, anchor)) open(node(YamlNode::Kind::kList, mark));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    if (accepts(mark, tag, anchor)) open(node(YamlNode::Kind::kMap, mark));
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    YamlNode node;
    std::optional<YamlNode> key;  // of a map, waiting for its value
  };

  static YamlNode node(YamlNode::Kind kind, const YAML::Mark& mark) {
    YamlNode result;
    result.kind = kind;
    result.line = mark.line + 1;
    result.column = mark.column + 1;
    return result;
  }

  void fail(const YAML::Mark& mark, std::string_view text) {
    if (!failed()) error_ = Error(position(source_, mark.line + 1, mark.column + 1) + std::string(text));
  }
  void fail(const YamlNode& at, std::string_view text) {
    if (!failed()) error_ = yaml_error(source_, at, text);
  }

  bool accepts(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (failed()) return false;
    if (anchor != 0) fail(mark, "anchors ('&name') are not accepted");
    else if (!tag.empty() && tag != "?" && tag != "!") fail(mark, "tags ('" + tag + "') are not accepted");
    else if (++nodes_ > kMaxNodes) fail(mark, "too many values");
    return !failed();
  }

  void open(YamlNode opened) {
    if (levels_.size() >= kMaxDepth) return fail(opened, "nested too deeply");
    levels_.push_back({std::move(opened), std::nullopt});
  }

  void close() {
    if (failed()) return;
    YamlNode closed = std::move(levels_.back().node);
    levels_.pop_back();
    add(std::move(closed));
  }

  void add(YamlNode child) {
    if (levels_.empty()) {
      root_ = std::move(child);
      return;
    }
    Level& level = levels_.back();
    if (child.kind == YamlNode::Kind::kNull) {
      // The parser's mark of a missing value is that of whatever comes next.
      const YamlNode& place = level.key ? *level.key : level.node;
      child.line = place.line;
      child.column = place.column;
    }
    if (level.node.kind == YamlNode::Kind::kList) {
      level.node.items.push_back(std::move(child));
      return;
    }
    if (!level.key) {
      if (child.kind != YamlNode::Kind::kScalar) return fail(child, "expected a key, found " + child.description());
      const std::vector<YamlNode>& keys = level.node.keys;
      const auto earlier = std::find_if(keys.begin(), keys.end(), [&](const YamlNode& key) { return key.text == child.text; });
      if (earlier != keys.end()) {
        return fail(child, "duplicate key '" + child.text + "' (first on line " + std::to_string(earlier->line) + ")");
      }
      level.key = std::move(child);
      return;
    }
    level.node.keys.push_back(std::move(*level.key));
    level.node.items.push_back(std::move(child));
    level.key.reset();
  }

  const std::string& source_;
  std::optional<Error> error_;
  std::vector<Level> levels_;
  YamlNode root_;
  size_t nodes_ = 0;
};

// Line and column of a byte, for what is refused before yaml-cpp sees it.
Error byte_error(const std::string& source, std::string_view text, size_t offset, std::string_view what) {
  const std::string_view before = text.substr(0, offset);
  const auto line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
  const size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  return Error(position(source, line, static_cast<int>(offset - start) + 1) + std::string(what));
}

// Length of the UTF-8 sequence at `i`, 0 if there is none.
size_t sequence_length(std::string_view text, size_t i) {
  const auto c = static_cast<unsigned char>(text[i]);
  const size_t length = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k) {
    if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string YamlNode::description() const {
  switch (kind) {
    case Kind::kNull: return "nothing";
    case Kind::kList: return "a list";
    case Kind::kMap: return "a map";
    case Kind::kScalar: break;
  }
  return "'" + (text.size() > 60 ? text.substr(0, 60) + "..." : text) + "'";
}

Error yaml_error(const std::string& source, const YamlNode& node, std::string_view text) {
  return Error(position(source, node.line, node.column) + std::string(text));
}

Result<YamlNode> parse_yaml(const std::string& source, std::string_view text) {
  if (text.size() > kMaxYaml) return Error(position(source, 1, 1) + "larger than 256 KiB");
  for (size_t i = 0; i < text.size();) {
    const size_t length = sequence_length(text, i);
    if (length == 0) return byte_error(source, text, i, "expected UTF-8");
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f) {
      return byte_error(source, text, i, "control character");
    }
    i += length;
  }
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder(source);
    const bool has_document = parser.HandleNextDocument(builder);
    if (builder.failed()) return builder.take_error();
    if (!has_document) return YamlNode{};
    TreeBuilder second(source);
    if (parser.HandleNextDocument(second)) return Error(position(source, 1, 1) + "expected one YAML document, found a second");
    return builder.take_root();
  } catch (const YAML::Exception& e) {
    return Error(position(source, e.mark.line + 1, e.mark.column + 1) + e.msg);
  } catch (const std::exception& e) {
    return Error(position(source, 1, 1) + e.what());
  }
}

}  // namespace leash::oci
