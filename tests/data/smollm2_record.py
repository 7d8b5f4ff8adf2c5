#!/usr/bin/env python3
"""Makes smollm2-greedy.json, the reference of tests/smollm2.sh, with llama.cpp's CPU backend.

Needs two running servers of llama.cpp 0.7.0 (Debian: llama.cpp-tools), raw completion, no template:
  llama-quantize --allow-requantize SmolLM2-135M-Instruct.Q4_1.gguf f32.gguf F32
  llama-server -m SmolLM2-135M-Instruct.Q4_1.gguf --device none -c 1024 -np 1 -fa off --port 8081
  llama-server -m f32.gguf                        --device none -c 1024 -np 1 -fa off --port 8082
  tests/data/smollm2_record.py 8081 8082 > tests/data/smollm2-greedy.json

"file" is the result on the file itself, where that backend rounds activations to 8 bits before each
product; "exact" is the result on the same weights written out in F32, where it does not.
"""
import json
import sys
import urllib.request

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
    "#include <stdio.h>\n\nint main(int argc, char **argv)\n{\n",
    "Water boils at 100 degrees Celsius because",
    "Q: What is 12 + 30?\nA:",
    "Die Hauptstadt von Deutschland heißt",
    "The three most important rules of good writing are:\n\n1.",
    "In 1969, the Apollo 11 mission",
    "# Shopping list\n\n- apples\n- bread\n-",
]


def post(port, path, body):
    request = urllib.request.Request("http://127.0.0.1:%s%s" % (port, path),
                                     json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))


def greedy(port, prompt):
    reply = post(port, "/completion",
                 {"prompt": prompt, "n_predict": 48, "temperature": 0, "samplers": ["temperature"],
                  "n_probs": 2, "return_tokens": True, "cache_prompt": False})
    gaps = []
    for token, row in zip(reply["tokens"], reply["completion_probabilities"]):
        first, second = row["top_logprobs"]
        assert first["id"] == token
        gaps.append(round(first["logprob"] - second["logprob"], 4))
    return {"tokens": reply["tokens"], "gaps": gaps, "text": reply["content"]}


def main():
    result = []
    for prompt in PROMPTS:
        ids = post(sys.argv[1], "/tokenize", {"content": prompt, "add_special": True})["tokens"]
        result.append({"prompt": prompt, "ids": ids, "file": greedy(sys.argv[1], prompt),
                       "exact": greedy(sys.argv[2], prompt)})
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in result)
    print('{"model": "SmolLM2-135M-Instruct.Q4_1.gguf", "prompts": [\n%s\n]}' % lines)


main()
