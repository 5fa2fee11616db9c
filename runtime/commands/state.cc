// leash-runtime state: one container as JSON.
#include <iostream>

#include "runtime/command.h"
#include "runtime/state_store.h"

namespace leash::runtime {

namespace {

Result<int> state(const GlobalOptions& options, const args::Parsed& arguments) {
  TRY(const Container container, StateStore(options.root).load(arguments.positionals()[0]));
  TRY(const oci::State document, container.state());
  std::cout << oci::print(document);
  return 0;
}

}  // namespace

const Command kStateCommand = {
    "state", "output the state of a container", "<container-id>",
    "The state command outputs current state information for the instance of a container.", {}, 1, 1, false, 1, state};

}  // namespace leash::runtime
