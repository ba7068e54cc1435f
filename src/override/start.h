#pragma once

namespace strata {

/// Runs before any constructor of the program: makes the malloc ready and begins what options ask
/// for. Each file that replaces functions of the program refers to it, since of an archive only
/// what is referred to comes into a program, constructors included.
void start_before_the_program() noexcept;

}  // namespace strata
