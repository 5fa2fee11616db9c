#include "oci-spec/engine_files.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace leash::oci {

namespace {

using Json = nlohmann::json;

Result<uint16_t> parse_port(std::string_view text) {
  uint16_t port = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), port);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || port == 0) {
    return Error(EPROTO, "port '" + std::string(text) + "'");
  }
  return port;
}

// The keys of the object at `name` in `parent`: null and absent are empty.
Result<void> collect(const Json& parent, const char* name, std::vector<TcpPorts>& ports) {
  const auto found = parent.find(name);
  if (found == parent.end() || found->is_null()) return {};
  if (!found->is_object()) return Error(EPROTO, std::string(name) + ": not an object");
  for (auto entry = found->begin(); entry != found->end(); ++entry) {
    TRY(const std::vector<TcpPorts> parsed, parse_port_key(entry.key()).context(name));
    ports.insert(ports.end(), parsed.begin(), parsed.end());
  }
  return {};
}

std::vector<TcpPorts> merged(std::vector<TcpPorts> ports) {
  std::sort(ports.begin(), ports.end(), [](const TcpPorts& a, const TcpPorts& b) { return a.first < b.first; });
  std::vector<TcpPorts> result;
  for (const TcpPorts& range : ports) {
    if (!result.empty() && range.first <= uint32_t{result.back().last} + 1) {
      result.back().last = std::max(result.back().last, range.last);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

std::string text_at(const Json& parent, const char* name) {
  const auto found = parent.find(name);
  return found != parent.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

Result<std::vector<TcpPorts>> parse_port_key(std::string_view key) {
  const size_t slash = key.find('/');
  const std::string_view protocol = slash == std::string_view::npos ? "tcp" : key.substr(slash + 1);
  if (protocol != "tcp") return std::vector<TcpPorts>();
  const std::string_view range = key.substr(0, slash);
  const size_t dash = range.find('-');
  TcpPorts ports;
  TRY(ports.first, parse_port(range.substr(0, dash)));
  ports.last = ports.first;
  if (dash != std::string_view::npos) {
    TRY(ports.last, parse_port(range.substr(dash + 1)));
  }
  if (ports.last < ports.first) return Error(EPROTO, "port '" + std::string(key) + "'");
  return std::vector<TcpPorts>{ports};
}

Result<EngineFacts> parse_docker_files(std::string_view config_v2_json, std::string_view hostconfig_json) {
  const Json config = Json::parse(config_v2_json, nullptr, false);
  if (!config.is_object()) return Error(EPROTO, "config.v2.json: not a JSON object");
  const Json host_config = Json::parse(hostconfig_json, nullptr, false);
  if (!host_config.is_object()) return Error(EPROTO, "hostconfig.json: not a JSON object");

  EngineFacts facts;
  facts.container_id = text_at(config, "ID");
  facts.name = text_at(config, "Name");
  if (!facts.name.empty() && facts.name.front() == '/') facts.name.erase(0, 1);
  std::vector<TcpPorts> ports;
  TRY_VOID(collect(host_config, "PortBindings", ports).context("hostconfig.json"));
  const auto image_config = config.find("Config");
  if (image_config != config.end() && image_config->is_object()) {
    TRY_VOID(collect(*image_config, "ExposedPorts", ports).context("config.v2.json"));
  }
  facts.tcp_ports = merged(std::move(ports));
  return facts;
}

}  // namespace leash::oci
