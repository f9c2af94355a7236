"""Prints what came of the tests, and exits 1 when one failed that is not known to fail."""
import collections
import glob
import json
import sys

known = {}
for line in open(sys.argv[1], encoding="utf-8"):
    name, _, reason = line.strip().partition(" ")
    if name and not name.startswith("#"):
        known[name] = reason

outcomes, reasons = {}, {}
for path in glob.glob("results/*"):
    for line in open(path, encoding="utf-8"):
        name, outcome, why = json.loads(line)
        if outcomes.get(name) != "failed":
            outcomes[name], reasons[name] = outcome, why

skipped = collections.Counter(reasons[n] for n, o in outcomes.items() if o in ("skipped", "left out"))
for why, count in skipped.most_common():
    print(f"skip {count:4}  {why}")
unexpected = 0
for name in sorted(n for n, o in outcomes.items() if o == "failed"):
    short = name.split("[")[0]
    reason = known.get(name) or known.get(short) or known.get(short.split("::")[0])
    if reason:
        print(f"fail {name}: known: {reason}")
    else:
        print(f"FAIL {name}: {reasons[name]}")
        unexpected += 1
count = collections.Counter(outcomes.values())
print(f"python-conformance: {count['passed']} passed, {count['failed']} failed ({unexpected} of them not known), "
      f"{count['skipped']} skipped by the suite, {count['left out']} need what is left out")
sys.exit(1 if unexpected or not count["passed"] else 0)
