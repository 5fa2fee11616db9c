// leash-runtime list: the containers of one --root, as a table, as JSON, or by id alone.
#include <pwd.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>

#include "runtime/command.h"
#include "runtime/state_store.h"

namespace leash::runtime {

namespace {

constexpr args::Flag kFlags[] = {
    {"format, f", args::Kind::kValue, "select one of: table or json", "\"table\""},
    {"quiet, q", args::Kind::kBool, "display only container IDs"},
};

// From the file alone: a static program cannot load the name services of the host.
std::string user_name(uid_t uid) {
  struct Close {
    void operator()(FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<FILE, Close> file(std::fopen("/etc/passwd", "re"));
  while (file) {
    const passwd* entry = fgetpwent(file.get());
    if (entry == nullptr) break;
    if (entry->pw_uid == uid) return entry->pw_name;
  }
  return "#" + std::to_string(uid);
}

// Columns as Go's tabwriter sets them for runc: at least 12 wide, three spaces apart.
void print_table(const std::vector<oci::State>& states) {
  using Row = std::array<std::string, 6>;
  std::vector<Row> rows = {{"ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"}};
  for (const oci::State& state : states) {
    rows.push_back({state.id, std::to_string(state.pid), std::string(to_string(state.status)), state.bundle, state.created,
                    state.owner.value_or("")});
  }
  for (size_t column = 0; column + 1 < rows[0].size(); ++column) {
    size_t width = 12;
    for (const Row& row : rows) width = std::max(width, row[column].size() + 3);
    for (Row& row : rows) row[column].resize(width, ' ');
  }
  for (const Row& row : rows) {
    for (const std::string& cell : row) std::cout << cell;
    std::cout << '\n';
  }
}

Result<int> list(const GlobalOptions& options, const args::Parsed& arguments) {
  const std::string format = arguments.value("format", "table");
  const StateStore store(options.root);
  TRY(const std::vector<std::string> ids, store.ids());
  if (arguments.is_set("quiet")) {
    for (const std::string& id : ids) std::cout << id << '\n';
    return 0;
  }
  if (format != "table" && format != "json") return Error(EINVAL, "invalid format option");
  std::vector<oci::State> states;
  std::map<uint32_t, std::string> owners;
  for (const std::string& id : ids) {
    Result<Container> container = store.load(id);
    // Deleted meanwhile.
    if (!container && container.error().code() == ENOENT) continue;
    Result<oci::State> state = container ? container->state() : Result<oci::State>(std::move(container).error());
    if (!state) {
      // One broken record does not hide the others.
      std::cerr << "load container " << id << ": " << state.error().message() << '\n';
      continue;
    }
    const uint32_t uid = container->record.owner_uid;
    const auto [owner, is_new] = owners.try_emplace(uid);
    if (is_new) owner->second = user_name(uid);
    state->owner = owner->second;
    states.push_back(*std::move(state));
  }
  if (format == "json") {
    std::cout << oci::print(states);
  } else {
    print_table(states);
  }
  return 0;
}

}  // namespace

const Command kListCommand = {
    "list", "lists containers started by leash-runtime with the given root", "[command options]",
    "Where the given root is specified via the global option \"--root\".", kFlags, 0, 0, false, 1, list};

}  // namespace leash::runtime
