#!/usr/bin/env python3
"""Acceptance of the rules of verification on the same prompts, as one table for NOTES.md.

Usage: acceptance.py OUTRIDER TASKS.jsonl [PROMPTS [TOKENS [MODEL DRAFT]]]
OUTRIDER is the program; TASKS has a JSON object a line with "task" and "prompt", of which PROMPTS
(default 12) of code and of prose are continued by TOKENS (default 96) tokens each, with K = 5, at
temperatures 0.7 and 1 and else the default sampling. `match` is coupled verification with a draft
whose noise is its own (OUTRIDER_DEBUG=independent): what sharing the noise earns.
"""
import json
import math
import os
import subprocess
import sys

RULES = {"match": "coupled", "coupled": "coupled", "rejection": "rejection", "block": "block"}


def generate(program, prompt, rule, temperature, tokens, models):
    command = [program, "run", "--json", "-q", "--ignore-eos", "--no-escape", "-p", prompt,
               "-n", str(tokens), "-s", "1", "--draft-max", "5", "--temp", str(temperature),
               "--schedule", "serial", "--verify", RULES[rule]]
    if models:
        command += ["-m", models[0], "-md", models[1]]
    debug = {"OUTRIDER_DEBUG": "independent"} if rule == "match" else {}
    output = subprocess.run(command, env={**os.environ, **debug}, check=True,
                            stdout=subprocess.PIPE).stdout
    stats = json.loads(output)["stats"]
    assert stats["verify"] == RULES[rule]
    return stats


def row(task, temperature, rule, runs):
    verified = sum(s["verified"] for s in runs)
    accepted = sum(s["accepted"] for s in runs)
    blocks = sum(s["blocks"] - s["plain_blocks"] for s in runs)
    # The spread over prompts, as tokens of one text are no independent trials.
    per_block = [s["tokens_per_block"] for s in runs]
    mean = sum(per_block) / len(per_block)
    error = math.sqrt(sum((x - mean) ** 2 for x in per_block) / max(len(per_block) - 1, 1)
                      / len(per_block))
    return (f"| {task} | {temperature} | {rule} | {100 * accepted / verified:.1f} % | {verified} | "
            f"{(accepted + blocks) / blocks:.2f} | {error:.2f} |")


def main():
    program, tasks = sys.argv[1:3]
    n_prompts = int(sys.argv[3]) if len(sys.argv) > 3 else 12
    tokens = int(sys.argv[4]) if len(sys.argv) > 4 else 96
    with open(tasks, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    print("| text | temperature | rule | acceptance | verified | tokens a block | its standard error |")
    print("|---|---|---|---|---|---|---|")
    for task in ("prose", "code"):
        prompts = [line["prompt"] for line in lines if line["task"] == task][:n_prompts]
        for temperature in (0.7, 1.0):
            for rule in RULES:
                runs = [generate(program, prompt, rule, temperature, tokens, sys.argv[5:7])
                        for prompt in prompts]
                print(row(task, temperature, rule, runs), flush=True)


if __name__ == "__main__":
    main()
