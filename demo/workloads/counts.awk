# Counts the words of 100,000 lines, and keeps a part of each line.
BEGIN {
  srand(1)
  for (line = 0; line < 100000; line++) {
    text = ""
    for (i = 0; i < 10; i++) text = text "w" int(rand() * 200000) " "
    fields = split(text, words, " ")
    for (i = 1; i <= fields; i++) count[words[i]]++
    kept[line] = words[1] " " words[fields]
  }
  print asorti(count, names), length(kept)
}
