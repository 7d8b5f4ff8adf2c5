#!/usr/bin/env python3
"""Cuts a GGUF file down to a few tensors, without their vocabulary, to keep the tests small.

Usage: python3 cut_fixture.py IN.gguf OUT.gguf TENSOR... (needs gguf-py, from PyPI)
"""
import sys

from gguf import GGUFReader, GGUFWriter

source, target, *wanted = sys.argv[1:]
writer = GGUFWriter(target, "llama")
for tensor in GGUFReader(source).tensors:
    if tensor.name in wanted:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
