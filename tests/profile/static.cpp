// A static executable that leaks.
#include <cstdlib>

static void* volatile kept;

[[gnu::noinline]] void leak() { kept = std::malloc(12345); }

int main() { leak(); }
