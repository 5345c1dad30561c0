"""Writes one GGUF file's weights anew in another quantization. Runs inside the lab's virtual environment.

The source is quantized already, so a variant adds its own rounding to the source's: the Q8_0 variant keeps the source's
answers nearly all the time, the Q4_0 variant (no offset per block of 32 weights) loses precision.
"""

import pathlib
import sys

import gguf
import numpy

# The format's own number for "mostly this type" (llama_ftype), which servers show as the model's type.
FILE_TYPES = {"Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0, "Q4_0": gguf.LlamaFileType.MOSTLY_Q4_0}
# Root-mean-square error of a variant's weights ÷ the source's own root mean square: above this the file is wrong.
ERROR_BOUNDS = {"Q8_0": 0.01, "Q4_0": 0.15}
# What the writer sets by itself, or what describes the container and not the model.
OWN_FIELDS = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")


def copy_fields(reader: gguf.GGUFReader, writer: gguf.GGUFWriter) -> None:
    for field in reader.fields.values():
        if field.name.startswith(OWN_FIELDS):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)


def wanted_type(tensor: gguf.ReaderTensor, target: gguf.GGMLQuantizationType) -> gguf.GGMLQuantizationType:
    """Matrices of 4 bits take the target type; norms stay in 32 bits and the shared embedding in 8, as llama.cpp does."""
    if tensor.tensor_type == gguf.GGMLQuantizationType.Q4_1:
        return target
    return tensor.tensor_type


def write_variant(source: pathlib.Path, target: pathlib.Path, type_name: str) -> None:
    reader = gguf.GGUFReader(source)
    kind = gguf.GGMLQuantizationType[type_name]
    writer = gguf.GGUFWriter(target, arch=reader.fields["general.architecture"].contents())
    writer.add_file_type(FILE_TYPES[type_name])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    copy_fields(reader, writer)
    for tensor in reader.tensors:
        data, wanted = tensor.data, wanted_type(tensor, kind)
        if wanted != tensor.tensor_type:
            data = gguf.quants.quantize(gguf.quants.dequantize(data, tensor.tensor_type), wanted)
        writer.add_tensor(tensor.name, data, raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def verify(source: pathlib.Path, target: pathlib.Path, type_name: str) -> float:
    """Reads the variant back and compares every weight; returns the relative RMS error, raises when it is no true copy."""
    before, after = gguf.GGUFReader(source), gguf.GGUFReader(target)
    made = {tensor.name: tensor for tensor in after.tensors}
    if list(made) != [tensor.name for tensor in before.tensors]:
        raise ValueError(f"{target}: its tensors are not those of {source}")
    if missing := [name for name in before.fields if name not in after.fields]:
        raise ValueError(f"{target}: the fields {missing} are missing")
    squared_error, squared = 0.0, 0.0
    for tensor in before.tensors:
        other = made[tensor.name]
        if other.tensor_type != wanted_type(tensor, gguf.GGMLQuantizationType[type_name]):
            raise ValueError(f"{target}: {tensor.name} has type {other.tensor_type.name}")
        weights = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        gap = gguf.quants.dequantize(other.data, other.tensor_type) - weights
        squared_error += float(numpy.square(gap, dtype=numpy.float64).sum())
        squared += float(numpy.square(weights, dtype=numpy.float64).sum())
    error = (squared_error / squared) ** 0.5
    if not error < ERROR_BOUNDS[type_name]:
        raise ValueError(f"{target}: relative error {error:.4f} is above {ERROR_BOUNDS[type_name]}")
    return error


if __name__ == "__main__":
    source_path, target_path, wanted_name = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    write_variant(source_path, target_path, wanted_name)
    print(f"{verify(source_path, target_path, wanted_name):.6f}")
