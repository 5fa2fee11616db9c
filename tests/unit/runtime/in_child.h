// Runs a function in a forked child and gives back its answer: for tests of what a process can never
// take back (a seccomp filter, dropped capabilities).
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace leash::tests {

// f's value (0..255), or 1000 + N when signal N ended the child.
template <class F>
int in_child(F&& f) {
  const pid_t child = fork();
  if (child == 0) _exit(f());
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace leash::tests
