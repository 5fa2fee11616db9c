// leash-runtime ps: the processes of a container, by the host's numbers.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "base/process.h"
#include "runtime/cgroup.h"
#include "runtime/command.h"
#include "runtime/state_store.h"

namespace leash::runtime {

namespace {

constexpr args::Flag kFlags[] = {
    {"format, f", args::Kind::kValue, "select one of: table or json", "\"table\""},
};

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> out;
  for (size_t at = 0; (at = line.find_first_not_of(' ', at)) != std::string_view::npos;) {
    const size_t end = std::min(line.find(' ', at), line.size());
    out.push_back(line.substr(at, end - at));
    at = end;
  }
  return out;
}

// The header and the lines of `output` whose PID is one of `pids`.
Result<void> print_lines(std::string_view output, const std::vector<pid_t>& pids) {
  bool is_header = true;
  size_t column = 0;
  while (!output.empty()) {
    const size_t end = output.find('\n');
    const std::string_view line = output.substr(0, end);
    const auto fields = words(line);
    if (is_header) {
      const auto found = std::find(fields.begin(), fields.end(), "PID");
      if (found == fields.end()) return Error("couldn't find PID field in ps output");
      column = static_cast<size_t>(found - fields.begin());
      std::cout << line << '\n';
      is_header = false;
    } else if (!fields.empty()) {
      pid_t pid = 0;
      if (column >= fields.size() ||
          std::from_chars(fields[column].data(), fields[column].data() + fields[column].size(), pid).ec != std::errc()) {
        return Error("unable to parse pid in the line of ps: " + std::string(line));
      }
      if (std::binary_search(pids.begin(), pids.end(), pid)) std::cout << line << '\n';
    }
    if (end == std::string_view::npos) break;
    output.remove_prefix(end + 1);
  }
  return {};
}

Result<int> ps(const GlobalOptions& options, const args::Parsed& arguments) {
  const std::vector<std::string>& positionals = arguments.positionals();
  const std::string format = arguments.value("format", "table");
  TRY(const Container container, StateStore(options.root).load(positionals[0]));
  TRY(const std::vector<pid_t> pids, Cgroup::from_record(container.record.cgroups).pids());
  if (format == "json") {
    std::cout << oci::print_pids(pids) << '\n';
    return 0;
  }
  if (format != "table") return Error(EINVAL, "invalid format option");

  // Engines call with no environment but PATH, or none; ps is at one of these two places everywhere.
  process::Command command;
  command.args = {"ps"};
  command.args.insert(command.args.end(), positionals.begin() + 1, positionals.end());
  if (positionals.size() == 1) command.args.emplace_back("-ef");
  command.path = "/bin/ps";
  // Whole command lines, not cut at the width of a terminal.
  command.env = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "COLUMNS=1024"};
  command.output_limit = size_t{64} << 20;  // all processes of the host, of which we print ours
  TRY(const process::Output output, process::run(command));
  if (process::exit_code(output.wait_status) != 0) {
    return Error("ps: " + process::describe_status(output.wait_status) + ": " + output.out + output.err);
  }
  TRY_VOID(print_lines(output.out, pids));
  return 0;
}

}  // namespace

const Command kPsCommand = {
    "ps", "ps displays the processes running inside a container", "[command options] <container-id> [ps options]",
    {}, kFlags, 1, -1, true, 1, ps};

}  // namespace leash::runtime
