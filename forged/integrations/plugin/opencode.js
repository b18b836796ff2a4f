// Written by `forgectl setup` (forged @version@); `forgectl setup --remove opencode` removes it.
//
// Sends the events of a session to forged and appends its answers to the prompt. Each event is one run of forged's
// hook, with a payload on its standard input. A failure there has no effect here.

import { spawnSync } from "node:child_process"

const HOOK = "@hook@"
const SERVER = "@server@"
const WAITS_MS = 5000
const MOST_SESSIONS = 100

function tell(payload) {
  if (process.env.FORGED_BYPASS) return {}
  try {
    const [program, ...args] = HOOK
    const done = spawnSync(program, args, {
      input: JSON.stringify(payload),
      timeout: WAITS_MS,
      maxBuffer: 4 << 20,
      stdio: ["pipe", "pipe", "ignore"],
    })
    return done.status === 0 && done.stdout.length ? JSON.parse(done.stdout.toString()) : {}
  } catch {
    return {}
  }
}

export const Forged = async ({ client, directory }) => {
  // State of a session: the current prompt, the texts of the newest answer, and text for the next prompt.
  const sessions = new Map()

  function session(id) {
    if (!sessions.has(id)) {
      if (sessions.size >= MOST_SESSIONS) sessions.delete(sessions.keys().next().value)
      sessions.set(id, { turn: "", prompt: "", answer: "", texts: new Map(), waiting: "", inner: false })
    }
    return sessions.get(id)
  }

  function happened(name, id, more = {}) {
    const told = tell({ hook_event_name: name, session_id: id, cwd: directory, ...more })
    if (told.systemMessage)
      client.tui.showToast({ body: { title: "forged", message: told.systemMessage, variant: "info" } }).catch(() => {})
    return told.hookSpecificOutput?.additionalContext ?? ""
  }

  // `opencode run` puts quotation marks around a prompt with blanks, which would mark it as quoted.
  const bare = (text) =>
    process.argv.includes("run") && /^"[^]*"$/.test(text) ? text.slice(1, -1).replaceAll('\\"', '"') : text

  const typed = (parts) =>
    parts.filter((part) => part.type === "text" && !part.synthetic && !part.ignored).map((part) => bare(part.text)).join("\n")

  const seen = {
    "session.created": ({ info }) => {
      if (info.parentID) session(info.id).inner = true // of a subagent
      else happened("SessionStart", info.id, { source: "startup" })
    },
    "session.deleted": ({ info }) => {
      const { inner } = session(info.id)
      sessions.delete(info.id)
      if (!inner) happened("SessionEnd", info.id, { reason: "deleted" })
    },
    "session.compacted": ({ sessionID }) => {
      const one = session(sessionID)
      if (!one.inner) one.waiting = happened("PostCompact", sessionID)
    },
    "message.updated": ({ info }) => {
      const one = session(info.sessionID)
      if (info.role !== "assistant" || info.summary || info.id === one.answer) return
      one.answer = info.id
      one.texts.clear()
    },
    "message.part.updated": ({ part }) => {
      const one = session(part.sessionID)
      if (part.type === "text" && !part.synthetic && part.messageID === one.answer) one.texts.set(part.id, part.text)
    },
    "session.idle": ({ sessionID }) => {
      const one = session(sessionID)
      if (one.inner || !one.turn) return
      const more = { turn_id: one.turn, prompt: one.prompt, last_assistant_message: [...one.texts.values()].join("\n") }
      one.turn = ""
      happened("Stop", sessionID, more)
    },
  }

  return {
    config: async (config) => {
      config.mcp = { ...config.mcp, forged: SERVER }
    },
    event: async ({ event }) => {
      try {
        seen[event.type]?.(event.properties)
      } catch {}
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const one = session(sessionID)
      const prompt = typed(parts)
      const last = parts.at(-1)
      if (one.inner || !prompt || !last) return
      Object.assign(one, { turn: message.id, prompt })
      const found = happened("UserPromptSubmit", sessionID, { turn_id: message.id, prompt })
      const text = [one.waiting, found].filter(Boolean).join("\n\n")
      one.waiting = ""
      // A hidden part of the prompt: it stays in the session until a compaction.
      const part = { id: `${last.id}f`, sessionID, messageID: message.id, type: "text", text }
      if (text) parts.push({ ...part, synthetic: true, ignored: true, metadata: { forged: true } })
    },
    // Left out for the model that makes a title of the prompt, and put back for the one that answers it.
    "experimental.chat.messages.transform": async (_, { messages }) => {
      for (const { parts } of messages) for (const part of parts) if (part.metadata?.forged) part.ignored = false
    },
    // A compaction in the middle of a turn is followed by no prompt.
    "experimental.chat.system.transform": async ({ sessionID }, { system }) => {
      const waiting = sessionID && sessions.get(sessionID)?.waiting
      if (waiting) system.push(waiting)
    },
    "experimental.session.compacting": async ({ sessionID }) => {
      if (!session(sessionID).inner) happened("PreCompact", sessionID, { trigger: "auto" })
    },
  }
}
