"""Build the onnx graph: from the sums of token embeddings to the mean of each layer.

Weights are in a separate file, which onnxruntime maps, built layer by layer. A matrix has 8 bits of which 7
are used, one scale a row, because without VNNI x86 adds two products in 16 bits. The activations of a call
share one scale, so a call has one window. Two steps keep that scale small. Normed activations are divided by
the size that the norm gives each of them, and the outlier activation is multiplied separately. Vectors then
have a cosine of 0.999 with those of unrounded weights; without these two steps, of 0.996. The 96 million
weights of word embeddings stay in 4 bits in the model file.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from forged.models import LAYERS
from forged.models.e5.encoder import weights
from forged.models.e5.model_file import Floats, ModelFile

INPUT = "embeddings"

_MOST = 63
# Index, for each layer of this model file, of the activation between its last two matrices that for some
# token of every text is 2 to 15 times as large as any other; the last layers have none.
_OUTLIERS = (318, 1462, 354, 408, 778, 658, 1152, 413, 563)
_DEVIATIONS = 3  # from the mean: the usual range of a normed activation
_ORT = "com.microsoft"
_OPSETS = (helper.make_opsetid("", 20), helper.make_opsetid(_ORT, 1))
_FORMAT = 10


def graph_of(model: ModelFile) -> tuple[bytes, str, bytes]:
    """Return the onnx graph of a model file, the file name of its weights, and the bytes of that file."""
    made, norm = _GraphBuilder(model), "emb.ln"
    value, tokens = made.add_norm(INPUT, norm), made.add_constant("tokens", np.array([1]))
    for layer in range(model.layers):
        value, norm = made.add_attention(value, norm, f"l{layer}."), f"l{layer}.aln"
        value, norm = made.add_feed_forward(value, norm, layer), f"l{layer}.oln"
        if layer in LAYERS:
            made.add_node("ReduceMean", value, tokens, out=f"mean.{layer}", keepdims=0)
    return made.serialized()


class _GraphBuilder:
    """Builder of the onnx graph; methods that add nodes return the name of a value."""

    def __init__(self, model: ModelFile) -> None:
        self._model = model
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._outside: list[onnx.TensorProto] = []
        self._weights = bytearray()

    def serialized(self) -> tuple[bytes, str, bytes]:
        """Return the graph, the file name of its weights, and the bytes of that file."""
        data = bytes(self._weights)
        name = f"{hashlib.sha256(data).hexdigest()}.weights"
        for tensor in self._outside:
            tensor.external_data.add(key="location", value=name)
        width = self._model.width
        graph = helper.make_graph(
            self._nodes,
            "multilingual-e5-small",
            [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [1, "tokens", width])],
            [
                helper.make_tensor_value_info(f"mean.{layer}", TensorProto.FLOAT, [1, width])
                for layer in LAYERS
            ],
            [*self._constants, *self._outside],
        )
        made = helper.make_model(graph, opset_imports=_OPSETS, ir_version=_FORMAT)
        return made.SerializeToString(deterministic=True), name, data

    def add_attention(self, value: str, norm: str, layer: str) -> str:
        """Add a layer's attention block to a value normed by `norm`, with the residual sum and its norm."""
        parts = [f"{layer}{part}" for part in "qkv"]
        self.add_node(
            "Split", self.add_product_of_normed(value, norm, parts), out=parts, axis=-1, num_outputs=3
        )
        settings = {"domain": _ORT, "num_heads": self._model.heads}
        heads = self.add_node("MultiHeadAttention", *parts, out=f"{layer}heads", **settings)
        out = self.add_product(heads, self.matrix(f"{layer}ao"), f"{layer}ao")
        return self.add_residual_norm(value, out, f"{layer}aln")

    def add_feed_forward(self, value: str, norm: str, layer: int) -> str:
        """Add a layer's feed-forward block to a value normed by `norm`, with residual sum and norm."""
        name, matrix = f"l{layer}.fo", self.matrix(f"l{layer}.fo")
        inner = self.add_node(
            "Gelu", self.add_product_of_normed(value, norm, [f"l{layer}.fi"]), out=f"{name}.in"
        )
        if layer < len(_OUTLIERS):
            out = self.add_product_with_outlier(inner, matrix, name, _OUTLIERS[layer])
        else:
            out = self.add_product(inner, matrix, name)
        return self.add_residual_norm(value, out, f"l{layer}.oln")

    def add_product_of_normed(self, value: str, norm: str, names: list[str]) -> str:
        """Add the product of stacked matrices with a normed value, scaled by the norm's own range."""
        scale, shift = (np.abs(self._model.floats(f"{norm}.{part}")) for part in "wb")
        spans = _DEVIATIONS * scale + shift
        even = self.add_node(
            "Mul", value, self.add_constant(f"{names[0]}.spans", 1 / spans), out=f"{names[0]}.even"
        )
        added = np.concatenate([self._model.floats(f"{name}.b") for name in names])
        return self.add_product(even, self.matrix(*names) * spans, names[0], added)

    def add_product_with_outlier(self, value: str, matrix: Floats, name: str, loud: int) -> str:
        """Add a product with a matrix whose outlier activation is multiplied apart, which keeps precision."""
        quiet = np.ones(matrix.shape[1], np.float32)
        column, quiet[loud] = matrix[:, loud].copy(), 0
        where = self.add_constant(f"{name}.where", np.array([loud]))
        alone = self.add_node("Gather", value, where, out=f"{name}.alone", axis=-1)
        apart = self.add_node("Mul", alone, self.add_constant(f"{name}.column", column), out=f"{name}.apart")
        rest = self.add_node("Mul", value, self.add_constant(f"{name}.quiet", quiet), out=f"{name}.rest")
        return self.add_node("Add", self.add_product(rest, matrix * quiet, name), apart, out=f"{name}.both")

    def add_product(self, value: str, matrix: Floats, name: str, added: Floats | None = None) -> str:
        """Add the product of a value and a matrix, quantized to int8, plus `added` or the bias of `name`."""
        scales = np.abs(matrix).max(axis=1) / _MOST
        added = self._model.floats(f"{name}.b") if added is None else added
        inputs = (
            self.add_external_constant(f"{name}.bytes", np.rint(matrix / scales[:, None]).T.astype(np.int8)),
            self.add_constant(f"{name}.scales", scales),
            self.add_constant(f"{name}.zeros", np.zeros(len(scales), np.int8)),
            self.add_constant(f"{name}.added", added),
        )
        return self.add_node("DynamicQuantizeMatMul", value, *inputs, out=f"{name}.product", domain=_ORT)

    def matrix(self, *names: str) -> Floats:
        """Return the named matrices of the model file as float32, one below the other."""
        rows = [(name, len(self._model.floats(f"{name}.b"))) for name in names]
        return np.concatenate([weights(self._model.blocks(f"{name}.w", count)) for name, count in rows])

    def add_residual_norm(self, value: str, other: str, norm: str) -> str:
        """Add the sum of two values, normed by `norm`."""
        settings = {"domain": _ORT, "epsilon": self._model.epsilon}
        inputs = (value, other, *self.add_norm_constants(norm))
        return self.add_node("SkipLayerNormalization", *inputs, out=f"{norm}.sum", **settings)

    def add_norm(self, value: str, norm: str) -> str:
        """Add the layer normalization of a value, with the weight and bias of `norm`."""
        settings = {"epsilon": self._model.epsilon}
        return self.add_node(
            "LayerNormalization", value, *self.add_norm_constants(norm), out=f"{norm}.normed", **settings
        )

    def add_norm_constants(self, norm: str) -> list[str]:
        """Add the weight and the bias of a norm as constants, and return their names."""
        return [self.add_constant(f"{norm}.{part}", self._model.floats(f"{norm}.{part}")) for part in "wb"]

    def add_node(self, kind: str, *inputs: str, out: str | list[str], **settings: Any) -> str:
        """Add a node and return the name of its first output."""
        outputs = [out] if isinstance(out, str) else out
        self._nodes.append(helper.make_node(kind, inputs, outputs, **settings))
        return outputs[0]

    def add_constant(self, name: str, numbers: NDArray[Any]) -> str:
        """Add a constant to the graph and return its name."""
        self._constants.append(numpy_helper.from_array(numbers, name))
        return name

    def add_external_constant(self, name: str, numbers: NDArray[np.int8]) -> str:
        """Add a constant with its bytes in the weights file, and return its name."""
        tensor = TensorProto(name=name, data_type=TensorProto.INT8, dims=numbers.shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("offset", len(self._weights)), ("length", numbers.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        self._weights += numbers.tobytes()
        self._outside.append(tensor)
        return name
