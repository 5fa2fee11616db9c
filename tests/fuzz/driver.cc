// Runs a fuzz target without libFuzzer: each file of the corpus as it is, then bent in ways that a fixed
// seed decides, so that every run of the test suite tries the same documents and a failure comes again.
//
//   PROGRAM DIRECTORY [ROUNDS]
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void run(const std::string& text) { LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size()); }

// One small change: a byte, a cut, a piece twice, a piece of another file, or a word that parsers trip over.
void bend(std::string& text, const std::vector<std::string>& corpus, std::mt19937& random) {
  static const char* const kWords[] = {"null", "-1", "18446744073709551615", "1e999", "[]", "{}", "\"\"", "\"\\u0000\"", "true", "[[[[", "\xff", "0.5"};
  const auto below = [&](size_t bound) { return bound == 0 ? 0 : random() % bound; };
  const size_t at = below(text.size() + 1);
  const size_t length = below(std::min<size_t>(text.size() - at, 64) + 1);
  switch (below(5)) {
    case 0:
      if (at < text.size()) text[at] = static_cast<char>(random() & 0xff);
      break;
    case 1: text.erase(at, length); break;
    case 2: text.insert(at, text.substr(at, length)); break;
    case 3: {
      const std::string& other = corpus[below(corpus.size())];
      text.insert(at, other.substr(below(other.size() + 1), below(128)));
      break;
    }
    default: text.replace(at, length, kWords[below(std::size(kWords))]); break;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: " << argv[0] << " DIRECTORY [ROUNDS]\n";
    return 2;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[1])) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    run(corpus.back());
  }
  if (corpus.empty()) {
    std::cerr << argv[1] << ": no files\n";
    return 2;
  }
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 2000;
  std::mt19937 random(20261130);
  for (int i = 0; i < rounds; ++i) {
    std::string text = corpus[random() % corpus.size()];
    for (size_t changes = 1 + random() % 4; changes > 0; --changes) bend(text, corpus, random);
    run(text);
  }
  std::cout << corpus.size() << " documents, " << rounds << " bent ones\n";
  return 0;
}
