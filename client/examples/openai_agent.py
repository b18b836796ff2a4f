"""An agent on openai-agents with a long-term memory: one turn for each line that it reads.

    pip install openai-agents ./client
    python client/examples/openai_agent.py WORKSPACE

The instructions are built anew for each turn, so each time they get all memories of the session
(`mode="block"`, the default). Without a daemon the agent works without memories.
"""

from __future__ import annotations

import asyncio
import sys
import uuid

from agents import Agent, Runner

from forged_client import AsyncClient, AsyncObserver

NAME = "openai-agents"  # the agent's name in `forgectl captured`
RULES = "You are a helpful agent. Answer in one sentence."


async def main(workspace: str) -> None:
    session, said = uuid.uuid4().hex, []
    async with (
        AsyncClient(autostart=True) as forged,
        AsyncObserver(workspace, session, agent=NAME) as observer,
    ):
        while line := await asyncio.to_thread(sys.stdin.readline):  # the event loop goes on and sends
            said.append({"role": "user", "content": line.strip()})
            found = await forged.retrieve(
                workspace, said, session_id=session, turn_id=str(len(said)), agent=NAME
            )
            for note in (*found.captured, found.notice):
                if note:  # for you, never for the model
                    print(note, file=sys.stderr)

            agent = Agent(name="Example", instructions=f"{RULES}\n\n{found.text}")
            result = await Runner.run(agent, said)
            print(result.final_output, flush=True)

            said = result.to_input_list()
            observer.on_turn_complete(said)  # does not wait; a task sends it
        observer.on_session_end(said)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
