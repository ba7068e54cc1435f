/* A library that is loaded, allocates, and is unloaded. */
#include <stdlib.h>

void* plugin_allocate(size_t bytes) { return malloc(bytes); }
