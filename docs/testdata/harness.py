"""Hands requests to the README's verify. Standard input is one JSON object a line, standard output one status a line."""

import base64
import json
import sys

from receiver import verify

for line in sys.stdin:
    request = json.loads(line)
    try:
        verify(request["key"], request["headers"], base64.b64decode(request["body"]))
        print(204)
    except (ValueError, KeyError):
        print(400)
