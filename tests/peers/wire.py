"""What a client in Python has of ours: the messages, compiled from the .proto, and growth in bits."""
import pathlib
import sys
import tempfile

from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[2]


def stubs():
    """Messages and service, from the .proto alone."""
    out = tempfile.mkdtemp()
    files = [f"-I{ROOT}/proto", f"--python_out={out}", f"--grpc_python_out={out}", f"{ROOT}/proto/outrider/v1/verifier.proto"]
    if protoc.main(["protoc", *files]) != 0:
        sys.exit("protoc does not take the .proto")
    sys.path.insert(0, out)
    from outrider.v1 import verifier_pb2, verifier_pb2_grpc

    return verifier_pb2, verifier_pb2_grpc


def growth(nodes):
    """Of nodes, which are (step, doubt, token), as the .proto has it (Grow.nodes); tokens are told by their numbers."""
    width = max(token for _, _, token in nodes).bit_length() or 1
    bits = golomb(len(nodes), 4) + number(width - 1, 5)
    for step, doubt, token in nodes:
        bits += golomb(step, 1) + golomb(doubt, 1) + "0" + number(token, width)
    bits += "0" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def number(value, width):
    return format(value, f"0{width}b")


def golomb(value, k):
    shifted = value + 2**k
    return "1" * (shifted.bit_length() - 1 - k) + "0" + format(shifted, "b")[1:]
