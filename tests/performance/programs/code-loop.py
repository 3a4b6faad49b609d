"""Evaluates a line of JSON after another and answers each by one: what a bare loop over pipes costs."""
import json
import sys

for line in sys.stdin:
    code = json.loads(line)['code']
    answer = {'result': repr(eval(code))}
    sys.stdout.write(json.dumps(answer) + '\n')
    sys.stdout.flush()
