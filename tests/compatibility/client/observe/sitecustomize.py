"""Notes which fields of an answer a program reads that uses httpx, and how long it would wait for it.

Python imports this module by itself where its directory is on PYTHONPATH, so that the program stays as it is. The notes
go to the file of BOXKITE_OBSERVED, one JSON line for each answer in the order of the requests, when the process ends.
"""

import atexit
import json
import os

import httpx

exchanges = []


class Answer(dict):
    """A JSON object that notes what is asked of it."""

    def __init__(self, value, seen, path):
        super().__init__((key, observed(item, seen, path + (key,))) for key, item in value.items())
        self._seen = seen
        self._path = path

    def _note(self, key):
        self._seen.add(".".join(map(str, self._path + (key,))))

    def __getitem__(self, key):
        self._note(key)
        return super().__getitem__(key)

    def get(self, key, default=None):
        self._note(key)
        return super().get(key, default)

    def __contains__(self, key):
        self._note(key)
        return super().__contains__(key)

    def __iter__(self):
        self._note("*")
        return super().__iter__()

    def items(self):
        self._note("*")
        return super().items()


def observed(value, seen, path):
    if isinstance(value, dict):
        return Answer(value, seen, path)
    if isinstance(value, list):
        return [observed(item, seen, path[:-1] + (f"{path[-1]}[]",) if path else ("[]",)) for item in value]
    return value


plain_json = httpx.Response.json


def observing_json(response, **options):
    value = plain_json(response, **options)
    exchange = getattr(response, "_exchange", None)
    return value if exchange is None else observed(value, exchange["reads"], ())


def noted(request):
    exchange = {"timeout": request.extensions.get("timeout"), "reads": set()}
    exchanges.append(exchange)
    return exchange


plain_send = httpx.Client.send
plain_asynchronous_send = httpx.AsyncClient.send


def observing_send(client, request, **options):
    exchange = noted(request)
    response = plain_send(client, request, **options)
    response._exchange = exchange
    return response


async def observing_asynchronous_send(client, request, **options):
    exchange = noted(request)
    response = await plain_asynchronous_send(client, request, **options)
    response._exchange = exchange
    return response


def write_notes():
    with open(os.environ["BOXKITE_OBSERVED"], "a", encoding="utf-8") as file:
        for exchange in exchanges:
            file.write(json.dumps({**exchange, "reads": sorted(exchange["reads"])}) + "\n")


if "BOXKITE_OBSERVED" in os.environ:
    httpx.Response.json = observing_json
    httpx.Client.send = observing_send
    httpx.AsyncClient.send = observing_asynchronous_send
    atexit.register(write_notes)
