#include "runtime/cgroup_files.h"

#include <dirent.h>
#include <unistd.h>

#include <charconv>
#include <memory>

#include "base/file.h"

namespace leash::runtime::cgroup_files {

namespace {

std::string path_of(const std::string& directory, std::string_view file) {
  std::string path;
  path.reserve(directory.size() + 1 + file.size());
  path += directory;
  path += '/';
  path += file;
  return path;
}

}  // namespace

Result<void> write(const std::string& directory, std::string_view file, std::string_view value) {
  Result<void> written = file::write_control(path_of(directory, file), value);
  if (written) return written;
  return std::move(written).context("failed to write \"" + std::string(value) + '"');
}

Result<void> write(const std::string& directory, std::string_view file, uint64_t value) {
  return write(directory, file, std::to_string(value));
}

Result<void> write(const std::string& directory, std::string_view file, int64_t value) {
  return write(directory, file, std::to_string(value));
}

Result<std::string> read(const std::string& directory, std::string_view file) {
  TRY(std::string text, file::read(path_of(directory, file)));
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::optional<uint64_t> parse_number(std::string_view text) {
  if (text == "max") return ~uint64_t{0};
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<uint64_t> read_number(const std::string& directory, std::string_view file) {
  Result<std::string> text = read(directory, file);
  if (!text) return std::nullopt;
  return parse_number(*text);
}

std::optional<uint64_t> read_field(const std::string& directory, std::string_view file, std::string_view key) {
  Result<std::string> text = read(directory, file);
  if (!text) return std::nullopt;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      return parse_number(line.substr(key.size() + 1));
    }
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return std::nullopt;
}

bool exists(const std::string& directory, std::string_view file) { return access(path_of(directory, file).c_str(), F_OK) == 0; }

std::vector<std::string> children(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(opendir(directory.c_str()), closedir);
  if (!stream) return names;
  while (const dirent* entry = readdir(stream.get())) {
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') {
      // A cgroup may be called ".x", but "." and ".." are none.
      const std::string_view name = entry->d_name;
      if (entry->d_type != DT_DIR || name == "." || name == "..") continue;
    }
    names.emplace_back(entry->d_name);
  }
  return names;
}

}  // namespace leash::runtime::cgroup_files
