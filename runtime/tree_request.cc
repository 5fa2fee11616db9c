#include "runtime/tree_request.h"

#include <sstream>

namespace leash::runtime {

namespace {

void append(std::string& text, const std::vector<oci::IdMapping>& mappings) {
  text += std::to_string(mappings.size()) + " ";
  for (const oci::IdMapping& mapping : mappings) {
    text += std::to_string(mapping.container_id) + " " + std::to_string(mapping.host_id) + " " +
            std::to_string(mapping.size) + " ";
  }
}

bool take(std::istream& in, std::vector<oci::IdMapping>& mappings) {
  size_t count = 0;
  if (!(in >> count) || count > 1024) return false;
  for (size_t i = 0; i < count; ++i) {
    oci::IdMapping mapping;
    if (!(in >> mapping.container_id >> mapping.host_id >> mapping.size)) return false;
    mappings.push_back(mapping);
  }
  return true;
}

}  // namespace

std::string print(const TreeRequest& request) {
  std::string text = std::to_string(request.is_recursive) + " " + std::to_string(request.is_nofollow) + " " +
                     std::to_string(request.is_idmap_recursive) + " ";
  append(text, request.uid_mappings);
  append(text, request.gid_mappings);
  // The path last: it may hold any byte.
  return text + "/" + request.path;
}

Result<TreeRequest> parse_tree_request(std::string_view text) {
  TreeRequest request;
  std::istringstream in{std::string(text)};
  char slash = 0;
  if (!(in >> request.is_recursive >> request.is_nofollow >> request.is_idmap_recursive) ||
      !take(in, request.uid_mappings) || !take(in, request.gid_mappings) || !(in >> slash) || slash != '/') {
    return Error(EPROTO, "malformed request for a mount source");
  }
  request.path = text.substr(static_cast<size_t>(in.tellg()));
  return request;
}

}  // namespace leash::runtime
