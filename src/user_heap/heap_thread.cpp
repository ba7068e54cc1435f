#include "user_heap/heap_thread.h"

namespace strata {

alignas(4096) char g_no_heap_table[HeapThread::kBytes];
constinit thread_local char* t_heap_table = g_no_heap_table;

}  // namespace strata
