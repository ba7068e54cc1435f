// A library that loads another. See plugin_of_a_plugin.cpp.

#include <dlfcn.h>
#include <unistd.h>

#include "support/check.h"

/// opaque() makes it a call, not a jump: the C library is to see that this library asks.
extern "C" void* outer_load(const char* name) {
  return opaque(dlopen(name, RTLD_NOW | RTLD_DEEPBIND));
}
