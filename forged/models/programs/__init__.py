"""A person's own agent, or any program of theirs, as a chat model: the prompt goes in, the reply comes out.

`chat` is the ChatModel, `rows` says how each agent is called so that it is nothing but a model, `running` and
`guard` are its life as a process, `answers` reads what it printed.
"""
