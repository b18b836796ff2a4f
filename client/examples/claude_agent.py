"""An agent on claude-agent-sdk with a long-term memory: one turn for each line that it reads.

    pip install claude-agent-sdk ./client
    python client/examples/claude_agent.py WORKSPACE

The SDK keeps the conversation, so a hook of the SDK adds only new memories to a prompt (`mode="append"`).
After a compaction they are added again. Without a daemon the agent works without memories.
"""

from __future__ import annotations

import asyncio
import sys
import uuid

from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, TextBlock

from forged_client import AsyncClient, AsyncObserver

NAME = "claude-agent-sdk"  # the agent's name in `forgectl captured`


class Memory:
    """SDK hooks: inject memories before a turn, capture messages before a compaction."""

    def __init__(self, workspace: str, forged: AsyncClient, observer: AsyncObserver, session: str) -> None:
        self.said: list[object] = []
        self._workspace, self._session = workspace, session
        self._forged, self._observer = forged, observer

    def hooks(self) -> dict:
        return {
            "UserPromptSubmit": [HookMatcher(hooks=[self._before_turn])],
            "PreCompact": [HookMatcher(hooks=[self._before_compaction])],
        }

    async def _before_turn(self, given: dict, *_: object) -> dict:
        found = await self._forged.retrieve(
            self._workspace,
            self.said,
            session_id=self._session,
            turn_id=str(len(self.said)),
            mode="append",
            agent=NAME,
        )
        for note in (*found.captured, found.notice):
            if note:  # for you, never for the model
                print(note, file=sys.stderr)
        if not found.text:
            return {}
        event = given["hook_event_name"]
        return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": found.text}}

    async def _before_compaction(self, *_: object) -> dict:
        self._observer.on_compaction(self.said)
        return {}


async def main(workspace: str) -> None:
    session = uuid.uuid4().hex
    async with (
        AsyncClient(autostart=True) as forged,
        AsyncObserver(workspace, session, agent=NAME) as observer,
    ):
        memory = Memory(workspace, forged, observer, session)
        options = ClaudeAgentOptions(
            cwd=workspace, hooks=memory.hooks(), setting_sources=[], system_prompt="Answer in one sentence."
        )
        async with ClaudeSDKClient(options) as claude:
            while line := await asyncio.to_thread(sys.stdin.readline):  # the event loop goes on and sends
                memory.said.append({"role": "user", "content": line.strip()})
                await claude.query(line.strip())
                async for message in claude.receive_response():
                    memory.said.append(message)  # tools and reasoning are left out
                    if isinstance(message, AssistantMessage):
                        texts = [block.text for block in message.content if isinstance(block, TextBlock)]
                        print(*texts, sep="\n", flush=True)
                observer.on_turn_complete(memory.said)  # does not wait; a task sends it
        observer.on_session_end(memory.said)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
