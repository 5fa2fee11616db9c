// Leashed containers as the operator names them: running ones from the registry, ended ones by the
// logs that they left.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "oci-spec/shim_protocol.h"

namespace leash::cli {

struct Directories {
  std::string registry;  // /run/leash
  std::string logs;      // /var/lib/leash
  [[nodiscard]] static Directories standard();
};

struct Container {
  std::string id;
  std::string name;           // the engine's; empty if unknown
  std::string log_directory;
  bool is_running = false;
  oci::RegistryEntry entry;   // of running ones
};

// Running ones first (newest first), then ended ones. A directory that may not be read is an error.
[[nodiscard]] Result<std::vector<Container>> list_containers(const Directories& directories);

// By id, by a prefix of it that only one has, or by the engine's name. More than one: an error that
// lists them. `ask_engine` turns an engine's name into an id when nothing else fits.
using AskEngine = std::optional<std::string> (*)(const std::string& name);
[[nodiscard]] Result<Container> find_container(const std::vector<Container>& containers, const std::string& wanted,
                                               AskEngine ask_engine);

// Docker's and Podman's answer; nullopt if neither knows the name.
[[nodiscard]] std::optional<std::string> ask_engines(const std::string& name);

// What the shim of a running container says about itself, within two seconds.
[[nodiscard]] Result<oci::StatusReport> ask_shim(const Directories& directories, const std::string& container_id);

// The first twelve characters, as engines show ids.
[[nodiscard]] std::string short_id(const std::string& id);

}  // namespace leash::cli
