// leash doctor: whether this machine can hold a container, control by control.
#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/table.h"

namespace leash::cli {

namespace {

struct Word {
  const char* text;
  Colour colour;
};

Word word_of(CheckState state) {
  switch (state) {
    case CheckState::kOk: return {"ok", Colour::kGreen};
    case CheckState::kNote: return {"note", Colour::kBlue};
    case CheckState::kWarn: return {"warn", Colour::kYellow};
    case CheckState::kFail: return {"FAIL", Colour::kRed};
  }
  return {"FAIL", Colour::kRed};
}

}  // namespace

Result<int> run_doctor(const Directories& directories) {
  std::vector<Check> checks = {check_privileges(),  check_system_calls(), check_namespaces(), check_nftables(),
                               check_overlay(),     check_seccomp(),      check_cgroups(),    check_programs(),
                               check_trust_store(), check_policy(),       check_directories(directories)};
  for (Check& check : check_docker()) checks.push_back(std::move(check));
  checks.push_back(check_podman());
  checks.push_back(note_on_builds());

  const Painter painter = Painter::for_stdout();
  std::string out;
  bool is_well = true;
  for (const Check& check : checks) {
    const Word word = word_of(check.state);
    out += painter.paint(word.colour, padded(word.text, 4)) + "  " + padded(check.name, 12) + "  " + check.text + "\n";
    is_well = is_well && check.state != CheckState::kFail;
  }
  out += is_well ? "This machine can hold leashed containers.\n" : "Something is missing: see the lines that say FAIL.\n";
  TRY_VOID(write_out(out));
  return is_well ? kExitOk : kExitFailed;
}

}  // namespace leash::cli
