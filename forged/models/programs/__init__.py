"""Your own agent, or any program, as a chat model: the prompt is its input, the reply its output.

`chat` is the ChatModel. `rows` has the command with which each agent is nothing but a model. `process` and
`guard` run it, and `program_replies` parses its output.
"""
