#!/usr/bin/env python3
"""What speculation costs and earns, side by side: plain decoding, fixed K, pipelined and auto take turns.

    tests/bench/speculation.py [--rounds N] [--tokens N] [--program build/apps/outrider] [case ...]

For each case one table. Time is prefill and generation together; `time` is its median over plain
decoding's of the same round, with the 95 % limits of that median (order statistics). The promise of
auto is: at most 1.02 and one block. Latencies are between tokens given out, of all rounds: the median of
each round's percentile. Each round has a prompt of prompts.jsonl and a seed of its own. The texts are
compared: any difference ends the program."""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = 'apps/models/outrider-demo-target.gguf'
DRAFT = 'apps/models/outrider-demo-draft.gguf'
RANDOM = 'tests/data/models/random-draft.gguf'
PROMPTS = 'tests/bench/prompts.jsonl'
# name: (draft, task of the prompts, modes)
PLAIN = ('plain', ['--draft-max', '0'])
AUTO = ('auto', [])
AUTO_DRAFT = ('auto, draft', ['--drafter', 'model'])
AUTO_NGRAM = ('auto, n-gram', ['--drafter', 'ngram'])
FIXED = [(f'K = {k}', ['--draft-max', str(k), '--drafter', 'model']) for k in (1, 3, 5, 8)]
TWICE = ['-devd', '0', '--drafter', 'model']
CASES = {
    'code': (DRAFT, 'code', [AUTO, AUTO_DRAFT, AUTO_NGRAM] + FIXED),
    'prose': (DRAFT, 'prose', [AUTO, AUTO_DRAFT, AUTO_NGRAM] + FIXED),
    'twice': (DRAFT, 'code', [('serial, K = 5', TWICE + ['--draft-max', '5', '--schedule', 'serial']),
                              ('pipelined, K = 5', TWICE + ['--draft-max', '5', '--schedule',
                                                            'pipelined']),
                              ('auto', TWICE)]),
    'one-queue': (DRAFT, 'code', [('serial, K = 5', ['--draft-max', '5']),
                                  ('pipelined, K = 5', ['--draft-max', '5', '--schedule', 'pipelined'])]),
    # Never slower: what auto could lose with a draft model, whatever n-gram lookup gains beside it.
    'random-draft': (RANDOM, 'prose', [AUTO, AUTO_DRAFT, FIXED[2]]),
    'equal-draft': (TARGET, 'prose', [AUTO, AUTO_DRAFT, FIXED[2]]),
    'repetitive': (DRAFT, 'repetitive', [AUTO, AUTO_NGRAM]),
    'adversarial': (DRAFT, 'random-words', [AUTO, AUTO_DRAFT, FIXED[2]]),
}


def run(arguments, draft, prompt, mode, seed):
    command = [arguments.program, 'run', '-m', TARGET, '-md', draft, '-n', str(arguments.tokens), '-s',
               str(seed), '--temp', '0.7', '--ignore-eos', '--json', '-q', *mode]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, input=prompt.encode())
    out = json.loads(done.stdout)
    stats = out['stats']
    return {
        'tokens': out['tokens'],
        'ms': stats['prefill_ms'] + stats['generate_ms'],
        'latency': stats['latency_ms'],
        'acceptance': stats['acceptance'] if stats['verified'] else None,
        'plain': stats['plain_blocks'] / max(1, stats['blocks']),
        'per_block': stats['tokens_per_block'],
    }


def median_limits(values):
    """95 % limits of a median: the order statistics between which it lies with that chance."""
    values, n = sorted(values), len(values)
    below, low = 0.0, 0
    for k in range(n):
        below += math.comb(n, k) * 0.5 ** n
        if below > 0.025:
            break
        low = k + 1
    if low == 0:
        return float('nan'), float('nan')  # too few rounds for any statement
    return values[low - 1], values[n - low]


def number(value, form):
    return '-' if value is None or math.isnan(value) else form % value


def table(arguments, name):
    draft, task, modes = CASES[name]
    with open(os.path.join(ROOT, PROMPTS)) as lines:
        prompts = [p['prompt'] for p in map(json.loads, lines) if p['task'] == task]
    modes = [PLAIN] + modes
    rounds = {mode: [] for mode, _ in modes}
    for i in range(arguments.rounds):
        order = modes if i % 2 == 0 else modes[::-1]
        for mode, options in order:
            rounds[mode].append(run(arguments, draft, prompts[i % len(prompts)], options,
                                    seed=i))
        texts = {tuple(rounds[mode][i]['tokens']) for mode, _ in modes}
        if len(texts) != 1:
            sys.exit(f'{name}, seed {i}: the texts differ')
    print(f'\n{name}: {os.path.basename(draft)}, {arguments.tokens} tokens, {arguments.rounds} rounds')
    print(f'{"":18} tokens/s   time  95 % limits    accept.  a block  plain   p50    p95    p99    max ms')
    for mode, _ in modes:
        ratios = [r['ms'] / p['ms'] for r, p in zip(rounds[mode], rounds['plain'])]
        low, high = median_limits(ratios)
        middle = lambda get: statistics.median(get(r) for r in rounds[mode])
        accepted = [r['acceptance'] for r in rounds[mode] if r['acceptance'] is not None]
        latency = ' '.join('%6.1f' % middle(lambda r, p=p: r['latency'][p])
                           for p in ('p50', 'p95', 'p99', 'max'))
        print(f'{mode:18} {1000 * arguments.tokens / middle(lambda r: r["ms"]):8.1f} '
              f'{statistics.median(ratios):6.3f}  {number(low, "%5.3f")} to {number(high, "%5.3f")} '
              f'{number(100 * statistics.median(accepted) if accepted else None, "%8.1f %%"):>10} '
              f'{middle(lambda r: r["per_block"]):8.2f} {100 * middle(lambda r: r["plain"]):4.0f} % '
              f'{latency}', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('case', nargs='*', help=', '.join(CASES))
    parser.add_argument('--rounds', type=int, default=9)
    parser.add_argument('--tokens', type=int, default=200)
    parser.add_argument('--program', default=os.path.join(ROOT, 'build/apps/outrider'))
    arguments = parser.parse_args()
    unknown = [name for name in arguments.case if name not in CASES]
    if unknown:
        parser.error(f'no case {unknown[0]}; there are {", ".join(CASES)}')
    for name in arguments.case or CASES:
        table(arguments, name)


if __name__ == '__main__':
    main()
