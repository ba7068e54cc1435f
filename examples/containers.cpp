// Standard containers on Strata's malloc: one template argument each.
#include <strata/allocator.hpp>

#include <cstdio>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

using String = std::basic_string<char, std::char_traits<char>, strata::Allocator<char>>;
template <typename T>
using Vector = std::vector<T, strata::Allocator<T>>;
template <typename T>
using List = std::list<T, strata::Allocator<T>>;
template <typename K, typename V>
using Map = std::map<K, V, std::less<>, strata::Allocator<std::pair<const K, V>>>;

int main() {
  Vector<String> words;
  for (const char* word : {"allocate", "free", "allocate", "reuse", "free", "allocate"}) {
    words.emplace_back(word);
  }
  Map<String, int> counts;
  for (const String& word : words) ++counts[word];

  List<String> by_count;
  for (const auto& [word, count] : counts) by_count.push_back(word);
  by_count.sort([&](const String& a, const String& b) { return counts[a] > counts[b]; });
  for (const String& word : by_count) std::printf("%d %s\n", counts[word], word.c_str());

  // Smart pointers take the allocator, or a deleter that carries it.
  const auto shared = std::allocate_shared<Vector<int>>(strata::Allocator<int>(), 1000, 7);
  const auto unique = strata::make_unique<String>("owned by one");
  const auto array = strata::make_unique<int[]>(1000);
  return by_count.front() == "allocate" && shared->back() == 7 && unique->size() == 12 &&
                 array[999] == 0
             ? 0
             : 1;
}
