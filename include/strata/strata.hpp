#pragma once

/// \file  All of Strata in one include.

#include <strata/allocator.hpp>
#include <strata/bitmap_pool.hpp>
#include <strata/bitmap_pool_cursor.hpp>
#include <strata/bitmap_pool_geometry.hpp>
#include <strata/bitmap_pool_magazine.hpp>
#include <strata/bitmap_pool_policy.hpp>
#include <strata/bitmap_pool_view.hpp>
#include <strata/block_allocator.hpp>
#include <strata/checks.hpp>
#include <strata/coalescing_heap.hpp>
#include <strata/growing_block_allocator.hpp>
#include <strata/heap.h>
#include <strata/heap.hpp>
#include <strata/malloc.h>
#include <strata/malloc_source.hpp>
#if __has_include(<memory_resource>)  // libc++ has it from 16 on
#include <strata/memory_resource.hpp>
#endif
#include <strata/message_queue.hpp>
#include <strata/object_pool.hpp>
#include <strata/page_arena.hpp>
#include <strata/size_class_allocator.hpp>
#include <strata/thread_heaps.hpp>
