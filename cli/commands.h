// The commands of `leash`. Each returns the exit code of a run that worked as far as it could say
// something (kExitOk ...), or an error that main prints after "leash: ".
#pragma once

#include <string>

#include "base/result.h"
#include "cli/containers.h"

namespace leash::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;   // an error, an invalid policy, a failed check
inline constexpr int kExitUsage = 2;    // wrong command line
inline constexpr int kExitBlocked = 3;  // `policy explain`: the request would be refused

struct PsOptions {
  bool all = false;    // ended containers too
  bool quiet = false;  // ids alone, whole
};
[[nodiscard]] Result<int> run_ps(const Directories& directories, const PsOptions& options);

struct LogsOptions {
  std::string container;  // empty: all
  std::string state;      // "", "inspected", "passed", "blocked"
  bool follow = false;
  bool json = false;
};
[[nodiscard]] Result<int> run_logs(const Directories& directories, const LogsOptions& options);

// `path` may be "-".
[[nodiscard]] Result<int> run_policy_check(const std::string& path);

struct ExplainOptions {
  std::string container;    // one of these two
  std::string policy_file;
  std::string method;
  std::string url;
};
[[nodiscard]] Result<int> run_policy_explain(const Directories& directories, const ExplainOptions& options);

[[nodiscard]] Result<int> run_doctor(const Directories& directories);

// Everything of `text` to standard output.
[[nodiscard]] Result<void> write_out(std::string_view text);

}  // namespace leash::cli
