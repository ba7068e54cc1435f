/* A tiny program: what it needs beside itself is what the malloc costs everybody. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  char* text = malloc(100);
  if (text == NULL) return 1;
  strcpy(text, "hello");
  puts(text);
  free(text);
  return 0;
}
