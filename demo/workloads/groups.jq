# Makes 60,000 objects, groups them by name and adds their values up.
[range(60000) | {id: ., name: "n\(. * 7919 % 10007)", tags: ["t\(. % 3)", "t\(. % 5)", "t\(. % 7)"], v: (. * 31 % 1000)}]
| group_by(.name)
| map({name: .[0].name, count: length, sum: (map(.v) | add), tags: (map(.tags[]) | unique)})
| length
