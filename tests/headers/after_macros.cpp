// Macros that the standard allows beside its own headers ([macro.names]), and Qt's.
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define signals public
#define slots
#define emit
#define foreach(variable, container) for (variable : container)
#define forever for (;;)

#include <strata/strata.hpp>
