// What a C++ compiler works hard at: the standard library's templates, instantiated many times
// over.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N>
struct Tag {
  int value = N;
  bool operator<(const Tag& other) const { return value < other.value; }
};

template <int N>
int use() {
  std::map<Tag<N>, std::vector<std::string>> names;
  names[Tag<N>{}].push_back(std::to_string(N));
  std::unordered_map<std::string, std::function<int(int)>> functions;
  functions["add"] = [](int x) { return x + N; };
  std::variant<int, std::string, Tag<N>> either = Tag<N>{};
  auto both = std::make_tuple(Tag<N>{}, names, std::make_shared<Tag<N>>());
  std::vector<Tag<N>> tags(10);
  std::sort(tags.begin(), tags.end());
  int sum = std::visit([](const auto&) { return N; }, either);
  return sum + functions["add"](1) + static_cast<int>(std::get<1>(both).size());
}

template <int... N>
int use_all(std::integer_sequence<int, N...>) {
  return (use<N>() + ...);
}

int main() { return use_all(std::make_integer_sequence<int, 3>{}) == 0; }
