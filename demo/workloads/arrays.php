<?php
// Four arrays of arrays of strings, each written as text, read again and sorted.
for ($phase = 0; $phase < 4; $phase++) {
  $lists = [];
  for ($i = 0; $i < 200000; $i++) $lists["k" . ($i % 50021)][] = "value $i";
  $text = serialize($lists);
  $read = unserialize($text);
  usort($read, fn($a, $b) => count($a) <=> count($b));
}
echo count($read), "\n";
