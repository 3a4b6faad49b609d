"""Writes blocks of text to standard output, each stamped with its number, as `pattern.ts` expects them.

Arguments: number of blocks, bytes of a block, then texts that each block holds at fixed places.
"""

import os
import sys

blocks, size, texts = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
line = bytes(range(33, 127)) + b"\n"
block = bytearray((line * (size // len(line) + 1))[:size])
for index, text in enumerate(texts):
    start = 4096 + index * 50_000
    block[start:start + len(text)] = text.encode()
for number in range(blocks):
    block[0:17] = b"%016d\n" % number
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(1, rest):]
