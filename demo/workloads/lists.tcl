# Five dictionaries of lists, each built, walked, sorted and dropped.
for {set phase 0} {$phase < 5} {incr phase} {
  set lists [dict create]
  for {set i 0} {$i < 120000} {incr i} { dict lappend lists [expr {$i % 30011}] "v$i" }
  set count 0
  dict for {key list} $lists { incr count [llength $list] }
  set keys [lsort [dict keys $lists]]
  unset lists
}
puts "$count [llength $keys]"
