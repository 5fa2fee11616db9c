// The shim holds secrets: they stay off the swap device.
#pragma once

namespace leash::shim {

// mlockall(2) of what is and what comes. Where that is not allowed the shim runs all the same, and says so.
void lock_memory();

}  // namespace leash::shim
