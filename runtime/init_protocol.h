// What leash-runtime and the process that becomes the container say to each other.
//
//   create / run (parent)                        init (cloned, same binary, same memory image)
//     | -- begin {} -----------------------------> |  ids are mapped, the cgroup is joined
//     | <- open {path} / -- opened {} [tree] ----- |  a bind source that the mapped root cannot reach
//     | <- hooks {} ------------------------------ |  all mounts are there, the root is not yet changed
//     | -- continue {} --------------------------> |  prestart and createRuntime hooks have run
//     | <- ready {} | failed {text} -------------- |  everything but the last steps is done
//     | state.json, pid file, -- commit {} ------> |  init listens at <root>/<id>/init.sock from here
//   An end of file before `commit`: init exits, since nobody could ever start it.
//
//   start -> init.sock
//     | -- start {} -----------------------------> |  lock-in, startContainer hooks, seccomp, capabilities
//     | <- listener {} [seccomp fd] -------------- |  only with SCMP_ACT_NOTIFY
//     | <- exec {} | failed {text} --------------- |  just before execve
//   An end of file after `exec` is success (close-on-exec); before it, init died.
//
// exec's child speaks the same last part over a socket pair: `listener`, `exec` or `failed`.
#pragma once

#include <string_view>

namespace leash::runtime::message {

inline constexpr std::string_view kBegin = "begin";
inline constexpr std::string_view kOpen = "open";
inline constexpr std::string_view kOpened = "opened";
inline constexpr std::string_view kHooks = "hooks";
inline constexpr std::string_view kContinue = "continue";
inline constexpr std::string_view kReady = "ready";
inline constexpr std::string_view kCommit = "commit";
inline constexpr std::string_view kStart = "start";
inline constexpr std::string_view kListener = "listener";
inline constexpr std::string_view kExec = "exec";
inline constexpr std::string_view kFailed = "failed";

}  // namespace leash::runtime::message
