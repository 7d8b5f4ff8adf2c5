#!/usr/bin/env python3
"""Writes checksums.txt: what another implementation (gguf-py, from PyPI) dequantises these files to.

Run by hand when a fixture is added: python3 make_checksums.py *.gguf > checksums.txt
A line is: file, tensor, format, elements, and the sum over k of bits(float32 y[k]) * (k * M + 1)
modulo 2^64, with M as below, which depends on every bit and on the order.
"""
import os
import sys

import numpy
from gguf import GGUFReader, dequantize

M = numpy.uint64(0x9E3779B97F4A7C15)

for path in sys.argv[1:]:
    for tensor in GGUFReader(path).tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype("<f4").reshape(-1)
        bits = values.view("<u4").astype("u8")
        weights = numpy.arange(bits.size, dtype="u8") * M + numpy.uint64(1)
        total = (bits * weights).sum(dtype="u8")
        print(os.path.basename(path), tensor.name, tensor.tensor_type.name, bits.size,
              f"{int(total):016x}")
