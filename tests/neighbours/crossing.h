#pragma once

#include <dirent.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>

#include "support/check.h"

/// \file  Blocks that the C library allocates and the program frees.

/// Makes the C library allocate in many ways. Each block is passed to `expect` before it is freed.
template <typename Expect>
void cross_the_c_library(Expect expect) {
  const auto give_back = [&](void* p) {
    CHECK(p != nullptr, "the C library has no memory");
    expect(p);
    free(p);
  };
  give_back(strdup("a string"));
  give_back(strndup("a string", 3));
  give_back(getcwd(nullptr, 0));
  give_back(realpath("/", nullptr));

  char* text = nullptr;
  CHECK(asprintf(&text, "%0500d", 7) == 500, "asprintf");
  give_back(text);

  FILE* file = tmpfile();
  CHECK(file != nullptr && fprintf(file, "%0700d\nshort\n", 1) == 707, "tmpfile");
  rewind(file);
  char* line = nullptr;
  std::size_t room = 0;
  CHECK(getline(&line, &room, file) == 701, "getline");
  // The C library resizes blocks that the program gives it.
  char* own = static_cast<char*>(malloc(2));
  std::size_t own_room = 2;
  CHECK(getline(&own, &own_room, file) == 6 && std::strcmp(own, "short\n") == 0, "getline");
  give_back(line);
  give_back(own);
  fclose(file);

  char* buffer = nullptr;
  std::size_t bytes = 0;
  FILE* stream = open_memstream(&buffer, &bytes);
  for (int i = 0; i < 3000; ++i) fprintf(stream, "%d ", i);
  fclose(stream);
  give_back(buffer);

  dirent** entries = nullptr;
  const int count = scandir("/", &entries, nullptr, alphasort);
  CHECK(count > 2, "scandir");
  for (int i = 0; i < count; ++i) give_back(entries[i]);
  give_back(entries);

  regex_t pattern;
  CHECK(regcomp(&pattern, "(a|b)*c{2,5}", REG_EXTENDED) == 0, "regcomp");
  CHECK(regexec(&pattern, "abbacc", 0, nullptr, 0) == 0, "regexec");
  regfree(&pattern);
}
