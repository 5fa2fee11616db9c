// leash-runtime start: the word that a created container waits for.
#include "runtime/start.h"

#include "runtime/command.h"

namespace leash::runtime {

namespace {

Result<int> start(const GlobalOptions& options, const args::Parsed& arguments) {
  TRY(const Container container, StateStore(options.root).load(arguments.positionals()[0]));
  TRY_VOID(start_container(container));
  return 0;
}

}  // namespace

const Command kStartCommand = {
    "start", "executes the user defined process in a created container", "<container-id>",
    "   The start command executes the user defined process in a created container.", {}, 1, 1, false, 1, start};

}  // namespace leash::runtime
