// Runs under valgrind, which replaces the malloc or leaves it in place: the program must work both
// ways.

#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "support/check.h"

int main() {
  std::map<std::string, std::vector<int>> words;
  for (int i = 0; i < 300; ++i) words[std::to_string(i % 50)].push_back(i);
  std::thread([&] { words["thread"].assign(1000, 7); }).join();
  for (const std::size_t bytes : {10, 5000, 200'000, 3'000'000}) {
    free(realloc(std::memset(malloc(bytes), 1, bytes), bytes * 2));
    free(reallocarray(malloc(bytes), bytes, 2));
  }
  puts(words.size() == 51 ? "as expected" : "wrong");
  return 0;
}
