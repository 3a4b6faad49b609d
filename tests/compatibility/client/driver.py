"""Calls the published library as asked on standard input, one JSON line for each call, and answers with one line each.

A call is {"id", "kind", "name", "arguments"}: kind "manager" is a method of SandboxManager, "tool" one of the tools of
the session that was created last, "session" creates one and answers with what its tools say of themselves. Calls run
side by side. The answer is {"id", "value"} or {"id", "error": {"type", "message"}}.
"""

import asyncio
import dataclasses
import json
import logging
import sys
import uuid

from boxxkite import SandboxManager
from boxxkite.tools import create_sandbox_tool_specs

logging.disable(logging.CRITICAL)

manager = SandboxManager()
tools = {}


async def create_session(name, arguments):
    options = arguments.pop("tools", {})
    for key in ("organization_id", "work_item_id"):
        if arguments.get(key) is not None:
            arguments[key] = uuid.UUID(arguments[key])
    await manager.create_session(**arguments)
    specs = create_sandbox_tool_specs(sandbox_manager=manager, session_id=arguments["session_id"], **options)
    tools.clear()
    tools.update((spec.name, spec) for spec in specs)
    return [
        {"name": spec.name, "parameters": spec.parameters, "multimodal": spec.returns_multimodal} for spec in specs
    ]


async def preview(arguments):
    """The one method whose answer is a stream."""
    arguments["content"] = arguments.get("content", "").encode()
    response = await manager.proxy_preview_request(**arguments)
    try:
        body = b"".join([chunk async for chunk in response.aiter_bytes()])
    finally:
        await response.aclose()
    return {"status": response.status_code, "body": body.decode()}


async def call_manager(name, arguments):
    if name == "proxy_preview_request":
        return await preview(arguments)
    if "input_bytes" in arguments:
        arguments["input_bytes"] = arguments["input_bytes"].encode()
    return await getattr(manager, name)(**arguments)


async def call_tool(name, arguments):
    return await tools[name].handler(**arguments)


KINDS = {"session": create_session, "manager": call_manager, "tool": call_tool}


def bare(value):
    """A copy that reads nothing by the methods of the value, which an observer may count."""
    if dataclasses.is_dataclass(value):
        return {"image": dataclasses.asdict(value)}
    if isinstance(value, dict):
        return {key: bare(item) for key, item in dict.items(value)}
    return [bare(item) for item in value] if isinstance(value, list) else value


async def answer(call, write):
    try:
        reply = {"value": bare(await KINDS[call["kind"]](call["name"], call["arguments"]))}
    except Exception as error:
        reply = {"error": {"type": type(error).__name__, "message": str(error)}}
    write(json.dumps({"id": call["id"], **reply}))


def write(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def main():
    reader = asyncio.StreamReader(limit=64 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    running = set()
    while line := await reader.readline():
        task = asyncio.create_task(answer(json.loads(line), write))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    await manager.shutdown()


asyncio.run(main())
