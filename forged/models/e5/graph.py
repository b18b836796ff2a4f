"""The graph that onnxruntime runs: from the sum of a token's embeddings to the mean of a window's last layer.

In: a model file. Out: the graph, and the weights that lie in a file beside it, which onnxruntime maps. They
are made of one layer after the other. A matrix gets 8 bits of which 7 are used, one scale for each row:
without the instructions for products of bytes (VNNI), processors of x86 add two such products in 16 bits, and
eight bits would not fit. Numbers that come in get a scale of their own in each call, so that a row depends on
the other texts of its call: a call is of one window.

The word embeddings, 96 million numbers, stay in 4 bits in the model file, outside of the graph.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from forged.models.e5.model_file import Floats, ModelFile

INPUT = "embeddings"

_MOST = 63
_ORT = "com.microsoft"
_OPSETS = (helper.make_opsetid("", 20), helper.make_opsetid(_ORT, 1))
_FORMAT = 10


def graph_of(model: ModelFile) -> tuple[bytes, str, bytes]:
    """Return the graph, the name that it has for the file of the weights, and that file's bytes."""
    made = _Graph(model)
    value = made.normed(INPUT, "emb.ln")
    for layer in range(model.layers):
        value = made.layer(value, f"l{layer}.")
    made.node("ReduceMean", value, made.constant("tokens", np.array([1])), out="mean", keepdims=0)
    return made.finished()


class _Graph:
    """A graph that grows; every method returns the name of the value that it adds."""

    def __init__(self, model: ModelFile) -> None:
        self._model = model
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._outside: list[onnx.TensorProto] = []
        self._weights = bytearray()

    def finished(self) -> tuple[bytes, str, bytes]:
        weights = bytes(self._weights)
        name = f"{hashlib.sha256(weights).hexdigest()}.weights"
        for tensor in self._outside:
            tensor.external_data.add(key="location", value=name)
        width = self._model.width
        graph = helper.make_graph(
            self._nodes,
            "multilingual-e5-small",
            [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [1, "tokens", width])],
            [helper.make_tensor_value_info("mean", TensorProto.FLOAT, [1, width])],
            [*self._constants, *self._outside],
        )
        made = helper.make_model(graph, opset_imports=_OPSETS, ir_version=_FORMAT)
        return made.SerializeToString(deterministic=True), name, weights

    def layer(self, value: str, name: str) -> str:
        """One layer of the encoder: attention, then two matrices, each added to what came in."""
        width, inner = self._model.width, self._model.inner
        parts = [f"{name}{part}" for part in "qkv"]
        self.node("Split", self.product(value, parts, width), out=parts, axis=-1, num_outputs=3)
        heads = self.node(
            "MultiHeadAttention", *parts, out=f"{name}heads", domain=_ORT, num_heads=self._model.heads
        )
        value = self.sum_normed(value, self.product(heads, [f"{name}ao"], width), f"{name}aln")
        wide = self.node("Gelu", self.product(value, [f"{name}fi"], width), out=f"{name}gelu")
        return self.sum_normed(value, self.product(wide, [f"{name}fo"], inner), f"{name}oln")

    def product(self, value: str, names: list[str], width: int) -> str:
        """`value` by the matrices of these names, one below the other, with what is added to them."""
        matrix = np.concatenate([self._model.matrix(f"{name}.w", width) for name in names])
        added = np.concatenate([self._model.floats(f"{name}.b") for name in names])
        scales = np.maximum(np.abs(matrix).max(axis=1), np.finfo(np.float32).tiny) / _MOST
        bytes_ = np.rint(matrix / scales[:, None]).astype(np.int8)
        name = names[0]
        inputs = (
            self.outside(f"{name}.bytes", np.ascontiguousarray(bytes_.T)),
            self.constant(f"{name}.scales", scales),
            self.constant(f"{name}.zeros", np.zeros(len(scales), np.int8)),
            self.constant(f"{name}.added", added),
        )
        return self.node("DynamicQuantizeMatMul", value, *inputs, out=f"{name}.product", domain=_ORT)

    def sum_normed(self, value: str, other: str, name: str) -> str:
        settings = {"domain": _ORT, "epsilon": self._model.epsilon}
        return self.node(
            "SkipLayerNormalization", value, other, *self.floats(name), out=f"{name}.sum", **settings
        )

    def normed(self, value: str, name: str) -> str:
        settings = {"epsilon": self._model.epsilon}
        return self.node("LayerNormalization", value, *self.floats(name), out=f"{name}.normed", **settings)

    def floats(self, name: str) -> list[str]:
        """What a row is multiplied by, and what is added to it, when it has been normed."""
        return [self.constant(f"{name}.{part}", self._model.floats(f"{name}.{part}")) for part in "wb"]

    def node(self, kind: str, *inputs: str, out: str | list[str], **settings: Any) -> str:
        outputs = [out] if isinstance(out, str) else out
        self._nodes.append(helper.make_node(kind, inputs, outputs, **settings))
        return outputs[0]

    def constant(self, name: str, numbers: Floats | NDArray[np.int8] | NDArray[np.int64]) -> str:
        self._constants.append(numpy_helper.from_array(numbers, name))
        return name

    def outside(self, name: str, numbers: NDArray[np.int8]) -> str:
        """A constant whose bytes are in the file of the weights."""
        tensor = TensorProto(name=name, data_type=TensorProto.INT8, dims=numbers.shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("offset", len(self._weights)), ("length", numbers.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        self._weights += numbers.tobytes()
        self._outside.append(tensor)
        return name
