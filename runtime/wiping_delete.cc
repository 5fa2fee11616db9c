// Memory that this program gives back is overwritten first. config.json comes with the engine's secrets,
// parsing leaves copies of them all over the heap, and init, which waits for `start` perhaps for hours,
// has a copy of that heap. Only for leash-runtime: it replaces the global operators.
#include <malloc.h>
#include <string.h>

#include <cstdlib>
#include <new>

namespace {

void wipe_and_free(void* memory) {
  if (memory == nullptr) return;
  // All of the block, also what an element never used. glibc's M_PERTURB misses its per-thread cache.
  ::explicit_bzero(memory, ::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](std::size_t size) { return ::operator new(size); }
void operator delete(void* memory) noexcept { wipe_and_free(memory); }
void operator delete[](void* memory) noexcept { wipe_and_free(memory); }
void operator delete(void* memory, std::size_t) noexcept { wipe_and_free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { wipe_and_free(memory); }
