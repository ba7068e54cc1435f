# Perl: hashes of hashes, strings that grow, splitting, sorting. Prints a checksum and ends with 1 if it
# is not the one it always is.
use strict;
use warnings;

my $state = 12345;
sub draw { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return ($state >> 8) % $_[0]; }

my (%count, %follows);
my $previous = "";
for my $line (1 .. 45_000) {
  my $text = join " ", map { "w" . draw(3000) . "x" x draw(12) } 1 .. 12;
  for my $word (split / /, $text) {
    $count{$word}++;
    $follows{$previous}{$word}++ if $count{$word} < 4;
    $previous = $word;
  }
}
my $sum = 0;
for my $word (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count) {
  $sum = ($sum * 31 + $count{$word} + length $word) % 1_000_000_007;
}
$sum = ($sum * 31 + scalar keys %$_) % 1_000_000_007 for map { $follows{$_} } sort keys %follows;
print "$sum\n";
exit($sum == EXPECTED_SUM() ? 0 : 1);

sub EXPECTED_SUM { return 976052401; }
