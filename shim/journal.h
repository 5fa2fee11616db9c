// The shim's own diagnostics: lines of shim.log, which is descriptor 2 once the log directory is open.
// Objects are named, values are not: no secret, no header, no body.
#pragma once

#include <string_view>

namespace leash::shim {

// One line, one write(2): "2026-11-30T04:05:06Z leash-shim: <message>".
void note(std::string_view message);

}  // namespace leash::shim
