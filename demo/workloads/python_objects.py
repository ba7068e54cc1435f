"""A CPython program's daily bread: dictionaries, lists, strings, objects, JSON there and back.

Run with PYTHONMALLOC=malloc, so that every object is the allocator's work and not that of Python's
own pools. Prints a checksum; ends with 1 if it is not the one it always is.
"""
import json
import random
import sys
import zlib

EXPECTED = 0xFDB02658


class Person:
    def __init__(self, number, name, tags):
        self.number = number
        self.name = name
        self.tags = tags

    def record(self):
        return {"number": self.number, "name": self.name, "tags": self.tags}


def main():
    random.seed(20240229)
    checksum = 0
    keep = []
    for generation in range(5):
        people = []
        for number in range(22_000):
            name = "".join(random.choices("abcdefghijklmnop", k=random.randint(3, 40)))
            people.append(Person(number, name, [f"tag{number % i}" for i in range(2, 6)]))
        by_name = {person.name: person for person in people}
        text = json.dumps([person.record() for person in by_name.values()])
        records = json.loads(text)
        words = " ".join(record["name"] for record in records).split()
        lengths = {}
        for word in words:
            lengths.setdefault(len(word), []).append(word)
        # A share of every generation stays, so that the heap ages as a service's does.
        keep.append(random.sample(people, 4_000))
        checksum = zlib.crc32(json.dumps({k: len(v) for k, v in sorted(lengths.items())}).encode(), checksum)
    checksum = zlib.crc32("".join(p.name for people in keep for p in people).encode(), checksum)
    print(f"{checksum:08x}")
    return 0 if checksum == EXPECTED else 1


if __name__ == "__main__":
    sys.exit(main())
