#!/usr/bin/env python3
"""Counts single tests in meson's testlog.json for tests/run.sh.

A Check program counts its cases ("Checks: N, Failures: N, Errors: N"); any other program counts as
one. A skipped program counts as one skip, and so does a line "SKIP: reason" of a program that ran
(its case is then not counted as passed). Fails when a test failed or none ran.
"""
import json
import re
import sys

CHECKS = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)$", re.MULTILINE)
SKIP = re.compile(r"^SKIP: (.*)$", re.MULTILINE)


def count(entry):
    """(passed, failed, reasons of skips) of one test program."""
    output = entry.get("stdout", "") + "\n" + entry.get("stderr", "")
    skips = SKIP.findall(output)
    if entry["result"] == "SKIP":
        return 0, 0, skips[:1] or ["no reason given"]
    ok = entry["result"] == "OK"
    summaries = CHECKS.findall(output)
    if not summaries:
        return int(ok), int(not ok), []
    cases = sum(int(summary[0]) for summary in summaries)
    failed = sum(int(summary[1]) + int(summary[2]) for summary in summaries)
    passed = cases - failed - len(skips)
    # A program can fail after its cases passed (a sanitizer's report), or find no case to run.
    if failed == 0 and (not ok or cases == 0):
        failed = 1
    return max(passed, 0), failed, skips


def main(path):
    passed = failed = 0
    skips = []
    try:
        with open(path, encoding="utf-8") as log:
            entries = [json.loads(line) for line in log]
    except FileNotFoundError:
        entries = []
    for entry in entries:
        name = entry["name"].split(" / ")[-1]
        n_passed, n_failed, reasons = count(entry)
        passed += n_passed
        failed += n_failed
        skips += [(name, reason) for reason in reasons]
        if n_failed:
            print("failed: %s (%s, %d)" % (name, entry["result"].lower(), n_failed))
    for name, reason in skips:
        print("skipped: %s: %s" % (name, reason))
    if passed + failed == 0:
        print("no test ran")
    print("%d passed, %d failed, %d skipped" % (passed, failed, len(skips)))
    return 1 if failed or passed == 0 else 0


sys.exit(main(sys.argv[1]))
