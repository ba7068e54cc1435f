"""Twelve short phases, each with objects of sizes that the one before did not have."""
import json
import random

random.seed(3)
for phase in range(12):
    count = 20000 + 2500 * (phase % 4)
    made = {str(i): [i, str(i * 7), {"k": i % 97}] for i in range(count)}
    text = json.dumps(made)
    read = json.loads(text)
    order = sorted((value[1], key) for key, value in read.items())
    digits = "".join(first for first, _ in order)[:1000]
    pieces = [digits[i:i + random.randrange(3, 60)] for i in range(900)] * 20
    del made, read
print(len(text), len(pieces))
