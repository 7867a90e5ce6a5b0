"""A server asked by programs that know nothing of us but proto/: grpcio, its health and reflection clients, Prometheus' parser, openssl.

    stock_clients.py OUTRIDER SERVER MODEL WORK_DIR

Starts SERVER with TLS, a key and an operators' port. Growth's bits are written by wire.py, as the .proto tells it. Closes with
"N passed, N failed".
"""
import pathlib
import queue
import subprocess
import sys
import urllib.request

import grpc
import llama_cpp
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from prometheus_client.parser import text_string_to_metric_families

import wire

PROMPT = "Once upon a time there was a little"
TOKENS = 60
CHAIN = 6
SERVICE = "outrider.v1.Verifier"


class Session:
    """A Decode stream that drafts chains."""

    def __init__(self, pb, stub, call_options, prompt, chain_after):
        self.pb, self.up, self.chain_after = pb, queue.Queue(), chain_after
        self.written, self.passes, self.accepted, self.seen, self.next_id = [], 0, 0, 0, 1
        opening = pb.Open(nonce=0x5EED, attempt=1, dry_policy=pb.DRY_POLICY_WAIT)
        opening.prompt.add().tokens.ids.extend(prompt)
        opening.stops.max_tokens = TOKENS
        self.send(open=opening)
        self.down = stub.Decode(iter(self.up.get, None), **call_options)

    def send(self, **kind):
        self.up.put(self.pb.ClientMessage(**kind))

    def draft(self):
        chain = self.chain_after(self.written)
        self.first_id, self.chain = self.next_id, chain
        self.next_id += len(chain)
        # The first hangs from the root, each other one from the node before it.
        nodes = wire.growth([(int(i > 0), 1, token) for i, token in enumerate(chain)])
        self.send(grow=self.pb.Grow(seen=self.seen, first_id=self.first_id, nodes=nodes, go=True))

    def take(self, verdict):
        leaf = verdict.seen + 1 - verdict.leaf_back if verdict.leaf_back else 0
        accepted = leaf - self.first_id + 1 if leaf else 0
        self.written += self.chain[:accepted] + [verdict.next]
        self.accepted += accepted
        self.passes += 1
        self.seen += 1

    def run(self):
        for message in self.down:
            kind = message.WhichOneof("kind")
            if kind == "opened":
                self.draft()
            elif kind == "fault":
                sys.exit(f"stock_clients: {message.fault.message}")
            elif kind == "verdict":
                self.take(message.verdict)
                if message.verdict.finish:
                    self.send(close=self.pb.Close())
                    self.up.put(None)
                else:
                    self.draft()


class Server:
    """Says where it listens, and where its operators' port is."""

    def __init__(self, program, model, work):
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", work / "server.key", "-out", work / "server.pem"]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        made = subprocess.run([program, "--new-key", "stock"], check=True, capture_output=True, text=True)
        self.key = made.stdout.strip()
        (work / "keys").write_text(next(line for line in made.stderr.splitlines() if "sha256:" in line) + "\n")
        self.certificate = work / "server.pem"
        flags = ["--listen", "localhost:0", "--tls-cert", self.certificate, "--tls-key", work / "server.key", "--keys", work / "keys"]
        self.process = subprocess.Popen([program, "--model", model, "--admin", "127.0.0.1:0", *flags], stderr=subprocess.PIPE, text=True)
        self.admin = self.await_line("probes and metrics on ").rsplit(" ", 1)[1]
        self.port = self.await_line(" on ").rsplit(":", 1)[1]

    def await_line(self, text):
        for line in self.process.stderr:
            if text in line:
                return line.strip()
        sys.exit(f"stock_clients: the server ended without having said {text!r}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def stop(self):
        self.process.terminate()
        self.process.communicate(timeout=60)


def tls(port, *options):
    """Whether openssl gets through the handshake, with these options."""
    command = ["openssl", "s_client", "-connect", f"localhost:{port}", "-alpn", "h2", *options]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    return done.returncode == 0 and b"Cipher is (NONE)" not in done.stdout


def code_of(call):
    try:
        call()
        return grpc.StatusCode.OK
    except grpc.RpcError as error:
        return error.code()


class Checks:
    def __init__(self):
        self.passed, self.failed = 0, 0

    def __call__(self, good, what):
        print(f"{'ok  ' if good else 'FAIL'} {what}", flush=True)
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)


def check_sessions(check, server, channel, outrider, model):
    pb, pb_grpc = wire.stubs()
    stub = pb_grpc.VerifierStub(channel)
    key = {"metadata": [("authorization", f"Bearer {server.key}")]}
    no_key = code_of(lambda: stub.Describe(pb.DescribeRequest()))
    check(no_key == grpc.StatusCode.UNAUTHENTICATED, f"without a key: {no_key}")
    wrong = code_of(lambda: stub.Describe(pb.DescribeRequest(), metadata=[("authorization", "Bearer " + "x" * len(server.key))]))
    check(wrong == grpc.StatusCode.UNAUTHENTICATED, f"with another key: {wrong}")
    described = stub.Describe(pb.DescribeRequest(), **key)
    check(described.revision == 1 and described.vocabulary_size > 0, f"Describe: {described.model_name}")

    tokenize = subprocess.run([outrider, "tokenize", model, PROMPT], check=True, capture_output=True, text=True)
    prompt = [int(token) for token in tokenize.stdout.split()]
    asked = pb.GenerateRequest()
    asked.open.nonce = 1
    asked.open.prompt.add().tokens.ids.extend(prompt)
    asked.open.stops.max_tokens = TOKENS
    generated = [token for answer in stub.Generate(asked, **key) for token in answer.tokens]
    check(len(generated) > TOKENS // 2, f"Generate writes {len(generated)} tokens")

    def half_right(written):
        """What comes next, with every tenth token of the text wrong."""
        at = len(written)
        return [token if i % 10 else (token + 1) % described.vocabulary_size for i, token in enumerate(generated)][at : at + CHAIN] or [0]

    session = Session(pb, stub, key, prompt, half_right)
    session.run()
    check(session.written == generated, f"a session that drafts chains writes the same {len(session.written)} tokens")
    check(session.accepted > len(generated) // 2, f"with {session.accepted} drafted tokens accepted in {session.passes} passes")

    command = [outrider, "run", "--model", model, "--prompt", PROMPT, "--max-tokens", str(TOKENS), "--temperature", "0"]
    alone = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    pieces = llama_cpp.Llama(model, vocab_only=True, verbose=False)
    text = pieces.detokenize(prompt + session.written)[len(pieces.detokenize(prompt)) :]
    check(text.strip() == alone.strip(), f"which are the text of the target alone: {text[:40]!r}...")


def check_operations(check, server, channel):
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", SERVICE, "live"):
        status = health.Check(health_pb2.HealthCheckRequest(service=service)).status
        check(status == health_pb2.HealthCheckResponse.SERVING, f"health of {service!r}: {status}")
    unknown = code_of(lambda: health.Check(health_pb2.HealthCheckRequest(service="nothing")))
    check(unknown == grpc.StatusCode.NOT_FOUND, f"health of what is not here: {unknown}")

    database = ProtoReflectionDescriptorDatabase(channel)
    check(SERVICE in database.get_services(), f"reflection lists {list(database.get_services())}")
    pool = descriptor_pool.DescriptorPool(database)
    methods = sorted(method.name for method in pool.FindServiceByName(SERVICE).methods)
    check(methods == ["Decode", "Describe", "Generate"], f"and describes {methods}")

    text = urllib.request.urlopen(server.admin + "/metrics").read().decode()
    families = list(text_string_to_metric_families(text))
    samples = {sample.name: sample.value for family in families for sample in family.samples}
    check(samples.get("outrider:generation_tokens_total", 0) > TOKENS, f"Prometheus' parser reads {len(families)} metrics")
    untyped = [family.name for family in families if family.type in ("unknown", "untyped") or not family.documentation]
    check(not untyped, f"each has a type and says what it is {untyped or ''}")


def check_tls(check, server):
    for option, wanted in (("-tls1", False), ("-tls1_1", False), ("-tls1_2", True), ("-tls1_3", True)):
        # The level lets openssl offer what its default would not even try.
        level = ["-cipher", "DEFAULT@SECLEVEL=0"] if option != "-tls1_3" else []
        check(tls(server.port, option, *level) == wanted, f"openssl s_client {option}: {'taken' if wanted else 'refused'}")


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    outrider, program, model = sys.argv[1:4]
    work = pathlib.Path(sys.argv[4])
    work.mkdir(parents=True, exist_ok=True)
    check = Checks()
    with Server(program, model, work) as server:
        trust = grpc.ssl_channel_credentials(server.certificate.read_bytes())
        with grpc.secure_channel(f"localhost:{server.port}", trust) as channel:
            check_sessions(check, server, channel, outrider, model)
            check_operations(check, server, channel)
        check_tls(check, server)
        server.stop()
        check(server.process.returncode == 0, f"the server ends with {server.process.returncode}")
    print(f"{check.passed} passed, {check.failed} failed")
    return check.failed > 0


sys.exit(main())
