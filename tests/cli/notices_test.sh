. "$(dirname "$0")/lib.sh"

# What the files of a model leave unsaid, whoever is to run it is told once: here, how its tokenizer cuts text.
outrider convert "$DATA/models/llama" --out said.gguf --type f16 >/dev/null
python3 - <<'PYTHON'
data = open("said.gguf", "rb").read()
assert data.count(b"tokenizer.ggml.pre") == 1
open("unsaid.gguf", "wb").write(data.replace(b"tokenizer.ggml.pre", b"tokenizer.ggml.xxx"))
PYTHON
notice='unsaid.gguf: does not say in tokenizer.ggml.pre'
told() { equals "$1" "$(grep -c "$notice" "$2" || true)"; }

outrider run --model said.gguf --prompt x --max-tokens 1 >/dev/null 2>err.txt
told 0 err.txt
outrider run --model unsaid.gguf --prompt x --max-tokens 1 >/dev/null 2>err.txt
told 1 err.txt
outrider run --model said.gguf --draft unsaid.gguf --prompt x --max-tokens 1 >/dev/null 2>err.txt
told 1 err.txt
outrider plan --model unsaid.gguf --memory 400MiB >plan.txt 2>err.txt
told 1 err.txt
told 0 plan.txt

outrider convert unsaid.gguf --out again.gguf >out.txt 2>err.txt
told 1 err.txt
outrider inspect unsaid.gguf >out.txt
told 1 out.txt
contains "$(cat out.txt)" 'but             unsaid.gguf: does not say'
outrider inspect unsaid.gguf --json >out.txt
told 1 out.txt

trap 'kill "$server_pid" 2>/dev/null || true' EXIT
start --model unsaid.gguf --listen 127.0.0.1:0
told 1 server.log
kill -TERM "$server_pid"
wait "$server_pid" || fail "the server ended with $?"
start --model said.gguf --draft unsaid.gguf --listen 127.0.0.1:0
told 1 server.log
